"""The live page: what agents see, think and do, in a browser, with a hand on it. A run that has ended opens in it too.

    run = LiveRun(Path("runs/web"), title="eval web")                   # live.py; RecordedRun(folder): recorded.py
    with serving(run) as page:                                          # a thread with a server on loopback
        print(page.url)
        await rollout(..., listeners=[run.hear], steer=run.steer)       # the one stream of events feeds it

The agents' side of it is a listener that notes what happened under a lock, a few microseconds an event. Everything else
is done on the server's own thread, and at a pace of its own: viewers follow documents with version numbers (`board`),
so one that is slow, or was away, gets the latest state and never a backlog.
"""
