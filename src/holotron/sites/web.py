"""What an app is made of: routes that turn a visit into a page or a redirect.

    app = App("shop", schema=SCHEMA, words=WORDS, brands=(("Fern & Oak", "fernandoak.example"),), ...)

    @app.get("/product/<id>")
    def product(visit: Visit, id: int) -> HttpResponse:
        return visit.page("product.html", product=visit.state.get("select * from products where id = ?", id))

    @app.post("/cart")
    def add(visit: Visit) -> HttpResponse:
        visit.state.add("cart", variant=visit.number("variant"), quantity=1)
        visit.flash(visit.t("added"))
        return visit.redirect("/cart")

A GET never changes the state; a POST always ends in a redirect or shows its form again with what is wrong. Log-ins,
flash messages, pop-ups and slow pages are the same for every app and live here and in `episode.py`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from holotron.sites.http import HttpRequest, HttpResponse
from holotron.sites.state import Row, State
from holotron.sites.words import Table, Words

if TYPE_CHECKING:
    from jinja2 import Environment

    from holotron.sites.episode import SiteEpisode
    from holotron.sites.tasks import Brief

Handler = Callable[..., HttpResponse]
PAGE_SIZE = 12


class NotFound(Exception):
    """There is no such page, or no such thing on it."""


class SignInFirst(Exception):
    """This page is for people who have signed in."""


@dataclass(frozen=True, slots=True)
class Link:
    """An entry of a menu. `key` is what solvers find it by."""

    key: str
    label: str
    href: str
    icon: str = ""
    count: int = 0
    here: bool = False


@dataclass(slots=True)
class Menu:
    """What every page of an app offers: places to go, one's own things, and a search field if `search` is set."""

    places: list[Link]
    own: list[Link]
    search: str = ""  # the address that the search field asks


@dataclass(slots=True)
class BrowserSession:
    """What the server knows of one browser."""

    user: int | None = None
    flashes: list[tuple[str, str]] = field(default_factory=list)  # kind ("ok" or "bad"), text


class Visit:
    """One request to an app, and everything needed to answer it."""

    def __init__(self, episode: SiteEpisode, request: HttpRequest, session: BrowserSession) -> None:
        self.episode = episode
        self.request = request
        self.session = session
        self.state: State = episode.state
        self.t: Words = episode.words
        self.path = request.path
        self.query = request.query
        self.form = request.form if request.method == "POST" else {}
        self.errors: dict[str, str] = {}  # by field; a form with errors is shown again

    @functools.cached_property
    def user(self) -> Row | None:
        if self.session.user is None:
            return None
        return self.state.one("select * from users where id = ?", self.session.user)

    def need_user(self) -> Row:
        if self.user is None:
            raise SignInFirst
        return self.user

    # ------------------------------------------------------------------------------------------------------- reading

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number from the form or the address."""
        text = str(self.form.get(name, self.query.get(name, ""))).strip()
        if re.fullmatch(r"-?\d{1,9}", text):
            return int(text)
        if default is None:
            raise NotFound(f"{name} is not a number: {text!r}")
        return default

    def text(self, name: str) -> str:
        return str(self.form.get(name, self.query.get(name, ""))).strip()

    def require(self, *names: str) -> None:
        """Note an error for each field that is empty."""
        for name in names:
            if not self.text(name):
                self.errors[name] = self.t("required")

    def split(self, rows: Sequence[Any], size: int = PAGE_SIZE) -> Pages:
        """The page of a long list that the address asks for."""
        pages = max(1, -(-len(rows) // size))
        page = min(max(1, self.number("page", 1)), pages)
        return Pages(list(rows[(page - 1) * size : page * size]), page, pages, len(rows))

    def here(self, **changed: Any) -> str:
        """This page's address with other parameters."""
        query = {**self.query, **{name: str(value) for name, value in changed.items()}}
        return f"{self.path}?{urlencode(query)}" if query else self.path

    # ------------------------------------------------------------------------------------------------------ answering

    def page(self, template: str, *, status: int = 200, **values: Any) -> HttpResponse:
        find = self.episode.app.templates.get_template
        values = {
            "visit": self, "t": self.t, "money": self.t.money, "date": self.t.date, "look": self.episode.variation,
            **values,
        }  # fmt: skip
        for parts in ("ui", "parts"):  # macros that every page may use
            values[parts] = find(f"{parts}.html").make_module(values)
        html = find(template).render(values)
        return HttpResponse(html.encode(), status, {"Content-Type": "text/html; charset=utf-8"})

    def redirect(self, to: str) -> HttpResponse:
        return HttpResponse(b"", 303, {"Location": to})

    def download(self, name: str, content: str, kind: str = "text/plain") -> HttpResponse:
        headers = {"Content-Type": f"{kind}; charset=utf-8", "Content-Disposition": f'attachment; filename="{name}"'}
        return HttpResponse(content.encode(), 200, headers)

    def flash(self, text: str, kind: str = "ok") -> None:
        """A message that the next page shows once."""
        self.session.flashes.append((kind, text))

    def take_flashes(self) -> list[tuple[str, str]]:
        taken, self.session.flashes = self.session.flashes, []
        return taken

    @functools.cached_property
    def menu(self) -> Menu:
        return self.episode.app.menu(self)

    @property
    def skeleton(self) -> str:
        """What every page extends."""
        return f"skeletons/{self.episode.variation.layout.skeleton}.html"


@dataclass(frozen=True, slots=True)
class Pages:
    """One page of a list."""

    rows: list[Any]
    page: int
    pages: int
    total: int


class App:
    """A web app: its tables, its words, its pages. What fills the tables is in `data.py`, what is asked of agents in
    `tasks.py`."""

    def __init__(
        self,
        name: str,
        *,
        folder: Path,
        schema: str,
        words: Table,
        brands: Sequence[tuple[str, str]],
        menu: Callable[[Visit], Menu],
        fill: Callable[[Brief], None],
        accounts: bool = True,
        follows: Mapping[str, frozenset[str]] | None = None,
        irrevocable: frozenset[str] = frozenset(),
    ) -> None:
        """`folder`: where `templates/` is. `brands`: names the app may go by, each with its host. `fill`: puts the data
        in. `accounts`: people sign in (a table `users` with `email`, `password`, `name`). `follows`: columns, by table,
        that change by themselves when something else is done (no columns: all of the table). `irrevocable`: tables
        whose new rows stay."""
        self.name = name
        self.schema = schema
        self.words = words
        self.brands = tuple(brands)
        self.menu = menu
        self.fill = fill
        self.accounts = accounts
        self.follows = follows or {}
        self.irrevocable = irrevocable
        self._folder = folder
        self._routes: list[tuple[str, re.Pattern[str], Handler]] = []

    def get(self, pattern: str) -> Callable[[Handler], Handler]:
        return self._route("GET", pattern)

    def post(self, pattern: str) -> Callable[[Handler], Handler]:
        return self._route("POST", pattern)

    def _route(self, method: str, pattern: str) -> Callable[[Handler], Handler]:
        """`<id>` in a pattern is a whole number, `<word:name>` a word; both become arguments."""
        kinds = {"word:": r"[\w-]+", None: r"\d{1,9}"}
        expression = re.sub(r"<(word:)?(\w+)>", lambda m: f"(?P<{m[2]}>{kinds[m[1]]})", pattern)

        def register(handler: Handler) -> Handler:
            self._routes.append((method, re.compile(expression), handler))
            return handler

        return register

    def find(self, method: str, path: str) -> tuple[Handler, dict[str, Any]] | None:
        for wanted, pattern, handler in self._routes:
            match = pattern.fullmatch(path) if wanted == method else None
            if match:
                return handler, {name: int(v) if v.isdigit() else v for name, v in match.groupdict().items()}
        return None

    @functools.cached_property
    def templates(self) -> Environment:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        folders = [self._folder / "templates", Path(__file__).parent / "templates"]
        return Environment(
            loader=FileSystemLoader(folders),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
