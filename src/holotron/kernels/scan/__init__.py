"""The Mamba-2 state-space scan over packed sequences: recurrent for single tokens, chunked matrix form for prompts."""

from holotron.kernels.scan.reference import state_space_scan

__all__ = ["state_space_scan"]
