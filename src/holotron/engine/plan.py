"""What fits: bytes before anything runs.

    plan = Planner(config).plan(sessions=100, context=16_384)
    plan.total                                              # what one GPU will be asked for
    Planner(config).sessions(GPUS["H200"], context=16_384)  # how many sessions fit

Weights, states and pages are exact: they are measured on tensors of the same shapes without storage (`meta`), made by
the very functions that later make the real ones. The vision cache is a limit the engine keeps. What is left is an
estimate, and called so:

* **workspace**: what one iteration allocates on the way, see `workspace_bytes`;
* **runtime**: what CUDA, its libraries and compiled kernels hold outside of torch's allocator.

Both were calibrated against the measured peak of the whole process on an H200 (docs/server.md, "Memory").
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch

from holotron.engine.api import EngineConfig
from holotron.engine.graphs import bucket_sizes
from holotron.engine.prompt_graphs import MOST as MOST_SHAPES
from holotron.engine.prompt_graphs import Shapes
from holotron.engine.sizes import dtype_of, slots, vision_cache_bytes
from holotron.engine.vision import MOST_TILES_AHEAD
from holotron.errors import CapacityError, ConfigError
from holotron.model.cache import Cache
from holotron.model.config import DecoderConfig, ModelConfig
from holotron.model.model import Holotron
from holotron.registry import did_you_mean

GiB = 2**30

# Total memory as the driver reports it (not the round figure on the box), by the name people use.
GPUS = {
    "B200": int(178.35 * GiB),
    "H200": int(139.81 * GiB),
    "H100-NVL": int(93.12 * GiB),
    "H100": int(79.19 * GiB),
    "A100-80": int(79.15 * GiB),
    "A100-40": int(39.39 * GiB),
    "L40S": int(44.40 * GiB),
    "RTX-6000-PRO": int(94.97 * GiB),
    "RTX-5090": int(31.36 * GiB),
    "RTX-4090": int(23.52 * GiB),
    "A10G": int(22.06 * GiB),
    "L4": int(22.03 * GiB),
}

RUNTIME_BYTES = int(0.7 * GiB)
GRAPH_BYTES = 8 << 20  # of one captured graph, in the driver
MAX_RUNNING = 256  # sequences in one iteration, however many sessions there are


def gpu_name(name: str) -> str:
    """A GPU of the list, in any spelling: H200, rtx 4090, a100_80..."""
    plain = {key.replace("-", ""): key for key in GPUS}
    wanted = name.upper().replace("NVIDIA", "").replace(" ", "").replace("_", "").replace("-", "").removesuffix("GB")
    if wanted == "A100":
        wanted = "A10080"
    if wanted not in plain:
        if several := re.fullmatch(r"(\d+)[X*](.+)", wanted):
            raise ConfigError(
                f"a model runs on one GPU: plan for {gpu_name(several[2])}, and start {several[1]} servers on {name}"
            )
        hint = did_you_mean(name.upper(), GPUS)
        raise ConfigError(f"there is no GPU {name!r} in the list: {hint} (or give --memory in GiB)")
    return plain[wanted]


def gpu_bytes(name: str) -> int:
    return GPUS[gpu_name(name)]


@dataclass(frozen=True)
class MemoryPlan:
    """Device bytes, for one engine configuration."""

    weights: int
    state: int
    kv: int
    vision_cache: int
    graphs: int  # a row and a page for what fills up batches, exact; and the captured graphs, an estimate
    workspace: int  # estimate
    runtime: int  # estimate

    @property
    def total(self) -> int:
        kept = self.weights + self.state + self.kv + self.vision_cache
        return kept + self.graphs + self.workspace + self.runtime


@dataclass(frozen=True)
class Planner:
    """Answers for one model in given types. `engine` holds everything else that is to be set."""

    model: ModelConfig
    dtype: torch.dtype = torch.bfloat16
    engine: EngineConfig = field(default_factory=EngineConfig)

    @cached_property
    def weight_bytes(self) -> int:
        with torch.device("meta"):
            model = Holotron(self.model).to(self.dtype)
            if self.engine.weight_dtype is not None:
                model.language_model.quantize()
            if self.engine.vision_dtype is not None:
                model.quantize_vision()
        return sum(t.nbytes for t in {*model.parameters(), *model.buffers()})

    @cached_property
    def row_bytes(self) -> int:
        """One recurrent state: all recurrent layers at one position."""
        return self._cache(rows=1, pages=0).nbytes

    @cached_property
    def page_bytes(self) -> int:
        """Keys and values of one page of tokens across all attention layers."""
        return self._cache(rows=0, pages=1).nbytes

    def session_bytes(self, context: int) -> int:
        return self.row_bytes + self.pages(context) * self.page_bytes

    def pages(self, context: int) -> int:
        return -(-context // self.engine.page_size) if self.model.decoder.layers("*") else 0

    def sized(self, sessions: int, context: int) -> EngineConfig:
        """The engine's configuration for this many sessions of this length on the device at once. One row and one
        page more, because what is shared is copied before it is written."""
        return replace(
            self.engine,
            kv_tokens=(sessions * self.pages(context) + 1) * self.engine.page_size,
            state_rows=sessions + 1,
            max_running=min(sessions, MAX_RUNNING),
            token_budget=max(self.engine.token_budget, min(sessions, MAX_RUNNING)),
        )

    def plan(self, sessions: int, context: int) -> MemoryPlan:
        return self.plan_for(self.sized(sessions, context))

    def plan_for(self, engine: EngineConfig) -> MemoryPlan:
        rows, pages = slots(self.model.decoder, engine)
        return MemoryPlan(
            weights=self.weight_bytes,
            state=rows * self.row_bytes,
            kv=pages * self.page_bytes,
            vision_cache=vision_cache_bytes(self.model, engine, self.dtype),
            graphs=self._graphs(engine),
            workspace=workspace_bytes(self.model, engine, self.dtype),
            runtime=RUNTIME_BYTES,
        )

    def sessions(self, memory: int, context: int) -> int:
        """The largest number of sessions of this length that fit; 0 if not even one does."""
        if context > self.model.decoder.max_positions:
            return 0
        low, high = 0, max(0, memory // max(1, self.session_bytes(context)))
        while low < high:
            middle = (low + high + 1) // 2
            if self.plan(middle, context).total <= memory:
                low = middle
            else:
                high = middle - 1
        return low

    def fill(self, memory: int, context: int) -> EngineConfig:
        """The configuration that makes the most of a GPU."""
        sessions = self.sessions(memory, context)
        if sessions < 1:
            need = self.plan(1, context).total
            raise CapacityError(
                f"{self.model.name or 'the model'} needs {need / GiB:.1f} GiB for one session of {context:,} tokens; "
                f"{memory / GiB:.1f} GiB are to be used. Take a larger GPU, a shorter context, or weights in 8 bits "
                "(--weights fp8); `holotron plan` knows what fits"
            )
        return self.sized(sessions, context)

    def _graphs(self, engine: EngineConfig) -> int:
        if engine.graphs is False:
            return 0
        # What an iteration of the largest size works with, of decodes and of prompts beside them; all sizes share it.
        # Each also keeps its outputs, and those with prompts have their embeddings at a place of their own.
        sizes, most = bucket_sizes(engine.max_running), Shapes(engine).most_tokens
        work = (engine.max_running + most) * _widest_layer(self.model.decoder, self.dtype.itemsize)
        rows = sum(sizes) + MOST_SHAPES * engine.max_running + most
        outputs = rows * self.model.decoder.hidden * self.dtype.itemsize
        if self.model.vision is not None and not self.model.image.dynamic:
            work += vision_bytes(self.model, engine, self.dtype.itemsize)
        return self.row_bytes + self.page_bytes + work + outputs + (len(sizes) + MOST_SHAPES) * GRAPH_BYTES

    def _cache(self, rows: int, pages: int) -> Cache:
        return Cache.allocate(
            self.model.decoder,
            rows=rows,
            pages=pages,
            page_size=self.engine.page_size,
            dtype=self.dtype,
            state_dtype=dtype_of(self.engine.state_dtype),
            kv_dtype=dtype_of(self.engine.kv_dtype),
            replay=self.engine.replay,
            device="meta",
        )


# ----------------------------------------------------------------------------------------------------- the estimate


def workspace_bytes(model: ModelConfig, engine: EngineConfig, dtype: torch.dtype) -> int:
    """The most that one iteration holds beyond what is kept: the widest layer's intermediates for all tokens of the
    iteration, or the vision tower's for a batch of tiles, whichever is more; and the logits with their copies."""
    size = dtype.itemsize
    tokens = engine.token_budget
    decoder = tokens * _widest_layer(model.decoder, size)
    logits = engine.max_running * model.decoder.vocab * (size + 3 * 4)
    return max(decoder, vision_bytes(model, engine, size)) + logits


def vision_bytes(model: ModelConfig, engine: EngineConfig, size: int) -> int:
    """What the tower holds for the largest batch of tiles on its way."""
    if model.vision is None:
        return 0
    # Of the tiles that an iteration shows, each prompt in it begins one that it may not show whole; and some tiles are
    # encoded before they are shown. Of sparse pictures every token may be all that is read of its tile.
    least = 1 if model.image.sparse else model.image.tokens_per_tile
    shown = engine.token_budget // least + engine.max_running
    tiles = min(engine.vision_batch, max(shown, MOST_TILES_AHEAD))
    patches = tiles * ((model.image.tile_size // model.vision.patch) ** 2 + model.vision.prefix)
    # At dynamic resolution one picture may be larger than a batch of tiles.
    patches = max(patches, model.image.most_patches + model.vision.prefix)
    # Input, q, k, v, output; then the hidden layer before and after its activation.
    inside = (5 * model.vision.hidden + 2 * model.vision.mlp) * size
    deeper = (model.levels - 1) * model.decoder.hidden * size // model.image.downsample**2  # rows of deepstack
    return patches * (inside + deeper)


def _widest_layer(d: DecoderConfig, size: int) -> int:
    """Bytes per token that are alive at once inside the widest kind of layer, residual stream included."""
    stream = 3 * d.hidden * size  # the residual, its normalised copy, the layer's output
    inside = [0]
    if d.mamba is not None:
        m = d.mamba
        # Projection, convolution, gated output; the scan works in fp32.
        inside.append((m.projected + m.conv_channels + 2 * m.inner) * size + (m.conv_channels + m.inner) * 4)
    if d.delta is not None:
        n = d.delta
        # Projections, convolution, output and its gated norm; the rule works in fp32.
        inside.append((2 * n.conv_channels + 3 * n.inner) * size + (n.conv_channels + n.inner) * 4)
    if d.mlp is not None:
        inside.append((3 if d.mlp.activation == "swiglu" else 2) * d.mlp.width * size)
    if d.attention is not None:
        a = d.attention
        inside.append(((4 if a.gated else 2) * a.heads + 2 * a.kv_heads) * a.head_dim * size)
    if d.moe is not None:
        e = d.moe
        inner = 3 if e.activation == "swiglu" else 2
        inside.append((e.top_k * (e.width * inner + (e.latent or d.hidden) * 2) + 2 * e.shared_width) * size)
    return stream + max(inside)
