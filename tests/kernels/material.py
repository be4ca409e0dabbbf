"""What the checks of kernels are made of: shapes, random tensors, layouts, and the error between two results."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

import holotron.kernels.linear.reference as linear_reference
from holotron.kernels.layout import Layout, Snapshot

Result = tuple[str, float, float]
BF16, FP16, FP32, FP8 = torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn
TOLERANCE = {BF16: 3e-3, FP16: 4e-4, FP32: 2e-6}  # a little over the rounding of the result


@dataclass(frozen=True)
class Sizes:
    """Shapes of a hybrid model, and how long prompts are."""

    hidden: int
    mlp: int
    heads: int
    head_dim: int
    state: int
    groups: int
    query_heads: int
    kv_heads: int
    attention_dim: int
    lengths: tuple[int, ...]
    contexts: tuple[int, ...]
    decodes: int

    @property
    def inner(self) -> int:
        return self.heads * self.head_dim

    @property
    def channels(self) -> int:
        return self.inner + 2 * self.groups * self.state


SMALL = Sizes(20, 72, 4, 20, 16, 2, 6, 2, 16, (40, 2, 75), (0, 5, 90), 3)
REAL = Sizes(5120, 20480, 128, 80, 128, 8, 40, 8, 128, (2400, 1, 37, 700), (0, 3, 9000, 1234), 20)


@dataclass(frozen=True)
class DeltaSizes:
    """Shapes of Gated DeltaNet."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int


SMALL_DELTA, REAL_DELTA = DeltaSizes(1, 2, 16, 20), DeltaSizes(16, 32, 128, 128)


class Bench:
    """A device, shapes, and a stream of random tensors."""

    def __init__(self, device: str, sizes: Sizes, seed: int = 0) -> None:
        self.device, self.sizes = device, sizes
        self.delta = REAL_DELTA if sizes is REAL else SMALL_DELTA
        # The interpreter keeps bf16 as bare bits (its products are wrong) and rounds to e4m3 without carrying: there,
        # fp16 stands in for bf16 and 8-bit inputs are drawn from numbers that need no rounding.
        self.half = BF16 if device == "cuda" else FP16
        self.generator = torch.Generator(device).manual_seed(seed)

    def normal(self, *shape: int, dtype: torch.dtype = FP32, scale: float = 1.0, shift: float = 0.0) -> Tensor:
        x = torch.randn(*shape, generator=self.generator, device=self.device) * scale + shift
        return x.to(dtype)

    def fresh(self) -> Layout:
        """Prompts from their beginning, as in training."""
        return Layout.build(self.sizes.lengths, device=self.device)

    def layout(self, prompts: bool = True, decodes: bool = True, page_size: int = 16) -> Layout:
        """Scattered rows and pages, decodes first, and (with prompts) three snapshots."""
        s = self.sizes
        d = s.decodes if decodes else 0
        lengths = [1] * d + (list(s.lengths) if prompts else [])
        contexts = [3 + 7 * i for i in range(d - 1)] + [1500] * (d > 0) + (list(s.contexts) if prompts else [])
        shuffle = torch.randperm(2 * len(lengths) + 2).tolist()
        rows, spare = shuffle[: len(lengths)], shuffle[len(lengths) :]
        snapshots = []
        if prompts:
            snapshots = [Snapshot(d, s.lengths[0] // 3, spare[0]), Snapshot(d, 2, spare[1])]
            snapshots += [Snapshot(d + 1, s.lengths[1], spare[2])]
        wanted = [-(-(c + n) // page_size) for c, n in zip(contexts, lengths, strict=True)]
        ids = torch.randperm(sum(wanted) + 3).tolist()
        pages = [[ids.pop() for _ in range(count)] for count in wanted]
        return Layout.build(
            lengths,
            contexts=contexts,
            rows=rows,
            pages=pages,
            page_size=page_size,
            num_decodes=d,
            snapshots=snapshots,
            device=self.device,
        )

    def eight_bit(self, *shape: int) -> Tensor:
        """Numbers that e4m3 can hold, in 16 bits; every row reaches the largest of them."""
        x = self.normal(*shape).to(FP8).to(self.half)
        x[..., 0] = linear_reference.FP8_MAX
        return x


def wide(*tensors: Tensor | None) -> list[Tensor]:
    return [t.double() for t in tensors]  # type: ignore[union-attr]


def error(out: Tensor, ref: Tensor) -> float:
    """Relative error in the Frobenius norm; anything not finite is infinitely wrong."""
    out, ref = out.double(), ref.double()
    if out.shape != ref.shape or not bool(torch.isfinite(out).all()):
        return float("inf")
    return float((out - ref).norm() / ref.norm().clamp_min(1e-30))


def scan_inputs(bench: Bench, tokens: int, dtype: torch.dtype) -> list[Tensor]:
    """x, dt, dt_bias, A, B, C, D as the model passes them: views into wider rows, decays from slow to fast."""
    s = bench.sizes
    convolved = bench.normal(tokens, s.channels, dtype=dtype)
    x, B, C = convolved.split([s.inner, s.groups * s.state, s.groups * s.state], dim=-1)
    dt = bench.normal(tokens, s.heads + 16, dtype=dtype)[:, 16:]
    return [
        x.unflatten(-1, (s.heads, s.head_dim)),
        dt,
        bench.normal(s.heads, shift=-2.0, scale=2.0),
        -torch.exp(bench.normal(s.heads)),
        B.unflatten(-1, (s.groups, s.state)),
        C.unflatten(-1, (s.groups, s.state)),
        bench.normal(s.heads),
    ]


def delta_inputs(bench: Bench, tokens: int, dtype: torch.dtype) -> list[Tensor]:
    """q, k, v, a, dt_bias, A, b as the model passes them: views into wider rows, decays from slow to fast."""
    g = bench.delta
    keys, inner = g.key_heads * g.key_dim, g.value_heads * g.value_dim
    q, k, v = bench.normal(tokens, 2 * keys + inner, dtype=dtype).split([keys, keys, inner], dim=-1)
    return [
        q.unflatten(-1, (g.key_heads, g.key_dim)),
        k.unflatten(-1, (g.key_heads, g.key_dim)),
        v.unflatten(-1, (g.value_heads, g.value_dim)),
        bench.normal(tokens, g.value_heads, dtype=dtype),
        bench.normal(g.value_heads, shift=-2.0, scale=2.0),
        -torch.exp(bench.normal(g.value_heads)),
        bench.normal(tokens, g.value_heads, dtype=dtype),
    ]
