"""Runs packed to be carried to another machine: a small file with every frame, exactly, and what was done.

    pack([Path("runs/demos")], Path("demos.zip"))      # demos.zip, demos-2.zip, ... of at most 60 MB
    open_recorded(Path("demos.zip")).episodes          # see `recorded`

Screenshots of small tasks repeat each other almost everywhere. Frames are cut into squares of 8x8 pixels, each
different square is kept once, and a frame is a table of their numbers: there is no long window to search when packing,
and any frame is put together in a moment when reading. Inside the zip are xz files, for any system to take apart:

    about.json          format, sizes of the frames
    episodes.jsonl.xz   one line an episode: task, goal, outcome, and its steps (frame, action, label, words)
    frames.xz           uint32, the squares of all frames, row by row; each number less that of the same place in the
                        frame before, if that has the same size
    squares.xz          uint8 [squares, 8, 8, 3], in order of first use
"""

from __future__ import annotations

import io
import json
import lzma
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from holotron.errors import InputError
from holotron.rollouts.recorded import RecordedEpisode, RecordedStep, RunEpisodes, Where, recorded
from holotron.rollouts.records import Row
from holotron.storage.files import make_folder, replace_file

FORMAT = "holotron-pack-1"
SIDE = 8
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 3, "dict_size": 1 << 26}]


@dataclass(frozen=True, slots=True)
class Packed:
    path: Path
    episodes: int
    steps: int
    frames: int
    bytes: int


def pack(
    runs: Sequence[Path],
    out: Path,
    *,
    where: Where = lambda row: bool(row["success"]),
    part_bytes: int = 60_000_000,
    on_episode: Callable[[int], None] = lambda done: None,
) -> list[Packed]:
    """Pack the episodes that `where` selects, sorted by task, into files of about `part_bytes` at most."""
    found = [(episode, run) for run in (RunEpisodes(path, where) for path in runs) for episode in run.episodes]
    found.sort(key=lambda item: (item[0].task.suite, item[0].task.name, item[0].task.seed, item[0].id))
    if not found:
        raise InputError(f"there is no episode to pack in {', '.join(map(str, runs))}")
    made: list[Packed] = []
    writer = _Writer()
    for done, (episode, run) in enumerate(found, start=1):
        writer.add(episode, run)
        on_episode(done)
        if writer.size >= part_bytes or done == len(found):
            number = len(made) + 1
            made.append(writer.save(out if number == 1 else out.with_name(f"{out.stem}-{number}{out.suffix}")))
            writer = _Writer()
    return made


class _Writer:
    """Compresses as it goes, so that the size is known before the end."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._sizes: list[tuple[int, int]] = []  # height, width of every frame
        self._frames: dict[int | str, int] = {}
        self._squares: dict[bytes, int] = {}  # by digest
        self._before = np.empty(0, np.uint32)  # of the last frame
        self._squares_before = np.empty((0, 0), np.uint8)
        self._steps = 0
        self._streams = {name: (lzma.LZMACompressor(filters=_FILTERS), io.BytesIO()) for name in ("frames", "squares")}

    @property
    def size(self) -> int:
        """Bytes so far, roughly: a compressor holds back the last of what it was given."""
        return sum(buffer.tell() for _, buffer in self._streams.values()) + 60 * self._steps

    def add(self, episode: RecordedEpisode, run: RunEpisodes) -> None:
        task = episode.task
        steps = []
        for step in episode.steps:
            if step.frame not in self._frames:
                self._frames[step.frame] = self._add_frame(run.pixels(step.frame))
            steps.append([self._frames[step.frame], *step[1:]])
        row = {
            "id": episode.id,
            "suite": task.suite,
            "task": task.name,
            "goal": task.goal,
            "seed": task.seed,
            "start_url": task.start_url,
            "options": json.dumps(dict(task.options)),
            "success": episode.success,
            "steps": steps,
        }
        self._lines.append(json.dumps(row, ensure_ascii=False) + "\n")
        self._steps += len(steps)

    def save(self, path: Path) -> Packed:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as file:
            file.writestr("about.json", json.dumps({"format": FORMAT, "frames": self._sizes}))
            file.writestr("episodes.jsonl.xz", lzma.compress("".join(self._lines).encode(), filters=_FILTERS))
            for name, (compressor, buffer) in self._streams.items():
                buffer.write(compressor.flush())
                file.writestr(f"{name}.xz", buffer.getvalue())
        make_folder(path.parent)
        replace_file(path, packed.getvalue())
        return Packed(path, len(self._lines), self._steps, len(self._sizes), len(packed.getvalue()))

    def _add_frame(self, pixels: np.ndarray) -> int:
        squares = _cut(pixels)
        same = bool(self._sizes) and self._sizes[-1] == pixels.shape[:2]
        numbers = self._before.copy() if same else np.empty(len(squares), np.uint32)
        changed = np.flatnonzero((squares != self._squares_before).any(1)) if same else range(len(squares))
        fresh: list[bytes] = []
        for place in changed:
            square = squares[place]
            key = blake2b(square, digest_size=16).digest()
            number = self._squares.get(key)
            if number is None:
                number = self._squares[key] = len(self._squares)
                fresh.append(square.tobytes())
            numbers[place] = number
        self._write("squares", b"".join(fresh))
        self._write("frames", (numbers - self._before if same else numbers).tobytes())  # wraps around, and back
        self._before, self._squares_before = numbers, squares
        self._sizes.append((pixels.shape[0], pixels.shape[1]))
        return len(self._sizes) - 1

    def _write(self, name: str, data: bytes) -> None:
        compressor, buffer = self._streams[name]
        buffer.write(compressor.compress(data))


class Pack:
    """A packed run. All of it is unpacked into memory but the frames themselves, which are put together on demand."""

    def __init__(self, path: Path, where: Where = lambda row: True) -> None:
        try:
            with zipfile.ZipFile(path) as file:
                about: dict[str, Any] = json.loads(file.read("about.json"))
                if about.get("format") != FORMAT:
                    raise InputError(f"{path} has format {about.get('format')!r}; this version reads {FORMAT}")
                lines = lzma.decompress(file.read("episodes.jsonl.xz")).decode().splitlines()
                numbers = np.frombuffer(lzma.decompress(file.read("frames.xz")), np.uint32)
                squares = np.frombuffer(lzma.decompress(file.read("squares.xz")), np.uint8)
        except (OSError, ValueError, KeyError, zipfile.BadZipFile, lzma.LZMAError) as error:
            raise InputError(f"{path} cannot be read: {error}") from error
        self._sizes: list[tuple[int, int]] = [(height, width) for height, width in about["frames"]]
        self._squares = squares.reshape(-1, SIDE, SIDE, 3)
        self._numbers = _undo_differences(numbers, self._sizes)
        rows: list[Row] = [json.loads(line) for line in lines]
        self.episodes = [recorded(row, [_step(*step) for step in row["steps"]], path) for row in rows if where(row)]

    def pixels(self, frame: int | str) -> np.ndarray:
        height, width = self._sizes[int(frame)]
        rows, columns = _grid(height, width)
        squares = self._squares[self._numbers[int(frame)]].reshape(rows, columns, SIDE, SIDE, 3)
        return squares.swapaxes(1, 2).reshape(rows * SIDE, columns * SIDE, 3)[:height, :width]


def _step(
    frame: int, viewport: list[int], action: str | None, label: str | None, refused: bool, *said: str
) -> RecordedStep:
    return RecordedStep(frame, (viewport[0], viewport[1]), action, label, refused, *said)


def _grid(height: int, width: int) -> tuple[int, int]:
    return -(-height // SIDE), -(-width // SIDE)


def _cut(pixels: np.ndarray) -> np.ndarray:
    """[height, width, 3] to squares [n, SIDE * SIDE * 3]; what sticks out over the edges is black."""
    height, width = pixels.shape[:2]
    rows, columns = _grid(height, width)
    if (rows * SIDE, columns * SIDE) != (height, width):
        pixels = np.pad(pixels, ((0, rows * SIDE - height), (0, columns * SIDE - width), (0, 0)))
    return np.ascontiguousarray(pixels.reshape(rows, SIDE, columns, SIDE, 3).swapaxes(1, 2)).reshape(rows * columns, -1)


def _undo_differences(numbers: np.ndarray, sizes: Sequence[tuple[int, int]]) -> list[np.ndarray]:
    frames: list[np.ndarray] = []
    start = 0
    for place, size in enumerate(sizes):
        rows, columns = _grid(*size)
        frame = numbers[start : start + rows * columns]
        if place and sizes[place - 1] == size:
            frame = frame + frames[-1]
        frames.append(frame)
        start += rows * columns
    return frames
