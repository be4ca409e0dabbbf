"""Pictures for viewers: screens as the agents were given them, and small ones made of them.

    name = frames.keep("web/task/0", observation)       # abcd....jpg, by content, as the store calls it
    frames.read(name)                                   # Picture, or None: from memory or from the run directory
    frames.small(name)                                  # 320 pixels wide, made once

While an episode runs its recording holds the pictures anyway, so keeping them here takes no memory of its own. Those of
the last few episodes that ended are kept a while longer; then they are read from the run directory.
"""

from __future__ import annotations

import io
import re
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from holotron.rollouts.pictures import SUFFIXES, picture_name
from holotron.storage.files import read_file
from holotron.types import Observation

SMALL = 320  # pixels
SMALL_KEPT = 1000  # thumbnails, about 10 KB each
ENDED_KEPT = 16  # episodes
MIMES = {suffix: mime for mime, suffix in SUFFIXES.items()}
_NAME = re.compile(r"[0-9a-f]{64}\.(?:png|jpg|webp)")


@dataclass(frozen=True, slots=True)
class Picture:
    data: bytes
    mime: str


class Frames:
    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._kept: dict[str, bytes] = {}
        self._of: dict[str, set[str]] = {}  # names of an episode's pictures
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._small: OrderedDict[str, Picture] = OrderedDict()

    def keep(self, episode: str, observation: Observation) -> str:
        """The picture's name; empty for a kind of picture that browsers are not shown."""
        name = picture_name(observation)
        if name:
            with self._lock:
                self._kept[name] = observation.image
                self._of.setdefault(episode, set()).add(name)
        return name

    def drop(self, episode: str, name: str) -> None:
        """A picture that no step shows any more."""
        with self._lock:
            self._of.get(episode, set()).discard(name)
            if not any(name in names for names in self._of.values()):
                self._kept.pop(name, None)

    def begin(self, episode: str) -> None:
        """Forget the pictures of an earlier attempt."""
        with self._lock:
            self._ended.pop(episode, None)
            self._forget(episode)

    def end(self, episode: str) -> list[str]:
        """The episode is over; returns others whose pictures are no longer held in memory."""
        with self._lock:
            self._ended[episode] = None
            gone = []
            while len(self._ended) > ENDED_KEPT:
                oldest, _ = self._ended.popitem(last=False)
                self._forget(oldest)
                gone.append(oldest)
            return gone

    def _forget(self, episode: str) -> None:
        names = self._of.pop(episode, set())
        for name in names - set().union(*self._of.values()):
            self._kept.pop(name, None)

    def read(self, name: str) -> Picture | None:
        if not _NAME.fullmatch(name):
            return None
        mime = MIMES[name[64:]]
        data = self._kept.get(name)
        if data is None and self._folder is not None:
            try:
                data = read_file(self._folder / "images" / name[:2] / name)
            except FileNotFoundError:
                return None
        return None if data is None else Picture(data, mime)

    def known_small(self, name: str) -> Picture | None:
        with self._lock:
            if name in self._small:
                self._small.move_to_end(name)
            return self._small.get(name)

    def small(self, name: str) -> Picture | None:
        """Takes some milliseconds where it has to be made."""
        if (known := self.known_small(name)) is not None:
            return known
        picture = self.read(name)
        made = None if picture is None else _shrunk(picture)
        if made is not None:
            with self._lock:
                self._small[name] = made
                while len(self._small) > SMALL_KEPT:
                    self._small.popitem(last=False)
        return made


def _shrunk(picture: Picture) -> Picture | None:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(picture.data)) as image:
            width = min(SMALL, image.width)
            size = (width, max(1, round(image.height * width / image.width)))
            image.draft("RGB", size)  # a JPEG is decoded at a fraction of its size, which is most of what this costs
            small = image.convert("RGB").resize(size, Image.Resampling.BILINEAR, reducing_gap=2.0)
    except (OSError, ValueError, Image.DecompressionBombError):
        return None
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=70)
    return Picture(buffer.getvalue(), "image/jpeg")
