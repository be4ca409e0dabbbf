"""One folder per operation: `reference.py` is readable torch and the specification; `triton.py` is the same on a GPU.

The model calls the functions exported by each folder's `__init__`, which pick an implementation by device. Nothing here
knows about layers, weights files or scheduling.
"""
