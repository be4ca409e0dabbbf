"""The package as a library: what `holotron.run`, `holotron.evaluate`, `holotron.rollout` and `holotron.Model` are.

    result = holotron.run("Find the newest release.", url="https://www.python.org")

Everything that `holotron/__init__.py` lists is stable: within one minor version (0.x) nothing of it is renamed or
removed, and what will be is announced one version ahead. The command line is a user of this room like any other.
"""
