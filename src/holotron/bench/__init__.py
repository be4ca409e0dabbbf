"""Measuring agent sessions: `holotron bench sessions`, or `python -m holotron.bench sessions` where only torch is."""
