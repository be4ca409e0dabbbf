"""Root-mean-square norms: plain, and gated over groups as Mamba-2 wants it."""

from holotron.kernels.norm.reference import gated_rms_norm, rms_norm

__all__ = ["gated_rms_norm", "rms_norm"]
