"""A visitor without a browser: requests to an episode, as a browser would send them."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from holotron.sites.episode import SiteEpisode
from holotron.sites.http import HttpRequest, HttpResponse
from holotron.sites.tasks import find_template


class Visitor:
    def __init__(self, name: str, seed: int = 0, **options: Any) -> None:
        self.episode = SiteEpisode(find_template(name), seed, **options)
        self.facts = self.episode.assignment.facts
        self._cookies: dict[str, str] = {}
        self.get(self.episode.assignment.start)

    def get(self, url: str) -> str:
        return self._send("GET", url, b"")

    def post(self, url: str, **form: Any) -> str:
        return self._send("POST", url, urlencode(form).encode())

    def _send(self, method: str, url: str, body: bytes) -> str:
        parts = urlsplit(url)
        headers = {"cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items())}
        query = dict(parse_qsl(parts.query))
        response: HttpResponse = self.episode.answer(
            HttpRequest(method, self.episode.host, parts.path, query, headers, body)
        )
        self._cookies |= response.cookies
        if response.status == 303:
            return self.get(response.headers["Location"])
        return response.body.decode()

    def done(self, answer: str | None = None) -> bool:
        return self.episode.verdict(answer).success

    def why(self, answer: str | None = None) -> str:
        return self.episode.verdict(answer).reason
