"""Causal depthwise convolution + SiLU over packed sequences, with a memory of the last K-1 inputs per sequence."""

from holotron.kernels.conv.reference import causal_conv

__all__ = ["causal_conv"]
