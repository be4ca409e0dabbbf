"""Pictures that were sent before: a client that re-sends its last screenshots has each decoded, cut and hashed once.

    with processor.seen.by(tenant):
        prompt = processor.render(messages)         # pictures this tenant has sent before are looked up by their bytes

Found by the bytes they came in (a PNG, or the text of a data URL), so nothing is unpacked to find out. Outside of `by`
nothing is remembered or found: how long an answer takes must not tell one tenant what another one has sent. Kept are
the tiles, up to a number of bytes, least recently used first to go.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import NamedTuple

from torch import Tensor


class CutPicture(NamedTuple):
    tiles: Tensor  # uint8 [n, 3, height, width]
    keys: tuple[bytes, ...]
    size: tuple[int, int]


class SeenPictures:
    def __init__(self, limit_bytes: int = 1 << 30) -> None:
        self.limit_bytes = limit_bytes
        self.bytes_used = 0
        self.found = 0
        self._pictures: OrderedDict[bytes, CutPicture] = OrderedDict()
        self._lock = threading.Lock()
        self._here = threading.local()

    @contextmanager
    def by(self, tenant: bytes = b"") -> Iterator[None]:
        """What this thread cuts meanwhile is remembered for, and found among, what this tenant has sent."""
        before = getattr(self._here, "tenant", None)
        self._here.tenant = tenant
        try:
            yield
        finally:
            self._here.tenant = before

    def find(self, source: object) -> CutPicture | None:
        """The picture's tiles, if this tenant has sent it before."""
        return self._find(self._key(source))

    def cut(self, source: object, cut: Callable[[], CutPicture]) -> CutPicture:
        """The picture's tiles, from memory or by cutting it now."""
        key = self._key(source)
        return self._find(key) or self._keep(key, cut())

    def _key(self, source: object) -> bytes | None:
        """None: it is neither looked up nor kept."""
        tenant: bytes | None = getattr(self._here, "tenant", None)
        if tenant is None or not isinstance(source, str | bytes):
            return None
        digest = sha256(len(tenant).to_bytes(8, "little") + tenant)
        digest.update(source.encode(errors="surrogatepass") if isinstance(source, str) else source)
        return digest.digest()

    def _find(self, key: bytes | None) -> CutPicture | None:
        with self._lock:
            if key is None or key not in self._pictures:
                return None
            self._pictures.move_to_end(key)
            self.found += 1
            return self._pictures[key]

    def _keep(self, key: bytes | None, picture: CutPicture) -> CutPicture:
        with self._lock:
            if key is not None and key not in self._pictures and picture.tiles.nbytes <= self.limit_bytes:
                self._pictures[key] = picture
                self.bytes_used += picture.tiles.nbytes
            while self.bytes_used > self.limit_bytes:
                self.bytes_used -= self._pictures.popitem(last=False)[1].tiles.nbytes
        return picture
