"""Navigation benchmarks on live web sites, and what proves success there: see docs/judging.md.

| file | holds |
|---|---|
| `files.py` | published task files from a folder, a file or the hub, row by row; the hash of a subset |
| `places.py` | where tasks are played: the live web, or a copy at an address of your own |
| `webvoyager.py` | WebVoyager and its maintained subsets; a judge scores it |
| `online_mind2web.py` | Online-Mind2Web; a judge scores it |
| `webgames.py` | WebGames: each page shows a password when its game is won |
"""
