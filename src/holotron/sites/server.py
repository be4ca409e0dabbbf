"""Every episode's app behind one loopback port.

    server = SitesServer()
    key = server.open(Episode(...))
    server.headers(key)                        # what a browser has to send along to reach this episode
    server.close_episode(key)

Which episode a request belongs to is said by a header that the browser context adds to all its requests, not by the
address. So the address can be a natural one (`http://fernandoak.example/cart`), it is the same each time one seed is
played, and a thousand browsers can play that seed at once, each in a state of its own. Cookies cannot leak either: they
live in the context, which is emptied before each episode. Names end in `.example`, which belongs to nobody; browsers
reach them because the session's network guard sends everything here, to a server that also speaks as a proxy.
"""

from __future__ import annotations

import itertools
import threading

from holotron.sites.episode import SiteEpisode
from holotron.sites.http import HttpRequest, HttpResponse, HttpServer

HEADER = "X-Holotron-Episode"


class SitesServer:
    def __init__(self, *, port: int = 0) -> None:
        self._episodes: dict[str, SiteEpisode] = {}
        self._keys = itertools.count(1)
        self._lock = threading.Lock()
        self._default: str | None = None
        self._http = HttpServer(self._answer, port=port)

    @property
    def port(self) -> int:
        return self._http.port

    def open(self, episode: SiteEpisode, *, default: bool = False) -> str:
        """`default`: also answer requests that name no episode, for a person with an ordinary browser."""
        with self._lock:
            key = str(next(self._keys))
            self._episodes[key] = episode
            if default:
                self._default = key
            return key

    def headers(self, key: str) -> dict[str, str]:
        return {HEADER: key}

    def close_episode(self, key: str) -> None:
        with self._lock:
            episode = self._episodes.pop(key, None)
        if episode is not None:
            episode.close()

    def close(self) -> None:
        self._http.close()
        for key in list(self._episodes):
            self.close_episode(key)

    def _answer(self, request: HttpRequest) -> HttpResponse:
        key = request.headers.get(HEADER.lower(), self._default)
        episode = self._episodes.get(key or "")
        if episode is None:
            return HttpResponse(b"No such episode.", 404, {"Content-Type": "text/plain"})
        return episode.answer(request)
