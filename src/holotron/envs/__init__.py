"""Environments an agent acts in: a browser on any page, and MiniWoB++. `base.py` is the contract."""
