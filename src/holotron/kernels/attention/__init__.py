"""Grouped-query attention over packed sequences with paged keys and values."""

from holotron.kernels.attention.reference import attend

__all__ = ["attend"]
