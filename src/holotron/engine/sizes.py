"""How large the memory is, to the byte, and its allocation. Planning and running share these few lines."""

from __future__ import annotations

from pathlib import Path

import torch

from holotron.engine.api import EngineConfig
from holotron.engine.filing import DiskTier
from holotron.engine.pools import Pools
from holotron.errors import ConfigError
from holotron.model.cache import Cache
from holotron.model.config import DecoderConfig, ModelConfig
from holotron.model.model import Holotron
from holotron.model.processor.tiling import image_tokens


def slots(decoder: DecoderConfig, config: EngineConfig) -> tuple[int, int]:
    """State rows and KV pages on the device."""
    rows = config.state_rows if decoder.recurrent else 0
    if rows == 1:
        raise ConfigError("engine: state_rows must be at least 2: copying a state takes two")
    pages = -(-config.kv_tokens // config.page_size) if decoder.layers("*") else 0
    return rows, pages


def padded(device: torch.device, config: EngineConfig) -> bool:
    """Whether batches of decodes are filled up, which takes a row and a page for those that fill them up."""
    return config.graphs if config.graphs is not None else device.type == "cuda"


def context_limit(decoder: DecoderConfig, config: EngineConfig) -> int:
    """The longest session: what the model can read, what is allowed, and what fits on the device alone."""
    limit = min(decoder.max_positions, config.max_context or decoder.max_positions)
    if decoder.layers("*"):
        # One page stays free to copy a half-filled one into.
        room = (slots(decoder, config)[1] - 1) * config.page_size
        if room < config.page_size:
            raise ConfigError(f"engine: kv_tokens ({config.kv_tokens}) must be at least two pages")
        limit = min(limit, room)
    return limit


def host_bytes(config: EngineConfig) -> int:
    """Of the host tier. Its memory is taken when it is first needed."""
    return config.host_bytes if config.host_bytes is not None else free_host_memory() // 2


def free_host_memory() -> int:
    """Bytes that a program may still take on this machine, or in this container."""
    try:
        fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        free = int(fields["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return 8 << 30
    try:
        group = Path("/sys/fs/cgroup")
        limit, used = ((group / name).read_text() for name in ("memory.max", "memory.current"))
        return free if limit.strip() == "max" else min(free, max(0, int(limit) - int(used)))
    except (OSError, ValueError):
        return free


def vision_cache_bytes(model: ModelConfig, config: EngineConfig, dtype: torch.dtype) -> int:
    """Of the vision cache: agents that re-send their last three screenshots find all of them, each of 1920x1080."""
    if model.vision is None:
        return 0
    if config.vision_cache_bytes is not None:
        return config.vision_cache_bytes
    return 3 * config.max_running * image_tokens(1920, 1080, model.image) * model.decoder.hidden * dtype.itemsize


def dtype_of(name: str | None) -> torch.dtype | None:
    if name is None:
        return None
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise ConfigError(f"engine: {name!r} is not a floating-point type; say float32, bfloat16, ...")
    return dtype


def allocate(model: Holotron, config: EngineConfig) -> Pools:
    decoder = model.config.decoder
    rows, pages = slots(decoder, config)
    extra = padded(model.device, config)
    cache = Cache.allocate(
        decoder,
        rows=rows + extra,
        pages=pages + extra,
        page_size=config.page_size,
        dtype=model.dtype,
        state_dtype=dtype_of(config.state_dtype),
        kv_dtype=dtype_of(config.kv_dtype),
        replay=config.replay,
        device=model.device,
    )
    disk = DiskTier(config.disk_folder, config.disk_bytes) if config.disk_folder is not None else None
    return Pools(decoder, cache, page_size=config.page_size, host_bytes=host_bytes(config), padded=extra, disk=disk)
