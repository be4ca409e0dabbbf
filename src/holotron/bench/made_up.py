"""Sessions with a past that was never computed: random keys, values and states, as much as they would remember.

How long an iteration takes does not depend on what is remembered, only on how much, and computing 100 contexts of
16,384 tokens takes a minute.
"""

from __future__ import annotations

import torch

from holotron.engine.core import Core
from holotron.engine.log import Log
from holotron.engine.sequence import Sequence
from holotron.errors import ConfigError


@torch.inference_mode()
def scribble(core: Core) -> None:
    """Random contents for all states and pages, a piece at a time."""
    cache = core.pools.cache
    for tensor in (cache.ssm_RLHPN, cache.conv_RLKC, *(cache.delta or ()), cache.kv_ZL2zkD):
        if not tensor.numel():
            continue
        some = torch.randn(tensor[:1].shape, device=tensor.device).mul_(0.5).to(tensor.dtype)
        for part in tensor.split(64):
            part.copy_(some.expand_as(part))
    core.pools.copies.computed()


@torch.inference_mode()
def session(core: Core, name: str, past: Log) -> Sequence:
    """An open session that remembers all of its past but the last token, which nobody has read yet (as after a reply).
    If the device is full, what others remember moves to the host."""
    sequence = core.sessions.open(name)
    core.sessions.append(sequence, past)
    memory, known = sequence.memory, len(past) - 1
    if not core.pools.fits(memory.demand(known)):
        raise ConfigError(f"no room on device and host for a session of {known:,} tokens; give more host_bytes")
    memory.pin()
    memory.settle()
    memory.grow(known)
    memory.wrote(known, core.version)
    memory.unpin()
    return sequence
