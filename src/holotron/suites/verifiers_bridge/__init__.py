"""What runs beside verifiers rather than beside us: `host.py` plays environments and hands each call of the model to its
parent; `direct_harness.py` is the harness it plays them with."""
