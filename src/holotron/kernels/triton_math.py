"""Small functions that several Triton kernels share."""
# mypy: disable-error-code="no-untyped-def"

import triton
import triton.language as tl

LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def softplus(x):
    """log(1 + e^x), with the series where 1 + e^x would lose e^x's digits."""
    e = tl.exp(tl.minimum(x, 20.0))
    small = e * (1.0 - e * (0.5 - e * (0.3333333333 - e * 0.25)))
    return tl.where(x > 20.0, x, tl.where(e < 0.03, small, tl.log(1.0 + e)))


@triton.jit
def silu(x):
    """x / (1 + e^-x). The reciprocal is a squared reciprocal root: two instructions instead of a division's eight."""
    root = tl.rsqrt(1.0 + tl.exp2(x * (-LOG2E)))
    return x * root * root
