"""Transfer sets: real web applications by others, never trained on, with tasks that are checked by their database.

    holotron sites serve trac                  # installs it once, then opens it with a task to do
    holotron eval trac --policy ...

    install.py          an environment of its own for an application, under the user's cache
    trac_host.py        runs inside that environment, not in ours: makes the data and serves every episode
    trac.py             starts the host; an episode is a fresh copy of the database; what has changed in it
    trac_tasks.py       what is asked

Nothing here may be used for training: these pages are for measuring what carries over to software nobody here wrote.
"""
