"""Compiling a model's kernels while its weights are still being read.

A kernel is compiled when it is first launched, for the very sizes it is launched with. Two seconds to ten of that would
come after loading, which itself mostly waits for a disk. So a thread runs one layer of each kind, in the true sizes and
with whatever numbers are in its memory, through a prompt and a decode. Nothing depends on it: if it fails, kernels are
compiled when they are needed. Experts are left out, because one layer of them may be larger than what is free.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace

import torch

from holotron.kernels.dispatch import reference_wanted
from holotron.kernels.layout import Layout
from holotron.model.cache import Cache
from holotron.model.config import DecoderConfig, ModelConfig, VisionConfig
from holotron.model.decoder import Decoder
from holotron.model.vision import VisionTower
from holotron.model.weights.storage import allocate

log = logging.getLogger(__name__)

FREE = 4 << 30  # bytes of a GPU that have to be free for it
PATIENCE = 60.0  # seconds that loading waits for its end
PAGE = 64
PROMPTS = (2100, 70)  # tokens: long enough for every loop of a kernel
LETTERS = "MG*-"


def rehearse_in_background(
    config: ModelConfig, device: torch.device, dtype: torch.dtype, weight_dtype: torch.dtype | None
) -> threading.Thread | None:
    """On a GPU with room for it; None: nothing is done."""
    if device.type != "cuda" or dtype.itemsize != 2 or reference_wanted():
        return None
    if _free_bytes(device) < FREE + config_bytes(config, dtype):
        return None

    def run() -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream(device)):
                rehearse(config, device, dtype, weight_dtype)
                torch.cuda.current_stream(device).synchronize()
        except Exception:
            log.debug("the rehearsal failed; kernels will be compiled when they are needed", exc_info=True)

    thread = threading.Thread(target=run, name="holotron-rehearsal", daemon=True)
    thread.start()
    return thread


def _free_bytes(device: torch.device) -> int:
    """What this process may still take: a part of the GPU, where it was told to keep to one."""
    free, total = torch.cuda.mem_get_info(device)
    index = device.index if device.index is not None else torch.cuda.current_device()  # it takes nothing else
    share = int(torch.cuda.get_per_process_memory_fraction(index) * total)
    return min(free, share - torch.cuda.memory_reserved(device))


def config_bytes(config: ModelConfig, dtype: torch.dtype) -> int:
    """Of a model's weights, roughly: what is about to be allocated."""
    with torch.device("meta"):
        decoder = Decoder(config.decoder)
    return sum(parameter.numel() for parameter in decoder.parameters()) * dtype.itemsize


@torch.inference_mode()
def rehearse(
    config: ModelConfig,
    device: torch.device,
    dtype: torch.dtype,
    weight_dtype: torch.dtype | None = None,
    prompts: tuple[int, ...] = PROMPTS,
) -> None:
    """One layer of each kind: a prompt, prompts beside decodes, decodes; and one of the tower's."""
    kinds = "".join(letter for letter in LETTERS if letter in config.decoder.pattern)
    if kinds:
        small = replace(config.decoder, pattern=kinds, vocab=512, moe=None)
        decoder = _blank(small, device, dtype)
        if weight_dtype is not None:
            decoder.quantize()
        pages = -(-(max(prompts) + 2) // PAGE)
        tables = [list(range(n * pages, (n + 1) * pages)) for n in range(len(prompts))]
        cache = Cache.allocate(
            small, rows=len(prompts), pages=len(prompts) * pages, page_size=PAGE, dtype=dtype, device=device
        )

        def step(lengths: list[int], contexts: list[int]) -> None:
            used = [tables[n] for n in range(len(lengths))]
            layout = Layout.build(lengths, contexts=contexts, pages=used, page_size=PAGE, device=device)
            ids = torch.zeros(sum(lengths), dtype=torch.int64, device=device)
            decoder.logits(decoder(decoder.embed(ids), layout, cache)[-1:])

        step(list(prompts), [0] * len(prompts))
        step([1, *(1 for _ in prompts[1:])], list(prompts))
        step([1], [prompts[0] + 1])
    if isinstance(config.vision, VisionConfig):
        tower = VisionTower(replace(config.vision, layers=1)).to(dtype).to(device).eval()
        side = config.image.tile_size
        tower(torch.zeros(1, 3, side, side, dtype=dtype, device=device))


def _blank(config: DecoderConfig, device: torch.device, dtype: torch.dtype) -> Decoder:
    """A decoder of small equal numbers."""
    with torch.device("meta"):
        decoder = Decoder(config).to(dtype)
    allocate(decoder, device)
    for tensor in (*decoder.parameters(), *decoder.buffers()):
        tensor.fill_(0.01)
    return decoder.eval().requires_grad_(False)
