"""Screenshot deltas: of a screen that has changed a little, only what has changed. See docs/screenshot-deltas.md.

    deltas = Deltas()                                     # exact; Deltas(tolerance=6) forgives JPEG noise
    prompt = processor.render(messages, deltas=deltas)
    more = processor.bridge(next_messages, after=log, deltas=deltas.after(prompt))

A *group* is the square of pixels that becomes one image token: a tile of 512 pixels has 16 x 16 of them. Groups that
are as they were on the screen before are left out of the token stream; a run of groups that are shown begins with its
address, three signs of plain text (tile, row, column):

    <img> =  0a4 IMAGE IMAGE IMAGE  0b4 IMAGE IMAGE  821 IMAGE </img>

Everything here is a function of two pictures. The tower still reads whole tiles: a group's embedding depends on all of
its tile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from holotron.errors import ConfigError
from holotron.model.processor.images import tile_keys
from holotron.model.processor.tiling import SIGNS, ImageConfig

if TYPE_CHECKING:
    from holotron.model.processor.processor import Prompt

MARK = "="  # the first sign of a picture that is told as changes
ADDRESS = 3  # signs; also the longest gap between two runs that is shown instead, for it costs no more


@dataclass(frozen=True, slots=True, eq=False)
class ShownScreen:
    """What a model has been shown of a screen so far: the tiles of the last whole picture with all changes since."""

    size: tuple[int, int]  # of the picture, before it was cut into tiles
    tiles: Tensor  # uint8 [n, 3, height, width]
    key: bytes  # by content


def screen_key(size: tuple[int, int], keys: Iterable[bytes]) -> bytes:
    """From the size of a picture and the keys of its tiles."""
    digest = hashlib.blake2b(repr(size).encode(), digest_size=16)
    for key in keys:
        digest.update(key)
    return digest.digest()


@dataclass(frozen=True, slots=True)
class Run:
    """`count` groups of a tile from `first` on, in reading order."""

    tile: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Deltas:
    """How to tell changes, and from what: without a screen before, the first picture is shown whole."""

    tolerance: int = 0  # greatest difference of a colour value, of 255, that counts as none
    screen: ShownScreen | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.tolerance <= 255:
            raise ConfigError(f"the tolerance of screenshot deltas is between 0 and 255, not {self.tolerance}")

    def after(self, prompt: Prompt) -> Deltas:
        """For what follows this prompt."""
        shown = [image.screen for image in prompt.images if image.screen is not None]
        return replace(self, screen=shown[-1]) if shown else self


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """A picture as it enters the stream."""

    runs: tuple[Run, ...] | None  # None: whole, as without deltas
    base: bytes | None  # key of the screen that the runs change; None: there is none
    screen: ShownScreen  # what has been shown after it


def cut_delta(now: ShownScreen, deltas: Deltas, config: ImageConfig) -> Cut:
    """What of a picture has to be shown. One of another size than the screen before is shown whole, and so is one of
    which so much has changed that telling it as changes would not be shorter."""
    before = deltas.screen
    if before is None or before.size != now.size or before.tiles.shape != now.tiles.shape:
        return Cut(None, None, now)
    changed = changed_groups(before.tiles, now.tiles, config, deltas.tolerance)
    runs = tuple(runs_of(changed))
    if len(MARK) + sum(ADDRESS + run.count for run in runs) >= changed.numel():
        return Cut(None, None, now)
    if not runs:
        return Cut(runs, before.key, before)
    if deltas.tolerance == 0:
        return Cut(runs, before.key, now)
    # What was forgiven has not been shown: the next picture is compared with what was, or noise would add up unseen.
    shown = apply_runs(before.tiles, now.tiles, runs, config)
    return Cut(runs, before.key, ShownScreen(now.size, shown, screen_key(now.size, tile_keys(shown))))


def changed_groups(before: Tensor, now: Tensor, config: ImageConfig, tolerance: int = 0) -> Tensor:
    """bool [n, groups of a tile]: does any colour value in the group differ by more than the tolerance?"""
    step = config.patch_size * config.downsample
    if tolerance == 0 and before.device.type == now.device.type == "cpu":
        return torch.from_numpy(_different(before.contiguous().numpy(), now.contiguous().numpy(), step))
    far = (before.to(torch.int16) - now.to(torch.int16)).abs_().amax(1) > tolerance  # [n, height, width]
    count, height, width = far.shape
    return far.view(count, height // step, step, width // step, step).any(4).any(2).flatten(1)


def _different(before: np.ndarray, now: np.ndarray, step: int) -> np.ndarray:
    """The same, exactly, on one core (torch would wake all of them for every worker): eight values at a time, and
    nothing more of tiles that are as they were."""
    count, colours, height, width = before.shape
    rows, columns, side = height // step, width // step, step
    if step % 8 == 0:
        before, now, side = before.view(np.uint64), now.view(np.uint64), step // 8
    found = np.zeros((count, rows * columns), bool)
    for n in range(count):
        unlike = before[n] != now[n]
        if unlike.any():
            found[n] = unlike.reshape(colours, rows, step, columns, side).any(axis=(0, 2, 4)).ravel()
    return found


def runs_of(changed: Tensor) -> Iterator[Run]:
    """Changed groups as runs, tile after tile. Gaps that are not longer than an address are shown as well."""
    for tile, groups in enumerate(changed.cpu()):
        first = last = -1
        for group in groups.nonzero()[:, 0].tolist():
            if first >= 0 and group - last - 1 > ADDRESS:
                yield Run(tile, first, last + 1 - first)
                first = -1
            first, last = group if first < 0 else first, group
        if first >= 0:
            yield Run(tile, first, last + 1 - first)


def apply_runs(before: Tensor, now: Tensor, runs: Iterable[Run], config: ImageConfig) -> Tensor:
    """The screen before with the shown groups in place. With tolerance 0 that is the new screen, to the pixel."""
    step = config.patch_size * config.downsample
    result = before.clone()
    for run in runs:
        copy_groups(result[run.tile], now[run.tile], run, step)
    return result


def copy_groups(to: Tensor, source: Tensor, run: Run, step: int) -> None:
    """Some groups of a tile [3, height, width] into another one."""
    columns = to.shape[-1] // step
    end = run.first + run.count
    there, here = _array(to), _array(source)
    for first, last in _rectangles(run.first, end, columns):
        rows = slice(first // columns * step, (-(-last // columns)) * step)
        left = first % columns * step
        at = (slice(None), rows, slice(left, left + min(last - first, columns) * step))
        there[at] = here[at]


def _array(tensor: Tensor) -> Any:
    """To be sliced and written to; numpy's small copies take half of the time."""
    return tensor.numpy() if tensor.device.type == "cpu" else tensor


def _rectangles(first: int, end: int, columns: int) -> Iterator[tuple[int, int]]:
    """Groups in reading order as at most three rectangles: the end of a row, whole rows, the beginning of one."""
    begin, rest = -(-first // columns) * columns, end // columns * columns
    if begin > rest:  # within one row
        yield first, end
        return
    yield from ((a, b) for a, b in ((first, begin), (begin, rest), (rest, end)) if a < b)


def address(run: Run, columns: int) -> str:
    """Where a run begins, in three signs: tile, row, column."""
    return "".join(map(_sign, (run.tile, *divmod(run.first, columns))))


def tile_sign(tile: int) -> str:
    """Which tile the groups that follow are of, in one sign."""
    return _sign(tile)


def _sign(number: int) -> str:
    if number >= len(SIGNS):
        raise ConfigError(f"pictures are told in {len(SIGNS)} tiles, rows and columns at most; this one has more")
    return SIGNS[number]


def whole_runs(tiles: int, groups: int) -> tuple[Run, ...]:
    return tuple(Run(tile, 0, groups) for tile in range(tiles))
