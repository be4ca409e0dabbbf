"""What the network remembers, as plain tensors.

`Cache` is storage only: recurrent state by *row*, keys and values by *page*. Rows and pages are slow-index first, so
that one session's state is one contiguous block (one copy to swap it out) and so is one page across all layers.
The engine hands out rows and pages itself. `DecoderState` is the ready-made owner for everybody else: a batch of
sequences, each with one row and room for `capacity` tokens.

Legend: R rows, L layers of a kind, H heads, P head dim, N state size (of Gated DeltaNet: value dim and key dim),
C conv channels, K taps, Z pages, z page size, k key/value heads, D attention head dim.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from holotron.errors import CapacityError, CheckpointError
from holotron.kernels.layout import Layout
from holotron.kernels.scan import Replay
from holotron.model.config import DecoderConfig
from holotron.model.positions import Shown, packed_shifts


class DeltaStates(NamedTuple):
    """What the Gated DeltaNet layers of a model remember."""

    state_RLHPN: Tensor  # fp32 unless asked otherwise
    conv_RLKC: Tensor


@dataclass(frozen=True, eq=False)
class Cache:
    ssm_RLHPN: Tensor  # of Mamba-2; fp32 unless asked otherwise: 16-bit states drift
    conv_RLKC: Tensor  # the last K-1 inputs of each of its convolutions, oldest first
    kv_ZL2zkD: Tensor  # keys at [:, :, 0], values at [:, :, 1]
    replay: Replay | None = None  # inputs of the last few tokens, where a decode does not write the state every time
    delta: DeltaStates | None = None

    @functools.cached_property
    def _layers(self) -> dict[str, list[Any]]:
        # Per-layer views are made once: slicing them in every forward pass would cost more than some of the layers.
        count = self.ssm_RLHPN.shape[1]
        rings = [self.replay.layer(i) if self.replay is not None else None for i in range(count)]
        layers: dict[str, list[Any]] = {
            "M": list(zip(self.conv_RLKC.unbind(1), self.ssm_RLHPN.unbind(1), rings, strict=True)),
            "*": [layer.unbind(1) for layer in self.kv_ZL2zkD.unbind(1)],
        }
        if self.delta is not None:
            layers["G"] = list(zip(self.delta.conv_RLKC.unbind(1), self.delta.state_RLHPN.unbind(1), strict=True))
        return layers

    def of(self, letter: str, i: int) -> Any:
        """The memory of the i-th layer of a kind. M: convolution, state and ring; G: convolution and state; *: keys and
        values."""
        return self._layers[letter][i]

    @property
    def row_tensors(self) -> tuple[Tensor, ...]:
        """All that belongs to a row. The ring goes wherever the state goes: together they are the memory."""
        ring = self.replay.tensors if self.replay is not None else ()
        return (self.ssm_RLHPN, self.conv_RLKC, *ring, *(self.delta or ()))

    def map(self, rows: Callable[[Tensor], Tensor], pages: Callable[[Tensor], Tensor]) -> Cache:
        """The same with other rows and other pages; one without a ring."""
        assert self.replay is None
        delta = DeltaStates(*(rows(t) for t in self.delta)) if self.delta is not None else None
        return Cache(rows(self.ssm_RLHPN), rows(self.conv_RLKC), pages(self.kv_ZL2zkD), None, delta)

    @property
    def nbytes(self) -> int:
        return sum(t.nbytes for t in (*self.row_tensors, self.kv_ZL2zkD))

    @staticmethod
    def allocate(
        config: DecoderConfig,
        *,
        rows: int,
        pages: int,
        page_size: int,
        dtype: torch.dtype = torch.float32,
        state_dtype: torch.dtype | None = None,
        kv_dtype: torch.dtype | None = None,
        replay: bool = False,
        device: torch.device | str = "cpu",
    ) -> Cache:
        state_dtype = state_dtype or torch.promote_types(dtype, torch.float32)
        m, a = config.mamba, config.attention
        mambas, attentions = len(config.layers("M")), len(config.layers("*"))
        ssm = (rows, mambas, m.heads, m.head_dim, m.state) if m else (rows, 0, 0, 0, 0)
        conv = (rows, mambas, m.kernel - 1, m.conv_channels) if m else (rows, 0, 0, 0)
        kv = (pages, attentions, 2, page_size, a.kv_heads, a.head_dim) if a else (pages, 0, 2, page_size, 0, 0)
        ring = None
        if replay and m is not None:
            sizes = {"heads": m.heads, "head_dim": m.head_dim, "groups": m.groups, "state": m.state}
            ring = Replay.allocate(rows=rows, layers=mambas, **sizes, dtype=dtype, device=device)
        delta = None
        if config.delta is not None and (deltas := len(config.layers("G"))):
            d = config.delta
            delta = DeltaStates(
                torch.zeros((rows, deltas, d.value_heads, d.value_dim, d.key_dim), dtype=state_dtype, device=device),
                torch.zeros((rows, deltas, d.kernel - 1, d.conv_channels), dtype=dtype, device=device),
            )
        return Cache(
            torch.zeros(ssm, dtype=state_dtype, device=device),
            torch.zeros(conv, dtype=dtype, device=device),
            torch.zeros(kv, dtype=kv_dtype or dtype, device=device),
            ring,
            delta,
        )


class DecoderState:
    """The memory of a batch of sequences: start empty, pass it to `forward`, copy, pick rows, save, load."""

    def __init__(
        self,
        config: DecoderConfig,
        batch: int,
        *,
        capacity: int = 256,
        dtype: torch.dtype = torch.float32,
        state_dtype: torch.dtype | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.config = config
        self.lengths = [0] * batch
        self.shifts = [0] * batch  # see `positions`
        self.cache = Cache.allocate(
            config,
            rows=batch,
            pages=batch,
            page_size=capacity,
            dtype=dtype,
            state_dtype=state_dtype,
            device=device,
        )

    @property
    def batch(self) -> int:
        return len(self.lengths)

    @property
    def capacity(self) -> int:
        return self.cache.kv_ZL2zkD.shape[3]

    @property
    def nbytes(self) -> int:
        return self.cache.nbytes

    def reserve(self, capacity: int) -> None:
        """Make room for at least this many tokens per sequence."""
        if capacity <= self.capacity:
            return
        if capacity > self.config.max_positions:
            raise CapacityError(f"{capacity} tokens do not fit the model's context of {self.config.max_positions}")
        size = min(max(capacity, 2 * self.capacity), self.config.max_positions)

        def grown(old: Tensor) -> Tensor:
            new = old.new_zeros(*old.shape[:3], size, *old.shape[4:])
            new[:, :, :, : old.shape[3]] = old
            return new

        self.cache = self.cache.map(lambda t: t, grown)

    def advance(
        self,
        lengths: Sequence[int],
        rows: Sequence[int] | None = None,
        pictures: Sequence[Sequence[Shown]] | None = None,
    ) -> Layout:
        """The layout of a batch that appends `lengths[i]` tokens to row `rows[i]`; the tokens count as seen from here
        on. Rows of length one that have a context must come first to be computed as decodes. `pictures`: those among
        each sequence's new tokens, for a model that has positions in three axes."""
        rows = list(rows) if rows is not None else list(range(len(lengths)))
        contexts = [self.lengths[row] for row in rows]
        self.reserve(max(c + n for c, n in zip(contexts, lengths, strict=True)))
        for row, length in zip(rows, lengths, strict=True):
            self.lengths[row] += length
        shift_3T, before = None, [self.shifts[row] for row in rows]
        if pictures is not None or any(before):
            shift_3T, after = packed_shifts(lengths, pictures or [()] * len(lengths), before)
            for row, shift in zip(rows, after, strict=True):
                self.shifts[row] = shift
        return Layout.build(
            lengths,
            contexts=contexts,
            rows=rows,
            pages=[[row] for row in rows],
            page_size=self.capacity,
            shift_3T=shift_3T,
            device=self.cache.ssm_RLHPN.device,
        )

    def select(self, rows: Sequence[int]) -> DecoderState:
        """A copy of some rows; a row may be named several times (to fork a sequence)."""
        other = object.__new__(DecoderState)
        other.config = self.config
        other.lengths = [self.lengths[row] for row in rows]
        other.shifts = [self.shifts[row] for row in rows]
        index = torch.tensor(list(rows), device=self.cache.ssm_RLHPN.device)
        other.cache = self.cache.map(lambda t: t[index], lambda t: t[index])
        return other

    def clone(self) -> DecoderState:
        return self.select(range(self.batch))

    def save(self, path: str | Path) -> None:
        used = max(self.lengths, default=0)
        tensors = {
            **_saved_rows(self.cache),
            "kv": self.cache.kv_ZL2zkD[:, :, :, :used].contiguous(),
            "lengths": torch.tensor(self.lengths),
            "shifts": torch.tensor(self.shifts),
        }
        save_file(tensors, str(path), metadata={"format": "holotron-decoder-state", "pattern": self.config.pattern})

    @staticmethod
    def load(config: DecoderConfig, path: str | Path, device: torch.device | str = "cpu") -> DecoderState:
        try:
            tensors = load_file(str(path), device=str(device))
            count, dtype, capacity = len(tensors["lengths"]), tensors["conv"].dtype, tensors["kv"].shape[3]
        except (OSError, SafetensorError, LookupError) as error:
            raise CheckpointError(f"{path} is not a file that a state was saved to: {error}") from error
        state = DecoderState(config, count, capacity=capacity, dtype=dtype, device="meta")
        for name, mine in (_saved_rows(state.cache) | {"kv": state.cache.kv_ZL2zkD}).items():
            found = list(tensors[name].shape) if name in tensors else "nothing"
            if found != list(mine.shape):
                raise CheckpointError(
                    f"{path}: saved {name} has shape {found}, this model needs {list(mine.shape)}; "
                    "it was saved by another model"
                )
        state.lengths = [int(n) for n in tensors["lengths"]]
        if "shifts" in tensors:  # files of before there were any lack them
            state.shifts = [int(n) for n in tensors["shifts"]]
        delta = DeltaStates(tensors["delta"], tensors["delta_conv"]) if state.cache.delta is not None else None
        state.cache = Cache(tensors["ssm"], tensors["conv"], tensors["kv"], None, delta)
        return state


def _saved_rows(cache: Cache) -> dict[str, Tensor]:
    """What belongs to rows, under the names it has in a file."""
    found = {"ssm": cache.ssm_RLHPN, "conv": cache.conv_RLKC}
    return found if cache.delta is None else found | dict(zip(("delta", "delta_conv"), cache.delta, strict=True))
