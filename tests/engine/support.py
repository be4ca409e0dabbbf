"""Very small models for the engine's tests, and the specification they are held to: the network run alone, on the whole
log, with no cache of any kind."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from holotron.engine.api import EngineConfig, Result, SamplingParams, TokenEvent
from holotron.engine.core import Core
from holotron.engine.grammar import Matcher
from holotron.engine.log import Log, Tile, TileSpan, tile_key
from holotron.engine.sequence import Request, Sequence
from holotron.engine.text import TextStream
from holotron.kernels.layout import Layout
from holotron.model.config import (
    AttentionConfig,
    DecoderConfig,
    DeltaConfig,
    MambaConfig,
    MLPConfig,
    ModelConfig,
    MoEConfig,
    ProjectorConfig,
    QwenVisionConfig,
    TokenIds,
    VisionConfig,
)
from holotron.model.loading import load_model
from holotron.model.looks import looks_of
from holotron.model.model import Holotron
from holotron.model.processor import ImageConfig, Processor, normalise

VOCAB = 48
PATTERNS = {"hybrid": "M*-M", "attention": "*-*", "mamba": "M-M", "experts": "ME*E", "delta": "G*-G"}
PATTERNS |= {"qwen3-vl": "*-*-*E", "qwen3.5": "G-*-G"}  # with pictures in three axes, the first with deepstack
PATTERNS |= {"omni": "ME*E"}  # with pictures of any size
PATTERNS |= {"sparse": "M*-"}  # whose pictures are told without what is blank
ATTENTION = {
    "hybrid": AttentionConfig(heads=2, kv_heads=1, head_dim=8),
    "attention": AttentionConfig(heads=2, kv_heads=1, head_dim=8, rope_theta=1e4),
    "experts": AttentionConfig(heads=2, kv_heads=1, head_dim=8, rope_theta=1e4),
    "omni": AttentionConfig(heads=2, kv_heads=1, head_dim=8),
    "sparse": AttentionConfig(heads=2, kv_heads=1, head_dim=8),
    "delta": AttentionConfig(2, 1, 8, rope_theta=1e4, qk_norm=True, rotary_dim=4, gated=True),
    "qwen3-vl": AttentionConfig(2, 1, 8, rope_theta=1e2, qk_norm=True, sections=(2, 1, 1)),
    "qwen3.5": AttentionConfig(2, 1, 12, rope_theta=1e2, qk_norm=True, rotary_dim=6, gated=True, sections=(1, 1, 1)),
}
TOKENS = TokenIds(image=40, image_start=41, image_end=42, bos=43, eos=(44,), first_unsampled=46)


def micro_config(kind: str, vocab: int = VOCAB, tokens: TokenIds = TOKENS) -> ModelConfig:
    pattern, qwen = PATTERNS[kind], kind.startswith("qwen")
    vision: VisionConfig | QwenVisionConfig = VisionConfig(8, layers=1, heads=2, mlp=16, patch=4, grid=4, prefix=1)
    if qwen:
        deepstack = (0, 1) if kind == "qwen3-vl" else ()
        vision = QwenVisionConfig(8, layers=2, heads=2, mlp=16, patch=4, grid=3, deepstack=deepstack)
    image = ImageConfig(16, 4, max_tiles=4)
    if qwen:
        image = ImageConfig(16, 4, min_pixels=64, max_pixels=2048)
    elif kind == "omni":
        image = ImageConfig(16, 4, min_patches=4, max_patches=128)
    elif kind == "sparse":
        image = ImageConfig(16, 4, max_tiles=8, use_thumbnail=False, sparse=True)
    return ModelConfig(
        name=f"micro-{kind}",
        decoder=DecoderConfig(
            vocab=vocab,
            hidden=16,
            pattern=pattern,
            mamba=MambaConfig(heads=2, head_dim=8, state=4, groups=1, chunk=8) if "M" in pattern else None,
            delta=DeltaConfig(key_heads=1, value_heads=2, key_dim=6, value_dim=4, chunk=8) if "G" in pattern else None,
            attention=ATTENTION.get(kind),
            centred_norms=kind in ("delta", "qwen3.5"),
            mlp=MLPConfig(24),
            moe=MoEConfig(experts=4, top_k=2, width=12, shared_width=8) if "E" in pattern else None,
            max_positions=1024,
        ),
        vision=vision,
        projector=None if qwen else ProjectorConfig(16),
        image=image,
        tokens=tokens,
    )


@functools.cache
def micro_model(
    kind: str = "hybrid", dtype: torch.dtype = torch.float64, vocab: int = VOCAB, tokens: TokenIds = TOKENS
) -> Holotron:
    """Random weights, large enough that every token depends visibly on all before it."""
    generator = torch.Generator().manual_seed(7)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)  # vectors (biases, step sizes) stay as layers make them
        model = Holotron(micro_config(kind, vocab, tokens)).to(dtype).eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            scale = 1.0 if "embed" in name else 1.5 / parameter.shape[-1] ** 0.5
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_((noise * scale).to(parameter.dtype))
    return model


def byte_model(kind: str = "hybrid") -> tuple[Holotron, Processor]:
    """A micro model that speaks bytes, with the processor for it."""
    tokens = TokenIds(image=256, image_start=257, image_end=258, bos=259, eos=(260,), first_unsampled=264)
    model = micro_model(kind, torch.float64, 272, tokens)
    return model, Processor.for_bytes(model.config.image)


def sparse_tiny() -> tuple[Holotron, Processor]:
    """The small preset, in single precision, that sees sparsely."""
    model, processor = load_model("tiny", device="cpu")
    image = replace(model.config.image, use_thumbnail=False, sparse=True)
    model.config = replace(model.config, image=image, raw=None)
    processor.images = image
    return model, processor


PAGE = 128  # pixels a side: for that preset four tiles, 16 groups each


def page(*boxes: tuple[int, int, int, int]) -> np.ndarray:
    """White paper with boxes in shades of grey."""
    result = np.full((PAGE, PAGE, 3), 255, np.uint8)
    for n, (left, top, right, bottom) in enumerate(boxes):
        result[top:bottom, left:right] = 40 * n
    return result


def make_tile(number: int, *groups: int) -> Tile:
    """The n-th of a few pictures; `groups`: those of its four that are read, of a sparse one."""
    generator = torch.Generator().manual_seed(number)
    pixels = torch.randint(0, 256, (3, 16, 16), dtype=torch.uint8, generator=generator)
    read = np.array(groups, np.int32) if groups else None
    return Tile(tile_key(b"tile-%011d" % number, b"", read), pixels, (2, 2), read)


def image_log(tile: Tile) -> Log:
    """A picture of one tile (four tokens, if it is read whole) between its tags."""
    return Log([41, *[40] * tile.rows, 42], [TileSpan(1, tile.rows, tile)])


# ---------------------------------------------------------------------------------------------------- specification


@torch.inference_mode()
def logits_alone(model: Holotron, log: Log) -> Tensor:
    """Logits after every token of the log, computed from nothing but the log."""
    ids = torch.tensor(log.ids)
    x, deep = model.language_model.embed(ids), None
    places = [at for span in log.tiles for at in range(span.start, span.end)]
    if places:
        rows = []
        for span in log.tiles:
            rows.append(rows_alone(model, span.tile)[span.offset : span.offset + span.count])
        x, deep = model.show(x, torch.tensor(places), torch.cat(rows))
    shift = positions(log) - np.arange(len(log)) if model.config.axes else None
    return model.language_model.logits(model.language_model(x, Layout.build([len(log)], shift_3T=shift), None, deep))


def rows_alone(model: Holotron, tile: Tile) -> Tensor:
    """What the tower says of one tile, or of the groups that are read of it, and nothing else."""
    image, device = model.config.image, model.device
    if not image.sparse:
        return model.encode_tiles(normalise(tile.pixels[None], image, model.dtype))
    read = range(tile.rows) if tile.groups is None else tile.groups.tolist()
    step = image.patch_size * image.downsample
    places = [divmod(group, tile.grid[1]) for group in read]
    squares = [tile.pixels[:, row * step :, column * step :][:, :step, :step] for row, column in places]
    looks = looks_of(model.config, [len(read)], np.array(read), device)
    return model.encode_groups(normalise(torch.stack(squares), image, model.dtype), looks)


def positions(log: Log) -> np.ndarray:
    """Time, row and column of every token, walking through the log word by word: [3, tokens]."""
    pictures = {at: (span, at - span.start) for span in log.tiles for at in range(span.start, span.end)}
    result, now = [], 0
    for at in range(len(log)):
        if at not in pictures:
            result.append((now, now, now))
            now += 1
            continue
        span, n = pictures[at]
        row, column = divmod(span.offset + n, span.tile.grid[1])
        result.append((now, now + row, now + column))
        now += max(span.tile.grid) if n + 1 == span.count else 0
    return np.array(result, np.int64).reshape(-1, 3).T


def assert_greedy(model: Holotron, log: Log, generated: int, tolerance: float = 0.0) -> None:
    """The last `generated` tokens are what the model alone would have said (up to near ties)."""
    if not generated:
        return
    logits = logits_alone(model, log)[-generated - 1 : -1].clone()
    if model.config.tokens.first_unsampled is not None:
        logits[:, model.config.tokens.first_unsampled :] = -torch.inf
    logits[:, model.config.tokens.image] = -torch.inf
    said = torch.tensor(log.ids[-generated:])
    short = logits.max(-1).values - logits.gather(-1, said[:, None])[:, 0]
    if tolerance == 0:
        assert said.tolist() == logits.argmax(-1).tolist()
    else:
        assert short.max() <= tolerance, f"a token falls short of the best by {short.max():.2e}"


# ------------------------------------------------------------------------------------------------------- driving


GREEDY = SamplingParams(max_tokens=4, temperature=0, ignore_eos=True)


class Asked:
    """A request given to a core, and what came of it."""

    def __init__(
        self,
        core: Core,
        sequence: Sequence,
        params: SamplingParams = GREEDY,
        *,
        matcher: Matcher | None = None,
        processor: Processor | None = None,
        deadline: float | None = None,
    ) -> None:
        self.events: list[TokenEvent] = []
        self.result: Result | None = None
        text = TextStream(processor.tokenizer if processor else None, params.stop)
        seed = params.seed if params.seed is not None else 0
        self.request = Request(sequence, params, seed, text, matcher, deadline, self._receive)
        core.submit(self.request)

    def _receive(self, events: list[TokenEvent], result: Result | None) -> None:
        assert self.result is None, "nothing may come after the end"
        self.events += events
        self.result = result

    def finished(self, core: Core, limit: int = 2000) -> Result:
        for _ in range(limit):
            if self.result is not None:
                assert tuple(event.token for event in self.events) == self.result.tokens
                return self.result
            assert core.step() or self.result is not None, "the engine is idle but the request is not finished"
        raise AssertionError("the request did not finish")


def settings(**changes: object) -> EngineConfig:
    small = EngineConfig(page_size=4, kv_tokens=512, state_rows=16, host_bytes=1 << 30, max_running=8, token_budget=32)
    return replace(small, **changes)  # type: ignore[arg-type]
