"""A browser without a window: opens pages, fills in their forms as they stand, presses buttons."""

from __future__ import annotations

import http.cookiejar
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Form:
    action: str = ""
    method: str = "get"
    name: str = ""  # its id
    values: dict[str, str] = field(default_factory=dict)
    buttons: dict[str, str] = field(default_factory=dict)


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._area = ""
        self._select = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        at = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(Form(at.get("action", ""), at.get("method", "get").lower(), at.get("id", "")))
        if not self.forms:
            return
        form, name = self.forms[-1], at.get("name", "")
        if tag == "input" and name:
            kind = at.get("type", "text")
            if kind in ("submit", "button", "image"):
                form.buttons[name] = at.get("value", "")
            elif kind not in ("checkbox", "radio") or "checked" in at:
                form.values[name] = at.get("value", "")
        elif tag == "textarea":
            self._area, form.values[name] = name, ""
        elif tag == "select":
            self._select = name
        elif tag == "option" and self._select and ("selected" in at or self._select not in form.values):
            form.values[self._select] = at.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._area = ""
        if tag == "select":
            self._select = ""

    def handle_data(self, data: str) -> None:
        if self._area and self.forms:
            self.forms[-1].values[self._area] += data


class FormBrowser:
    def __init__(self, base: str, headers: dict[str, str]) -> None:
        self._base, self._headers = base, headers
        jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(jar, urllib.request.ProxyHandler({}))

    def get(self, url: str, body: bytes | None = None) -> str:
        request = urllib.request.Request(urllib.parse.urljoin(self._base, url), body, self._headers)
        with self._opener.open(request, timeout=120) as response:
            text: str = response.read().decode()
            return text

    def submit(self, url: str, form: str, button: str = "", **fields: str) -> str:
        """Fill in the form of this id, or the one that has a field of this name, and press the button."""
        parser = _Forms()
        parser.feed(self.get(url))
        found = next(f for f in parser.forms if form in (f.name, *f.values, *f.buttons))
        unknown = [name for name in fields if name not in found.values and not name.startswith(("action", "sel"))]
        assert not unknown, f"{unknown} are not in the form; it has {sorted(found.values)}"
        values = {**found.values, **fields} | ({button: found.buttons[button]} if button else {})
        target = urllib.parse.urljoin(urllib.parse.urljoin(self._base, url), found.action)
        query = urllib.parse.urlencode(values)
        return self.get(target, query.encode()) if found.method == "post" else self.get(f"{target}?{query}")
