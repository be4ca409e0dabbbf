"""Where requests are held: everything a browser sends stops here first, and what would change the world waits for a
person.

The browser's own interception (CDP `Fetch`, at the level of the browser, not of a page) stops requests of every tab,
popup, frame and worker, beacons and requests that outlive their page, before a byte of them leaves. So it does not
matter which key, gesture, timer, frame or language caused one. What is refused fails in the page as a blocked request
does; a page that was to be left stays.

Where the session has secrets, what would take one to a site to which it does not belong waits as well, whatever else is
asked about; and workers are told to where they may open sockets, into which nobody can look.

Questions are asked while the agent is at work on a step. What wants to leave between two steps waits for the next one.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import CDPSession
from playwright.async_api import Error as PlaywrightError

from holotron.envs.effects.background import Background
from holotron.envs.effects.judging import Effect, Sent, judge, origin_of, to_other_sites
from holotron.envs.effects.question import REFUSE, Approver, Decision, Kind, Question, group_of, refuse
from holotron.envs.effects.rules import Rules
from holotron.envs.effects.sockets import ANYWHERE, SocketQuestion, question_of_ours
from holotron.envs.effects.typed import Typed, is_personal, is_told
from holotron.envs.focus import Focus
from holotron.envs.hands import ActionRefused
from holotron.envs.patience import Patience
from holotron.envs.secrets.keeping import Secrets
from holotron.quoting import quoted

log = logging.getLogger(__name__)

BY_RULE = "a rule forbids it"
SHOWN = 300  # characters of what is sent
_SCRIPT = re.compile(r"(java|ecma|live|j)script", re.IGNORECASE)  # what browsers run, by the kinds that answers say
WITHOUT_SOCKETS = "connect-src http: https: data: blob: filesystem:"  # for workers, where nobody could hold them
UNSEEN = ("Ping", "CSPViolationReport")  # sent behind the page's back: nobody misses an answer
AT_ONCE = 5_000  # characters that are looked into for secrets without a thread of their own
REMEMBERED = 500  # allowed requests, in case they are redirected


class Gate:
    """One session's. `ask` is who is asked; without anybody, the answer is no."""

    def __init__(self, rules: Rules | None, patience: Patience, secrets: Secrets) -> None:
        """`rules`: what needs no asking; None: nothing is asked about but secrets."""
        self.ask: Approver | None = None
        self.secrets = secrets
        self.cookies: Callable[[str], Awaitable[str]] | None = None  # that go along to an address
        self.page: Callable[[], str] = str  # the address of the page in front
        self.ours: Callable[[str], Awaitable[bool]] | None = None  # whether a frame is; None: all are
        self.held = token_hex(16)  # known to our scripts in pages alone
        self.asks = rules is not None  # about everything that changes something, not only about secrets
        self._rules = rules or Rules()
        self._patience = patience
        self.forget()
        self._open = 0  # questions that wait for an answer
        self._one_at_a_time = asyncio.Lock()
        self._looking = asyncio.Lock()
        self._changed = asyncio.Event()
        self._cdp: CDPSession | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def forget(self) -> None:
        """Begin anew, as if nothing had been typed, sent or answered yet."""
        self._closed = False
        self._at_work = asyncio.Event()
        self.control = ""  # what the page calls what the agent presses
        self.typed = Typed()
        self.background = Background()
        self._sites: dict[tuple[str, str], Decision] = {}
        self._hosts: set[str] = set()  # where allowed requests go
        self._allowed: dict[str, str] = {}  # requests that were, and where to: redirects go on under another name
        self._refusals: list[tuple[Question, Decision]] = []
        self._dropped: list[str] = []

    # ------------------------------------------------------------------------------------------------ around a step

    def begin(self, *, touches: bool) -> None:
        """The agent acts; from now on questions can be asked."""
        self._at_work.set()
        if touches:
            self.background.touch(self.page())

    def end(self) -> tuple[list[tuple[Question, Decision]], list[str]]:
        """What was refused meanwhile, and what was dropped without a question."""
        self._at_work.clear()
        self.control = ""
        refused, self._refusals = self._refusals, []
        dropped, self._dropped = self._dropped, []
        return refused, dropped

    @property
    def asking(self) -> bool:
        return self._open > 0 and self._at_work.is_set()

    async def answered(self) -> bool:
        """Wait until no question is open; whether one was."""
        if not self.asking:
            return False
        while self.asking:
            self._changed.clear()
            await self._changed.wait()
        return True

    # ------------------------------------------------------------------------------------------------------- asking

    async def allows(self, question: Question, url: str) -> bool:
        """Ask, unless a rule or an earlier answer for the whole site says it already."""
        if self._closed:
            return False
        group = group_of(question.kind)
        match self._rules.verdict(question.kind, question.method, url):
            case "never":
                return self._decided(question, refuse(BY_RULE))
            case "always":
                return True
            case "ask":
                pass
            case None if (decision := self._sites.get((group, question.origin))) is not None:
                return self._decided(question, decision)
        self._open += 1
        try:
            async with self._one_at_a_time:
                await self._at_work.wait()
                decision = self._sites.get((group, question.origin)) or await self._asked(question)
        finally:
            self._open -= 1
            self._changed.set()
        if decision.scope == "site":
            self._sites[group, question.origin] = decision
        return self._decided(question, decision)

    async def _asked(self, question: Question) -> Decision:
        if self.ask is None or self._closed:
            return REFUSE
        question = replace(
            question, page=question.page or self.secrets.redact(self.page()), control=self.secrets.redact(self.control)
        )
        try:
            with self._patience.stopped():
                return await self.ask(question)
        except Exception:
            log.exception("asking failed, which is taken for a no")
            return REFUSE

    def _decided(self, question: Question, decision: Decision) -> bool:
        if not decision.allow:
            self._refusals.append((question, decision))
        return decision.allow

    # ------------------------------------------------------------------------------------------------- the requests

    async def attach(self, cdp: CDPSession) -> None:
        """From here on nothing leaves the browser of this protocol session unseen."""
        self._cdp = cdp
        cdp.on("Fetch.requestPaused", self._on_paused)
        stages = [
            {"urlPattern": "*", "requestStage": "Request"},
            {"resourceType": "Other", "requestStage": "Response"},  # workers' scripts are of this kind
        ]
        await cdp.send("Fetch.enable", {"patterns": stages})

    def close(self) -> None:
        """No more questions: what still wants to leave, and would have to be asked about, does not."""
        self._closed = True
        self._at_work.set()

    async def detach(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        cdp, self._cdp = self._cdp, None
        if cdp is not None:
            await cdp.detach()

    def _on_paused(self, event: Any) -> None:
        arrived = "responseStatusCode" in event or "responseErrorReason" in event
        task = asyncio.ensure_future(self._harden(event) if arrived else self._decide(event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _decide(self, event: Any) -> None:
        sent = self._sent(event)
        question = question_of_ours(sent, self.held)
        try:
            free = await (self._passes(sent, event) if question is None else self._answers(sent, question, event))
        except PlaywrightError:
            return  # the browser is gone
        except Exception:
            log.exception("judging a request failed, which is taken for a no")
            free = False
        if self._cdp is None:
            return
        try:
            if question is not None:  # which is answered here
                answer = {"responseCode": 200 if free else 403, "responseHeaders": ANYWHERE}
                await self._cdp.send("Fetch.fulfillRequest", {"requestId": event["requestId"]} | answer)
            elif free:
                await self._cdp.send("Fetch.continueRequest", {"requestId": event["requestId"]})
            elif sent.resource == "Document":  # "no content" leaves the page as it is, with what was written into it
                await self._cdp.send("Fetch.fulfillRequest", {"requestId": event["requestId"], "responseCode": 204})
            else:
                reason = {"requestId": event["requestId"], "errorReason": "BlockedByClient"}
                await self._cdp.send("Fetch.failRequest", reason)
        except PlaywrightError:  # given up by the page meanwhile
            pass

    async def _harden(self, event: Any) -> None:
        """What may be a worker's script has come: say to where it may open sockets. Only an answer that is given anew
        keeps a policy."""
        cdp, request = self._cdp, {"requestId": event["requestId"]}
        named = {one["name"].lower(): one["value"] for one in event.get("responseHeaders", ())}
        if cdp is None:
            return
        with contextlib.suppress(PlaywrightError):  # given up meanwhile
            status = event.get("responseStatusCode", 0)
            ours = self.ours is None or await self.ours(event.get("frameId", ""))
            if not ours or not 200 <= status < 300 or not _SCRIPT.search(named.get("content-type", "")):
                await cdp.send("Fetch.continueResponse", request)
                return
            body = await cdp.send("Fetch.getResponseBody", request)
            content = body["body"] if body["base64Encoded"] else base64.b64encode(body["body"].encode()).decode()
            kept = [one for one in event["responseHeaders"] if not one["name"].lower().startswith("content-encoding")]
            sockets = WITHOUT_SOCKETS if self.asks else self.secrets.socket_policy
            policy = {"name": "Content-Security-Policy", "value": sockets}
            answer = {"responseCode": status, "responseHeaders": [*kept, policy], "body": content}
            await cdp.send("Fetch.fulfillRequest", request | answer)

    async def _passes(self, sent: Sent, event: Any) -> bool:
        if not sent.url.startswith(("http:", "https:")):
            return True
        if self.ours is not None and not await self.ours(event.get("frameId", "")):
            return True
        if taken := await self._taken(sent):
            taking = Effect(Kind.SECRET, f"takes {taken} to another site", silent=sent.resource in UNSEEN)
            if self._rules.verdict(Kind.REQUEST, sent.method, sent.url) == "never":
                return self._decided(self._question(sent, taking), refuse(BY_RULE))
            return await self._released(sent, taking)
        if not self.asks:
            return True
        effect = judge(sent, self.typed, self.control)
        verdict = self._rules.verdict(effect.kind if effect else Kind.REQUEST, sent.method, sent.url)
        if verdict in ("never", "ask") and effect is None:
            effect = Effect(Kind.REQUEST, "a rule wants to know of it", certain=True)
        if effect is None:
            return True
        if verdict is None and self._is_habit(sent, effect):
            return True
        if verdict is None and effect.certain and not self.background.acted:
            self.background.owns(sent)
            return True  # the page that the user chose has not been touched
        method, _, origin = self._allowed.get(event.get("redirectedRequestId", ""), "").partition(" ")
        if verdict is None and origin == sent.origin and sent.method in (method, "GET"):
            return self._passed(event, sent)  # where an allowed request leads on its own site
        return await self._released(sent, effect) and self._passed(event, sent)

    def _is_habit(self, sent: Sent, effect: Effect) -> bool:
        """Whether a page does this by itself."""
        new = effect.certain or (self.background.acted and bool(self.typed.carried_by(sent.said)))
        return not new and self.background.owns(sent, self.page())

    async def _taken(self, sent: Sent) -> str:
        """The secrets that a request takes to where they do not belong."""
        foreign = self.secrets.foreign(sent.url)
        if not foreign or sent.unseen:  # into a file nobody can look
            return foreign
        cookies = "" if self.cookies is None else await self.cookies(sent.url)
        headers = "\n".join(f"{name}: {value}" for name, value in sent.headers.items())
        said = (sent.url, sent.fragment, headers, sent.text, cookies)
        if sum(map(len, said)) < AT_ONCE:
            return self.secrets.taken_away(sent.url, *said)
        async with self._looking:  # much that a page writes takes long to look into, and other sessions wait
            return await asyncio.to_thread(self.secrets.taken_away, sent.url, *said)

    async def _released(self, sent: Sent, effect: Effect) -> bool:
        if effect.silent and self._rules.verdict(effect.kind, sent.method, sent.url) is None:
            self._dropped.append(self.secrets.redact(f"{sent.method} {sent.origin}"))
            return False
        return await self.allows(self._question(sent, effect), sent.url)

    def _passed(self, event: Any, sent: Sent) -> bool:
        self._allowed[event["requestId"]] = f"{sent.method} {sent.origin}"
        self._hosts.add(urlsplit(sent.url).hostname or "")
        if len(self._allowed) > REMEMBERED:
            del self._allowed[next(iter(self._allowed))]
        return True

    def _question(self, sent: Sent, effect: Effect) -> Question:
        shown = sent.text[: 20 * SHOWN] if sent.body else sent.url.partition("?")[2] or sent.fragment
        return Question(
            effect.kind,
            summary=f"{sent.method} to {self.secrets.redact(origin_of(sent.url))}: {effect.why}",
            origin=self.secrets.redact(sent.origin),
            method=sent.method,
            address=self.secrets.redact(sent.url.partition("?")[0]),
            sends=self.secrets.redact(shown) or ("(a file)" if sent.unseen else ""),
        )

    def _sent(self, event: Any) -> Sent:
        request = event["request"]
        headers = request.get("headers", {})
        entries = request.get("postDataEntries") or []
        try:
            body = b"".join(base64.b64decode(entry.get("bytes", "")) for entry in entries)
        except (binascii.Error, ValueError):
            body = b""
        body = body or (request.get("postData") or "").encode("utf-8", "replace")
        unseen = bool(request.get("hasPostData")) and (not body or any(not entry.get("bytes") for entry in entries))
        named = {key.lower(): value for key, value in headers.items()}
        page = named.get("origin", "null")
        page = page if page != "null" else named.get("referer", "") or self.page()
        fragment = request.get("urlFragment", "") if event["resourceType"] == "Document" else ""
        return Sent(request["method"], request["url"], event["resourceType"], page, body, headers, unseen, fragment)

    # ------------------------------------------------------------------------------------------ what is no request

    def why_not_looked_up(self, host: str) -> str:
        """A connection that the browser opens ahead is no request, but its name would be looked up. Empty: it may."""
        if self.secrets.taken_away(f"https://{host}", host):
            return "holds a secret"
        if not self.asks or not self.background.acted or host in self._hosts:
            return ""
        return "holds typed text" if to_other_sites(self.typed.carried_by(host), f"https://{host}") else ""

    async def _answers(self, asked: Sent, question: SocketQuestion, event: Any) -> bool:
        about, url = question
        if about == "asking" or (self.ours is not None and not await self.ours(event.get("frameId", ""))):
            return True
        return await self._allows_message(asked, url) if about == "message" else self._allows_opening(asked, url)

    def _allows_opening(self, asked: Sent, url: str) -> bool:
        """A connection into which messages go: its address and its protocols are sent at once. Nobody can be asked, the
        page waits for it."""
        sent = Sent("GET", f"http{url[2:]}", "WebSocket", self.page(), headers={"Sec-WebSocket-Protocol": asked.text})
        verdict = self._rules.verdict(Kind.SOCKET, "WEBSOCKET", url)
        effect = judge(sent, self.typed, self.control)
        if verdict == "never":
            return self._decided(self._question(sent, Effect(Kind.SOCKET, "opens a connection")), refuse(BY_RULE))
        if verdict == "always" or effect is None or self._is_habit(sent, effect) or not self.background.acted:
            return True
        self._dropped.append(self.secrets.redact(f"WEBSOCKET {sent.origin}"))
        return False

    async def _allows_message(self, asked: Sent, url: str) -> bool:
        """A message over an open connection, which lies in the question's body."""
        sent = Sent("WEBSOCKET", url, "WebSocket", self.page(), asked.body, unseen=asked.unseen)
        binary = asked.unseen or (bool(asked.body) and not asked.header("Content-Type"))
        taken = self.secrets.foreign(url) if binary else self.secrets.taken_away(url, sent.text)
        if taken:
            return await self._released(sent, Effect(Kind.SECRET, f"takes {taken} to another site"))
        if not self.asks:
            return True
        carried = self.typed.carried_by(sent.text) if self.background.acted else {}
        if self._rules.verdict(Kind.SOCKET, "WEBSOCKET", url) is None and not carried and self.background.owns(sent):
            return True
        effect = Effect(Kind.SOCKET, "a message over an open connection")
        return await self.allows(self._question(sent, effect), url)

    async def allows_dialog(self, url: str, said: str, leaving: bool) -> bool:
        if not self.asks or not self.background.acted:
            return True  # nobody has done anything yet
        what = "leaves a page with changes that are not saved" if leaving else f"answers yes to {quoted(said, 200)}"
        return await self.allows(Question(Kind.DIALOG, what, origin_of(url), address=self.secrets.redact(url)), url)

    async def allows_download(self, url: str, name: str) -> bool:
        if not self.asks:
            return True
        summary = f"keeps the file {quoted(self.secrets.redact(name), 120)} from {origin_of(url)}"
        return await self.allows(Question(Kind.DOWNLOAD, summary, origin_of(url), "GET", self.secrets.redact(url)), url)

    async def before_going(self, url: str) -> None:
        """Ask, where an address that the agent writes itself tells somebody more than where to go."""
        if not self.asks or not (told := is_told(url)):
            return
        summary = f"opens an address on {origin_of(url)} that tells {quoted(self.secrets.redact(told), 200)}"
        question = Question(Kind.NAVIGATION, summary, origin_of(url), "GET", self.secrets.redact(url.partition("?")[0]))
        if not await self.allows(question, url):
            raise ActionRefused("The user did not allow opening this address.")

    async def before_typing(self, focus: Focus, text: str, what: str) -> None:
        """Ask, where `what` says that this is more than any text, and remember what was typed and where."""
        if self.asks and what:
            summary = f"types {what} on {origin_of(focus.url)}"
            question = Question(Kind.FIELD, summary, origin_of(focus.url), address=self.secrets.redact(focus.url))
            if not await self.allows(question, focus.url):
                raise ActionRefused(f"The user did not allow typing {what} here.")
        self.typed.add(text, focus.url, search=focus.search and not is_personal(text))
