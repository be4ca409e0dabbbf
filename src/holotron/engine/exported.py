"""A session on its way to another engine: its log, its pictures, and what the network remembers of it, bit for bit.

    exported = session.export()                    # it stays open here; close it when it has arrived
    exported.write(path)                           # one safetensors file, or `to_bytes()`
    session = other.restore(ExportedSession.read(path))

The log is what matters. What is remembered goes along so that nothing is computed again; an engine that cannot use it
(another page size, another version of the weights, no room) takes the log alone and computes it when it is needed, as
after any forgetting. Another model's session is refused.

Blocks that several memories share (a mark and the session itself) travel once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from holotron.engine.blocks import Block
from holotron.engine.log import Log, Picture, TileSpan, TileStore
from holotron.engine.memory import Memory
from holotron.engine.pools import Pools
from holotron.engine.sequence import Sequence as Session
from holotron.engine.sequence import Snapshot
from holotron.engine.shipping import read_tensors, write_tensors
from holotron.errors import InputError
from holotron.model.config import ModelConfig
from holotron.model.processor import Run

FORMAT = "holotron-session-1"


@dataclass(frozen=True)
class ExportedSession:
    """Plain data and tensors, of which what was remembered may still be on the GPU; belongs to no engine."""

    about: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    ready: torch.cuda.Event | None = None  # when these hold what they should

    @property
    def id(self) -> str:
        return str(self.about["id"])

    @property
    def tokens(self) -> int:
        return len(self.tensors["ids"])

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors.values())

    def to_bytes(self) -> bytes:
        self._wait()
        return save({name: tensor.cpu() for name, tensor in self.tensors.items()}, self._metadata())

    def write(self, path: str | Path) -> None:
        self._wait()
        write_tensors(Path(path), self.tensors, self._metadata())

    def _wait(self) -> None:
        if self.ready is not None:
            self.ready.synchronize()

    def _metadata(self) -> dict[str, str]:
        return {"format": FORMAT, "about": json.dumps(self.about)}

    @staticmethod
    def read(path: str | Path, device: torch.device | None = None) -> ExportedSession:
        """With a device, what was remembered is brought there on the way."""
        try:
            metadata, tensors = read_tensors(Path(path), device, lambda name: name.startswith(("rows.", "pages.")))
        except (SafetensorError, OSError) as error:
            raise InputError(f"{path} is not an exported session: {error}") from None
        return _checked(metadata, tensors, str(path))

    @staticmethod
    def from_bytes(data: bytes) -> ExportedSession:
        try:
            tensors = load(data)
            head = int.from_bytes(data[:8], "little")
            metadata = json.loads(data[8 : 8 + head]).get("__metadata__", {})
        except (SafetensorError, ValueError) as error:
            raise InputError(f"this is not an exported session: {error}") from None
        return _checked(metadata, tensors, "these bytes")


def _checked(metadata: Mapping[str, str], tensors: Mapping[str, Tensor], where: str) -> ExportedSession:
    if metadata.get("format") != FORMAT:
        raise InputError(f"{where}: not an exported session of this version ({FORMAT})")
    return ExportedSession(json.loads(metadata["about"]), tensors)


def model_key(config: ModelConfig) -> str:
    """Which network it is, by everything its configuration says but a name."""
    return blake2b(repr(replace(config, name="")).encode(), digest_size=16).hexdigest()


# ------------------------------------------------------------------------------------------------------------- leaving


def export(session: Session, pools: Pools, config: ModelConfig, version: tuple[str, int]) -> ExportedSession:
    """On the loop's thread, of a session at rest."""
    memories = session.memories()
    rows = _unique(memory.state for memory in memories if memory.state is not None)
    pages = _unique(page for memory in memories for page in memory.pages)
    bare = log_alone(session.id, session.log, config)
    tensors = dict(bare.tensors)
    tensors |= {f"rows.{n}": part for n, part in enumerate(pools.rows.contents(list(rows)))}
    tensors |= {f"pages.{n}": part for n, part in enumerate(pools.pages.contents(list(pages)))}
    for n, memory in enumerate(memories):
        if memory.hidden is not None:
            tensors[f"hidden.{n}"] = memory.hidden.cpu().clone()
    about = {
        **bare.about,
        "version": list(version),
        "page_size": pools.page_size,
        "marks": [[number, snapshot.position] for number, snapshot in session.marks.items()],
        "memories": [
            {
                "of": number,
                "length": memory.length,
                "row": rows[memory.state] if memory.state is not None else None,
                "pages": [pages[page] for page in memory.pages],
                "versions": [memory.oldest, memory.newest],
            }
            for number, memory in zip(_owners(session), memories, strict=True)
        ],
        "service": session.service,
    }
    ready = None
    if pools.cache.kv_ZL2zkD.is_cuda:
        ready = torch.cuda.Event()
        ready.record()
    return ExportedSession(about, tensors, ready)


def log_alone(id: str, log: Log, config: ModelConfig) -> ExportedSession:
    """A session without marks and without anything remembered: it will be computed when it is needed. On any thread."""
    tiles = list({span.tile.key: span.tile for span in log.tiles}.values())
    place = {tile.key: n for n, tile in enumerate(tiles)}
    about = {
        "id": id,
        "model": model_key(config),
        "version": None,
        "page_size": None,
        "spans": [[span.start, span.count, place[span.tile.key], span.offset] for span in log.tiles],
        "tiles": [tile.key.hex() for tile in tiles],
        "pictures": [_picture(picture) for picture in log.pictures],
        "marks": [],
        "memories": [],
        "service": 0.0,
    }
    tensors = {"ids": torch.tensor(log.ids, dtype=torch.int32)}
    tensors |= {f"tile.{n}": tile.pixels for n, tile in enumerate(tiles)}
    tensors |= {f"groups.{n}": torch.from_numpy(tile.groups) for n, tile in enumerate(tiles) if tile.groups is not None}
    return ExportedSession(about, tensors)


def _owners(session: Session) -> list[int | None]:
    """Whose memory each of `Sequence.memories` is: None for the session itself, else a mark's number."""
    held = [number for number, snapshot in session.marks.items() if snapshot.memory is not None]
    assert session.window is None and session.prompt_end is None, "only open sessions travel"
    return [None, *held]


def _unique(blocks: Iterable[Block]) -> dict[Block, int]:
    return {block: n for n, block in enumerate(dict.fromkeys(blocks))}


def _picture(picture: Picture) -> dict[str, Any]:
    told = asdict(picture)
    told["runs"] = None if picture.runs is None else [[run.tile, run.first, run.count] for run in picture.runs]
    return told | {"base": picture.base.hex() if picture.base is not None else None, "key": picture.key.hex()}


# ------------------------------------------------------------------------------------------------------------ arriving


def log_of(exported: ExportedSession, store: TileStore, config: ModelConfig) -> Log:
    """Its log, with pictures in this engine's store. Checked as far as an engine could be harmed by it."""
    about, tensors = exported.about, exported.tensors
    if about["model"] != model_key(config):
        raise InputError(f"session {exported.id!r} belongs to another model")
    tiles = []
    for n, key in enumerate(about["tiles"]):
        pixels = tensors[f"tile.{n}"]
        tiles.append(store.keep(bytes.fromhex(key), pixels, _groups(tensors.get(f"groups.{n}"), pixels, config)))
    spans = [TileSpan(start, count, tiles[tile], offset) for start, count, tile, offset in about["spans"]]
    pictures = [
        Picture(
            start=told["start"],
            end=told["end"],
            size=tuple(told["size"]),
            runs=None if told["runs"] is None else tuple(Run(*run) for run in told["runs"]),
            base=bytes.fromhex(told["base"]) if told["base"] is not None else None,
            key=bytes.fromhex(told["key"]),
        )
        for told in about["pictures"]
    ]
    return Log(tensors["ids"].tolist(), spans, pictures)


def _groups(told: Tensor | None, pixels: Tensor, config: ModelConfig) -> np.ndarray | None:
    """What is read of a tile, if it is not read whole."""
    if told is None:
        return None
    groups = told.numpy()
    last = config.image.tokens(*pixels.shape[-2:]) - 1
    ordered = groups.dtype == np.int32 and groups.ndim == 1 and len(groups) > 0 and bool((np.diff(groups) > 0).all())
    if not (config.image.sparse and ordered and groups[0] >= 0 and groups[-1] <= last):
        raise InputError("a session's pictures do not say which parts of a tile are read of them")
    return groups


def remember(exported: ExportedSession, session: Session, pools: Pools, version: tuple[str, int]) -> bool:
    """On the loop's thread: marks, and what was remembered if it is of use here. False: it is computed when needed."""
    about, tensors = exported.about, exported.tensors
    for number, position in about["marks"]:
        session.marks[number] = Snapshot(position)
    session.service = about["service"]
    if about["version"] != list(version) or about["page_size"] != pools.page_size:
        return False
    rows = pools.rows.receive(_parts(tensors, "rows"))
    pages = pools.pages.receive(_parts(tensors, "pages")) if rows is not None else None
    if rows is None or pages is None:
        for block in rows or ():
            pools.rows.drop(block)
        return False
    for n, told in enumerate(about["memories"]):
        memory = session.memory if told["of"] is None else Memory(pools)
        memory.length = told["length"]
        memory.oldest, memory.newest = told["versions"]
        if told["row"] is not None:
            memory.state = pools.rows.hold(rows[told["row"]])
        memory.pages = [pools.pages.hold(pages[page]) for page in told["pages"]]
        if (hidden := tensors.get(f"hidden.{n}")) is not None:
            memory.hidden = hidden.to(pools.cache.ssm_RLHPN.device)
        if told["of"] is not None:
            session.marks[told["of"]].memory = memory
    for pool, blocks in ((pools.rows, rows), (pools.pages, pages)):
        for block in blocks:
            pool.drop(block)
    return True


def _parts(tensors: Mapping[str, Tensor], name: str) -> list[Tensor]:
    count = sum(key.startswith(f"{name}.") for key in tensors)
    return [tensors[f"{name}.{n}"] for n in range(count)]
