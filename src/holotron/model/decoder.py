"""The language model: embeddings, a string of residual layers, a final norm and a head.

    hidden = decoder(embeddings, layout, cache)        one function for training, prefill and decode
    logits = decoder.logits(hidden)

With `cache=None` nothing is remembered and gradients flow: that is training. With a cache, the rows and pages named in
the layout are read and updated in place. See `kernels.layout` for how several sequences share one call.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from holotron.kernels.layout import Layout
from holotron.kernels.scan import flush
from holotron.model.cache import Cache, DecoderState
from holotron.model.config import DecoderConfig
from holotron.model.delta import GatedDeltaNet
from holotron.model.layers import MLP, Attention, CentredRMSNorm, Experts, Mamba2, MoE, Projection, RMSNorm
from holotron.model.native import NativeDecoder, native_head


class Deep(NamedTuple):
    """Deepstack: what pictures add to the residual stream behind the first transformer layers, one level each."""

    places_i: Tensor  # the image tokens, by their place in the batch
    levels: tuple[Tensor, ...]  # [i, D]


def _norm(config: DecoderConfig) -> type[RMSNorm]:
    return CentredRMSNorm if config.centred_norms else RMSNorm


def _mixer(letter: str, config: DecoderConfig) -> nn.Module:
    if letter == "M" and config.mamba:
        return Mamba2(config.hidden, config.mamba, config.eps)
    if letter == "G" and config.delta:
        return GatedDeltaNet(config.hidden, config.delta, config.eps)
    if letter == "*" and config.attention:
        return Attention(config.hidden, config.attention, config.eps, _norm(config))
    if letter == "-" and config.mlp:
        return MLP(config.hidden, config.mlp)
    assert config.moe, letter  # `DecoderConfig` admits no other letter
    return MoE(config.hidden, config.moe)


class Layer(nn.Module):
    """One letter of the pattern. The residual stream travels beside the last mixer's output, so that adding the two and
    norming the sum is one operation."""

    def __init__(self, letter: str, config: DecoderConfig) -> None:
        super().__init__()
        self.norm = _norm(config)(config.hidden, config.eps)
        self.mixer = _mixer(letter, config)

    def forward(self, x_TD: Tensor, stream_TD: Tensor | None, layout: Layout, cache: Any) -> tuple[Tensor, Tensor]:
        normed, stream_TD = self.norm.after(x_TD, stream_TD, self.mixer.quantized)  # type: ignore[arg-type]
        return self.mixer(normed, layout, cache), stream_TD


class Backbone(nn.Module):
    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        # nn.Embedding would draw its own numbers; on `meta` that imports torch's compiler, which takes seconds.
        table = torch.empty(config.vocab, config.hidden)
        self.embeddings = nn.Embedding.from_pretrained(table if table.is_meta else table.normal_(), freeze=False)
        self.layers = nn.ModuleList(Layer(letter, config) for letter in config.pattern)
        self.norm_f = _norm(config)(config.hidden, config.eps)


class Decoder(nn.Module):
    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone = Backbone(config)
        self.lm_head = nn.Linear(config.hidden, config.vocab, bias=False)
        if config.tied_embeddings:
            self.lm_head.weight = self.backbone.embeddings.weight
        self.checkpoint_layers = False  # trade compute for memory in training
        # Which cache entry each layer uses: the n-th of its letter, or none.
        count = {"M": 0, "G": 0, "*": 0}
        self._slot: list[tuple[str, int]] = []
        for letter in config.pattern:
            self._slot.append((letter, count.get(letter, -1)))
            if letter in count:
                count[letter] += 1
        self._layer_ends = [i for i, letter in enumerate(config.pattern) if letter in "-E"]  # where a level is added
        self._native = NativeDecoder()

    @property
    def dtype(self) -> torch.dtype:
        return self.backbone.embeddings.weight.dtype

    @property
    def device(self) -> torch.device:
        return self.backbone.embeddings.weight.device

    def new_state(self, batch: int = 1, capacity: int = 256, state_dtype: torch.dtype | None = None) -> DecoderState:
        return DecoderState(
            self.config,
            batch,
            capacity=capacity,
            dtype=self.dtype,
            state_dtype=state_dtype,
            device=self.device,
        )

    def quantize(self) -> None:
        """Keep the projections of recurrent and MLP layers, and experts, in 8 bits from here on, for inference. What
        reads the most (attention, the head), what writes every token (the embeddings) and routers stay as they are."""
        for module in self.modules():
            if isinstance(module, Projection | Experts) and not module.quantized:
                module.quantize()

    def embed(self, ids_T: Tensor) -> Tensor:
        return self.backbone.embeddings(ids_T)

    def forward(self, x_TD: Tensor, layout: Layout, cache: Cache | None = None, deep: Deep | None = None) -> Tensor:
        """Embeddings of T packed tokens to their final hidden vectors (normed, ready for `logits`)."""
        if cache is not None and deep is None:
            computed = self._native.forward(self, x_TD, layout, cache)
            if computed is not None:
                return computed
        added = dict(zip(self._layer_ends, deep.levels if deep is not None else (), strict=False))
        stream_TD: Tensor | None = None
        replay = cache.replay if cache is not None else None
        if cache is not None and replay is not None and layout.num_prefills:
            flush(cache.ssm_RLHPN, replay, layout.rows_S[layout.num_decodes :])
            if layout.snapshots:
                replay.count_R.index_fill_(0, layout.marks.row_m.long(), 0)
        for n, (layer, (letter, slot)) in enumerate(zip(self.backbone.layers, self._slot, strict=True)):
            memory: Any = None
            if cache is not None and slot >= 0:
                memory = cache.of(letter, slot)
            if self.checkpoint_layers and torch.is_grad_enabled():
                x_TD, stream_TD = checkpoint(layer, x_TD, stream_TD, layout, memory, use_reentrant=False)
            else:
                x_TD, stream_TD = layer(x_TD, stream_TD, layout, memory)
            if deep is not None and n in added:
                x_TD = x_TD.index_add(0, deep.places_i, added[n])
        if replay is not None and layout.num_decodes:
            replay.advance(layout.rows_S[: layout.num_decodes])
        hidden_TD = self.backbone.norm_f.after(x_TD, stream_TD)[0]
        assert isinstance(hidden_TD, Tensor)
        return hidden_TD

    def logits(self, hidden_TD: Tensor) -> Tensor:
        computed = native_head(self.lm_head, hidden_TD)
        return computed if computed is not None else self.lm_head(hidden_TD)
