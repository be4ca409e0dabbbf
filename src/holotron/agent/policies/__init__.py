"""Who decides: models behind a server, scripts, chance. `base.py` is the contract."""
