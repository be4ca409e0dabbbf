"""A browser without a window: opens pages, fills in their forms as they stand, presses buttons."""

from __future__ import annotations

import html
import http.cookiejar
import re
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
    boxes: set[str] = field(default_factory=set)  # to tick or to choose from


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
            elif kind in ("checkbox", "radio"):
                form.boxes.add(name)
                form.values |= {name: at.get("value", "on")} if "checked" in at else {}
            else:
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
        self.url, self.page = base, ""  # where it is
        jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(jar, urllib.request.ProxyHandler({}))

    def get(self, url: str, body: bytes | None = None) -> str:
        request = urllib.request.Request(urllib.parse.urljoin(self._base, url), body, self._headers)
        with self._opener.open(request, timeout=120) as response:
            text: str = response.read().decode(errors="replace")
            self.url, self.page = response.geturl(), text
            return text

    def submit(self, url: str, form: str, button: str = "", **fields: str) -> str:
        """Fill in the form of this id, or the one that has a field of this name, and press the button."""
        self.get(url)
        return self.send(form, button, **fields)

    def send(self, form: str, button: str = "", **fields: str) -> str:
        """The same on the page that is open."""
        parser = _Forms()
        parser.feed(self.page)
        url = self.url
        found = next(f for f in parser.forms if form in (f.name, f.action, *f.values, *f.buttons))
        known = found.values.keys() | found.boxes
        assert fields.keys() <= known, f"{sorted(fields.keys() - known)} are not in the form; it has {sorted(known)}"
        values = {**found.values, **fields} | ({button: found.buttons[button]} if button else {})
        target = urllib.parse.urljoin(urllib.parse.urljoin(self._base, url), found.action)
        query = urllib.parse.urlencode(values)
        return self.get(target, query.encode()) if found.method == "post" else self.get(f"{target}?{query}")


class StepCounter(FormBrowser):
    """Goes only where a link leads, and counts what a person would do: each link, each field, each button."""

    steps = 0

    def follow(self, href: str) -> str:
        links = {html.unescape(link) for link in re.findall(r'href="([^"]*)"', self.page)}
        assert href in links, f"no link to {href} on {self.url}"
        self.steps += 1
        return self.get(urllib.parse.urljoin(self.url, href))

    def send(self, form: str, button: str = "", **fields: str) -> str:
        self.steps += len(fields) + 1
        return super().send(form, button, **fields)

    def unfold(self) -> None:
        """A menu or a tab: one more click, for something that is on the page already."""
        self.steps += 1
