"""verifiers in a process of its own. Beside it, not beside us, run `host.py`, which plays environments and hands each
call of the model to its parent, and `direct_harness.py`, with which it plays them. `process.py` is our end of it;
`showing.py` makes something to look at of a request."""
