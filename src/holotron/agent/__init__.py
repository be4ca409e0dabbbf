"""One agent: render what was seen, ask a policy, parse its reply, act, record.

`Episode` (loop.py) drives any `Environment` with any `Policy` and returns a `Trajectory`. What a model reads and writes
is its *dialect*; what it is reminded of is its *history policy*; where its coordinates live is its *frame*.
"""
