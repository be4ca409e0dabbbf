"""Suites: which tasks there are, where they are played, and by which rules. One file each.

| file | suite |
|---|---|
| `base.py` | what a suite is, the registry, `find_suite`; how to add your own |
| `miniwob.py` | MiniWoB++, with its scripted solver in `miniwob_solver/` |
| `sites.py` | the package's own web apps, with their solver |
| `recall.py` | a word seen k steps ago: success by distance, on the web app `rounds` |
| `transfer.py` | Trac and django-oscar, by others: transfer sets that nothing is trained on |
| `grounding/` | one click on one picture: ScreenSpot and its relatives |
| `navigation/` | live web sites: WebVoyager and its subsets, Online-Mind2Web, WebGames |
| `web.py` | goals on any web pages, from a JSON-lines file |
| `painted.py`, `asked.py` | painted screens, and questions about stored pages; neither needs a browser |
| `gymnasium.py` | any Gymnasium environment that can be seen; `gymnasium_export.py` goes the other way |
| `verifiers.py` | any verifiers environment, played in a process of its own; `holotron.exchange` goes the other way |
"""
