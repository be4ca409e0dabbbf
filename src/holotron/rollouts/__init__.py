"""Many agents at once: a queue of tasks, leases on environments, retries, and a store that survives anything.

`rollout` (runner.py) is the whole of it; `store.py` is the trajectory format that reports, replay, SFT and RL read.
"""
