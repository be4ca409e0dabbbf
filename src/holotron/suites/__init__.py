"""Suites: which tasks there are, where they are played, and by which rules. One file each.

base.py           what a suite is, the registry, `find_suite`; how to add your own
miniwob.py        MiniWoB++, with miniwob_solver/, its scripted solver
web.py            goals on any web pages, from a JSON-lines file
painted.py        painted screens to click on, without a browser
asked.py          questions about stored pages, without a browser
"""
