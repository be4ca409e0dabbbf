"""An open factory of web apps with exact checkers. `docs/sites.md` says how to add an app, a task, a solver's plan.

    from holotron.sites.tasks import sites_tasks, templates
    from holotron.sites.environment import SitesPool

The files, in the order of reading:

    tasks.py, variation.py           templates; data, wording, look, language, size and trouble by seed
    episode.py, state.py, checks.py  one episode: SQLite state, what is wanted, what has changed, the verdict
    web.py, http.py, server.py       pages from the standard library and jinja2; one loopback port for all episodes
    looks.py, style.py, words.py     themes and layouts (training and held-out), stylesheet, four languages
    solver/                          a scripted solver for every template
    environment.py                   the `Environment`, over the browser pool
    apps/                            the apps, one folder each

Nothing here knows of models; only `environment.py` needs a browser.
"""
