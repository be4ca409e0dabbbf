"""Sessions on disk, as far as needed to compute them again: should this process be killed, another one goes on.

    journal = Journal(folder, limit_bytes)
    await journal.save(owner, served, pictures)         # before the client hears that his turn is done
    exported = await journal.load(owner, id, processor) # in another process

Kept are the tokens and the pictures as they were sent, in a folder for each session:

    <folder>/<owner>/<session>/log             the tokens, and which pictures are shown where
                               <hash>.picture  as it was sent; <hash>.tile: pixels of which nobody has that any more
                               keeper          which process keeps it

The folder is the user's alone (0700, files 0600). A file is whole or absent. Nothing is synced to the disk: what is
written survives the process, not the machine. A session's folder goes with the session: when it is closed, expires, or
the server stops in order; when all of them need more than the limit, those used longest ago go first, and would be lost
with the process. `Journal.sweep` removes what processes that were killed have left behind and nobody has taken up.

A process that was only out of reach may come back after another one has taken its sessions up. The log says whose they
are: who finds somebody else's name there has lost the session (`taken_over`) and touches nothing of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import shutil
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from holotron.engine import ExportedSession, UnknownSession, tile_key
from holotron.errors import ConfigError, HolotronError
from holotron.model.processor import Processor
from holotron.server.pictures import SentPicture, cut_picture
from holotron.server.private import private_folder
from holotron.server.served import ServedSession, described
from holotron.server.workers import Workers

log = logging.getLogger("holotron.journal")

LOG, KEEPER, RESPONSES = "log", "keeper", "responses"
LEFT_BEHIND_SECONDS = 7 * 86_400.0  # where sessions never expire
MOST_PLACES = 100_000  # of tiles that are remembered
Key = tuple[str, str]  # owner, session


class Journal:
    def __init__(
        self, folder: Path, limit_bytes: int, workers: Workers, *, ttl: float | None, responses_ttl: float | None
    ) -> None:
        """`ttl`, `responses_ttl`: how long sessions and stored responses live."""
        self.folder = folder
        self.failures, self.dropped = 0, 0  # logs that could not be written; that had to go for room
        self._limit, self._workers = limit_bytes, workers
        self._ttl, self._responses_ttl = ttl, responses_ttl
        self._me = secrets.token_hex(16)
        self._sizes: OrderedDict[Key, int] = OrderedDict()  # of what this process keeps, used longest ago first
        self._locks: dict[Key, asyncio.Lock] = {}
        self._where: dict[str, tuple[Path, list[str]]] = {}  # a file that holds this tile, and all tiles in it
        self._said = 0.0
        try:
            private_folder(folder)
            self.id = _identity(folder)
        except OSError as error:
            raise ConfigError(f"fleet.journal: {folder} cannot be written: {error.strerror or error}") from None

    @property
    def held(self) -> int:
        """In bytes."""
        return sum(self._sizes.values())

    # --------------------------------------------------------------------------------------------------------- writing

    async def save(self, owner: str, served: ServedSession, pictures: Sequence[SentPicture] = ()) -> None:
        """What cannot be written is said in the log and not to the client: the session itself is unharmed.
        `UnknownSession`: it goes on in another process."""
        key = (owner, served.id)
        async with self._locks.setdefault(key, asyncio.Lock()):
            try:
                exported = await served.engine_session.export_log()
                told = described(served, owner, marks=False)
                exported = replace(exported, about={**exported.about, "served": told})
                scope = served.engine_session.scope
                size = await self._workers.run("journal", lambda: self._write(key, exported, pictures, scope), "large")
            except UnknownSession:
                self.forget(*key)
                raise
            except (OSError, SafetensorError, HolotronError) as error:
                self.failures += 1
                self._complain(f"the log of a session cannot be kept, and would be lost with this process: {error}")
                await self.drop(*key)
                return
            self._sizes[key] = size
            self._sizes.move_to_end(key)
        while self.held > self._limit and len(self._sizes) > 1:
            self.dropped += 1
            self._complain(f"logs of sessions need more than fleet.journal_bytes ({self._limit:,}): the oldest go")
            await self.drop(*next(iter(self._sizes)))

    def _write(self, key: Key, exported: ExportedSession, pictures: Sequence[SentPicture], scope: bytes) -> int:
        folder = self._place(key)
        if self._is_taken(key):
            raise UnknownSession(f"session {key[1]!r} goes on in another process")
        private_folder(self.folder, *folder.relative_to(self.folder).parts)
        if key not in self._sizes:
            self._claim(folder)
        missing, groups = set(exported.about["tiles"]), _groups(exported)
        files: dict[str, list[str]] = {}  # which tiles are in which file
        for name, tiles in _files(folder / LOG).items():
            if wanted := missing & set(tiles):
                files[name], missing = tiles, missing - wanted
        for picture in pictures:
            tiles = list(_tiles_in(picture.keys, groups, scope))
            if wanted := missing & set(tiles):
                data = picture.data
                name = f"{blake2b(data, digest_size=16).hexdigest()}.picture"
                _write_private(folder / name, data)
                files[name], missing = tiles, missing - wanted
        for tile in list(missing):  # another session's, from which this one was forked
            found, tiles = self._where.get(tile, (folder, []))
            if found.is_file():
                with contextlib.suppress(FileExistsError):
                    os.link(found, folder / found.name)
                files[found.name], missing = tiles, missing - set(tiles)
        for n, tile in enumerate(exported.about["tiles"]):
            if tile in missing:
                save_file({"pixels": exported.tensors[f"tile.{n}"]}, str(folder / f"{tile}.tile"))
                (folder / f"{tile}.tile").chmod(0o600)
                files[f"{tile}.tile"] = [tile]
        told = {name: part for name, part in exported.tensors.items() if not name.startswith("tile.")}
        bare = ExportedSession({**exported.about, "files": files}, told)
        for name, tiles in files.items():
            self._where |= dict.fromkeys(tiles, (folder / name, tiles))
        while len(self._where) > MOST_PLACES:
            self._where.pop(next(iter(self._where)))
        new = folder / "log.new"
        bare.write(new)
        new.chmod(0o600)
        new.replace(folder / LOG)
        needed = {LOG, KEEPER, *files}
        size = 0
        for path in folder.iterdir():
            if path.name in needed:
                size += path.stat().st_size
            else:
                path.unlink(missing_ok=True)
        return size

    async def drop(self, owner: str, id: str) -> None:
        """The session is over."""
        taken, place = self._is_taken((owner, id)), self._place((owner, id))
        self.forget(owner, id)
        if not taken:
            await self._workers.run("journal", lambda: shutil.rmtree(place, ignore_errors=True), "small")

    def forget(self, owner: str, id: str) -> None:
        """Somebody else keeps it from now on."""
        self._sizes.pop((owner, id), None)
        self._locks.pop((owner, id), None)

    def adopt(self, owner: str, id: str) -> None:
        """It is this process that keeps it from now on, in the same folder."""
        place = self._place((owner, id))
        with contextlib.suppress(OSError):
            self._claim(place)
            os.utime(place)  # it is not left behind
            self._sizes[owner, id] = sum(path.stat().st_size for path in place.iterdir())

    async def taken_over(self) -> list[Key]:
        """Sessions that were kept here, and that another process has taken up since."""
        kept = list(self._sizes)
        return await self._workers.run("journal", lambda: [key for key in kept if self._is_taken(key)], "small")

    def _claim(self, folder: Path) -> None:
        new = folder / f"{KEEPER}.{self._me}"
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(self._me)
        new.replace(folder / KEEPER)

    def _is_taken(self, key: Key) -> bool:
        try:
            return key in self._sizes and (self._place(key) / KEEPER).read_text() != self._me
        except OSError:  # it was removed by hand
            return False

    # --------------------------------------------------------------------------------------------------------- reading

    async def load(self, owner: str, id: str, processor: Processor) -> ExportedSession | None:
        """A session to be computed again. None: there is none."""
        return await self._workers.run("journal", lambda: self._read((owner, id), processor), "large")

    def _read(self, key: Key, processor: Processor) -> ExportedSession | None:
        folder = self._place(key)
        if not (folder / LOG).exists():
            return None
        bare = ExportedSession.read(folder / LOG)
        if bare.about["served"]["owner"] != key[0] or bare.about["served"]["id"] != key[1]:
            return None
        scope, pixels = bytes.fromhex(bare.about["served"]["scope"]), dict[str, torch.Tensor]()
        groups = _groups(bare)
        for name, held in bare.about["files"].items():
            if name.endswith(".tile"):
                pixels[name.removesuffix(".tile")] = load_file(str(folder / name))["pixels"]
            else:
                cut = cut_picture((folder / name).read_bytes(), processor)
                mine = {tile: groups[tile] for tile in held if tile in groups}
                pixels |= {tile: cut.tiles[n] for tile, n in _tiles_in(cut.keys, mine, scope).items()}
        if lost := [tile for tile in bare.about["tiles"] if tile not in pixels]:
            log.error("%d tiles of a session are not in its log; it is lost", len(lost))
            return None
        tiles = {f"tile.{n}": pixels[tile] for n, tile in enumerate(bare.about["tiles"])}
        return ExportedSession(bare.about, {**bare.tensors, **tiles})

    # ---------------------------------------------------------------------------------------------------------- order

    async def sweep(self, open_now: Iterable[Key]) -> None:
        """Remove the logs of sessions that are over, and what nobody has taken up for as long as a session lives."""
        alive = set(open_now)
        for key in [key for key in self._sizes if key not in alive]:
            await self.drop(*key)
        await self._workers.run("journal", self._remove_left_behind, "small")

    def _remove_left_behind(self) -> None:
        clock = self.folder / "folder.json"
        with contextlib.suppress(OSError):
            os.utime(clock)
        now = clock.stat().st_mtime  # by the disk, which others write to as well: our own clock may be off

        def old(ttl: float | None, path: Path) -> bool:
            return path.stat().st_mtime < now - (ttl + 60 if ttl is not None else LEFT_BEHIND_SECONDS)

        mine = {self._place(key) for key in self._sizes}
        for path in self.folder.glob("*/*"):
            with contextlib.suppress(OSError):
                if path.name != RESPONSES and path not in mine and old(self._ttl, path):
                    shutil.rmtree(path, ignore_errors=True)
        for path in self.folder.glob(f"*/{RESPONSES}/*"):
            with contextlib.suppress(OSError):
                if old(self._responses_ttl, path):
                    path.unlink(missing_ok=True)

    def close(self) -> None:
        """The server stops in order: sessions end with it."""
        for key in list(self._sizes):
            if not self._is_taken(key):
                shutil.rmtree(self._place(key), ignore_errors=True)
        self._sizes.clear()

    def _place(self, key: Key) -> Path:
        return self.folder / key[0] / blake2b(key[1].encode(), digest_size=16).hexdigest()

    def _complain(self, message: str) -> None:
        if time.monotonic() - self._said > 60:
            self._said = time.monotonic()
            log.warning(message)


def _files(path: Path) -> Mapping[str, list[str]]:
    """The files that a log needs, and the tiles in each."""
    try:
        files: Any = ExportedSession.read(path).about["files"]
    except (HolotronError, KeyError):
        return {}
    return dict(files)


def _groups(exported: ExportedSession) -> dict[str, np.ndarray]:
    """Of tiles that are not read whole, what is read of each; see `processor.sparse`."""
    told = {tile: exported.tensors.get(f"groups.{n}") for n, tile in enumerate(exported.about["tiles"])}
    return {tile: groups.numpy() for tile, groups in told.items() if groups is not None}


def _tiles_in(keys: Sequence[bytes], groups: Mapping[str, np.ndarray], scope: bytes) -> dict[str, int]:
    """The tiles that a log may show of a picture, each with its place in the picture: all of them whole, and those with
    these groups in part."""
    found = {tile_key(key, scope).hex(): n for n, key in enumerate(keys)}
    for n, key in enumerate(keys):
        found |= {tile: n for tile, read in groups.items() if tile_key(key, scope, read).hex() == tile}
    return found


def _write_private(path: Path, data: bytes) -> None:
    if not path.exists():
        new = path.with_suffix(".new")
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
        new.replace(path)


def _identity(folder: Path) -> str:
    """A name of the folder by which two processes find out that they see the same one."""
    path = folder / "folder.json"
    with (
        contextlib.suppress(FileExistsError),
        open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file,
    ):
        json.dump({"id": secrets.token_hex(16)}, file)
    for _ in range(50):  # the other one is just writing it
        with contextlib.suppress(ValueError, KeyError, OSError):
            return str(json.loads(path.read_text())["id"])
        time.sleep(0.02)
    raise OSError(f"{path} cannot be read; remove it")
