"""One episode: an app with data of its own, a task in it, and the answer to every request a browser makes.

    episode = Episode(find_template("shop-wish"), seed=7)
    episode.goal, episode.url
    episode.answer(HttpRequest(...))           # what the server calls
    episode.verdict(answer=None)               # success, reason, partial credit, from the state alone

Everything follows from (template, seed, split): there is no clock and no other source of chance.
"""

from __future__ import annotations

import random
from typing import Any

from holotron.sites.checks import Verdict, judge
from holotron.sites.http import HttpRequest, HttpResponse
from holotron.sites.state import Change, State
from holotron.sites.style import stylesheet
from holotron.sites.tasks import Assignment, Brief, TaskTemplate, Unsuitable
from holotron.sites.variation import Split, Variation, generator
from holotron.sites.web import BrowserSession, NotFound, SignInFirst, Visit
from holotron.sites.words import Words

SESSION_COOKIE = "session"
MOST_DRAWS = 50


class SiteEpisode:
    def __init__(self, template: TaskTemplate, seed: int, split: Split = "train", **fixed: Any) -> None:
        """`fixed`: parts of the variation that are given instead of drawn, see `Variation.draw`."""
        self.template = template
        self.app = template.find_app()
        self.seed = seed
        drawn = Variation.draw(template.name, seed, split, **fixed)
        self.brand, self.host = generator(template.name, seed, "brand").choice(self.app.brands)
        self.words = Words(drawn.language, self.app.words)
        self.state, self.assignment, self.variation = self._draw(drawn)
        self.state.mark()
        self.memory: dict[str, Any] = {}  # the solver's
        self.pages = 0  # opened so far
        self._sessions: dict[str, BrowserSession] = {}
        self._expired = False
        self._prepared: set[str] = set()  # slow addresses that have been asked for
        self._judged: tuple[int, str | None, Verdict] | None = None

    def _draw(self, drawn: Variation) -> tuple[State, Assignment, Variation]:
        """The data and what is asked about them; other data where the first have nothing to ask for."""
        key = (self.template.name, self.seed)
        for draw in range(MOST_DRAWS):
            salt = (draw,) if draw else ()
            state = State(self.app.schema)
            self.app.fill(Brief(generator(*key, "data", *salt), state, self.words, drawn))
            brief = Brief(generator(*key, "task", *salt), state, self.words, drawn)
            try:
                assignment = self.template.make(brief)
            except Unsuitable:
                state.close()
            else:
                return state, assignment, brief.variation  # the task may have asked for trouble
        raise RuntimeError(f"{self.template.name} found nothing to ask for in {MOST_DRAWS} sets of data.")

    @property
    def css(self) -> str:
        look = self.variation
        return stylesheet(look.theme, look.layout, look.density, look.viewport)

    @property
    def language(self) -> str:
        return self.words.language

    @property
    def goal(self) -> str:
        return self.assignment.goal

    @property
    def url(self) -> str:
        return f"http://{self.host}{self.assignment.start}"

    # -------------------------------------------------------------------------------------------------------- judging

    def verdict(self, answer: str | None = None) -> Verdict:
        writes = self.state.writes
        if self._judged is None or self._judged[:2] != (writes, answer):
            verdict = judge(
                self.assignment.wanted,
                self.state.changes(),
                answer,
                follows=self._follows,
                irrevocable=self.app.irrevocable,
            )
            self._judged = (writes, answer, verdict)
        return self._judged[2]

    def _follows(self, change: Change) -> bool:
        columns = self.app.follows.get(change.table)
        if columns is None:
            return False
        return not columns or (bool(change.columns) and change.columns <= columns)

    # ------------------------------------------------------------------------------------------------------ answering

    def answer(self, request: HttpRequest) -> HttpResponse:
        with self.state.lock:
            cookie = request.cookies.get(SESSION_COOKIE, "")
            session = self._sessions.get(cookie)
            fresh = session is None
            if session is None:
                cookie = f"{random.Random(f'{self.seed}/{len(self._sessions)}').getrandbits(64):016x}"
                first = not self._sessions
                session = self._sessions[cookie] = BrowserSession(self.assignment.signed_in if first else None)
            response = self._respond(Visit(self, request, session))
            if fresh:
                response.cookies[SESSION_COOKIE] = cookie
            return response

    def _respond(self, visit: Visit) -> HttpResponse:
        request, trouble = visit.request, self.variation.trouble
        if request.method == "HEAD" or request.path == "/favicon.ico":
            return HttpResponse(status=204)
        is_page = request.method == "GET"
        if is_page:
            self.pages += 1
            if trouble.signed_out and not self._expired and self.pages >= trouble.signed_out and visit.user:
                self._expired = True
                visit.session.user = None
                visit.flash(visit.t("session_over"), "bad")
                return visit.redirect(f"/sign-in?next={visit.path}")
        try:
            if self.app.accounts and request.path in ("/sign-in", "/sign-out"):
                return _accounts(visit)
            found = self.app.find(request.method, request.path)
            if found is None:
                raise NotFound(request.path)
            slow = is_page and trouble.slow and request.path.startswith(trouble.slow)
            if slow and request.path not in self._prepared:
                self._prepared.add(request.path)
                return visit.page("loading.html")
            handler, arguments = found
            return handler(visit, **arguments)
        except SignInFirst:
            visit.flash(visit.t("please_sign_in"), "bad")
            return visit.redirect(f"/sign-in?next={visit.path if is_page else '/'}")
        except (NotFound, LookupError):
            return visit.page("not_found.html", status=404)

    def close(self) -> None:
        self.state.close()


def _accounts(visit: Visit) -> HttpResponse:
    post = visit.request.method == "POST"
    if visit.path == "/sign-out":
        if post:
            visit.session.user = None
        return visit.redirect("/")
    if post:
        user = visit.state.one("select * from users where lower(email) = lower(?)", visit.text("email"))
        if user is not None and user["password"] == visit.text("password"):
            visit.session.user = user["id"]
            there = visit.text("next")
            return visit.redirect(there if there.startswith("/") and not there.startswith("//") else "/")
        visit.errors["password"] = visit.t("wrong_login")
    return visit.page("sign_in.html", next=visit.text("next") or "/")
