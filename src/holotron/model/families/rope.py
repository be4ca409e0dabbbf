"""Rotary positions in `config.json`, read as transformers 5 reads them.

They stand in one object, called `rope_parameters`, or `rope_scaling` in older files and by those who stretch a context.
What it leaves out may stand beside it. Nothing is computed here but rotation by plain periods, so every other kind is
refused.
"""

from __future__ import annotations

from typing import NamedTuple

from holotron.errors import ConfigError
from holotron.model.families.common import Fields

_NAMES = ("rope_scaling", "rope_parameters")


class Rope(NamedTuple):
    theta: float
    share: float  # of a head's dimensions that are rotated
    given: Fields  # the object itself, for what only some families have


def read_rope(f: Fields, *, theta: float, share: float = 1.0, kinds: tuple[str, ...] = ("default",)) -> Rope:
    """`theta` and `share` are the family's own, for files that do not say; `kinds` are the ones that it computes."""
    held = [name for name in _NAMES if f.get(name)]
    given = f.part(held[0] if held else _NAMES[0], optional=True)
    if (kind := given.get("rope_type", "type", default=kinds[0])) not in kinds:
        raise ConfigError(f"{given.where}: rope_type {kind!r} is not supported; this family uses {kinds[0]!r}")
    if len(held) > 1 and f.get(held[0]) != f.get(held[1]):
        raise ConfigError(f"{f.where}: {' and '.join(held)} say different things; keep one of them")
    return Rope(
        theta=given.number("rope_theta", default=f.number("rope_theta", default=theta)),
        share=given.number("partial_rotary_factor", default=f.number("partial_rotary_factor", default=share)),
        given=given,
    )


def read_whole_rope(f: Fields, *, theta: float, kinds: tuple[str, ...] = ("default",)) -> Rope:
    """Of a family that rotates whole heads."""
    rope = read_rope(f, theta=theta, kinds=kinds)
    if rope.share != 1:
        raise ConfigError(f"{f.where}: partial_rotary_factor {rope.share:g} is not supported; whole heads are rotated")
    return rope
