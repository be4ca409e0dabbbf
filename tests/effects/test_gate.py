"""What happens around a held request: redirects, answers for a site, rules, background, what is not there at all."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from holotron.envs.effects.question import ALLOW_ONCE, ALLOW_SITE, Kind, refuse
from holotron.envs.effects.rules import parse_rules
from holotron.types import Answer, Click, Goto, Scroll, Wait, Write
from tests.effects.conftest import Agent, Run
from tests.effects.ways import AT, IN, POST, button, form

pytestmark = pytest.mark.browser
PRESS = Click(100, 30)


def test_a_refused_page_stays_as_it_is_and_a_refused_script_gets_an_error(run: Run, agent: Agent) -> None:
    async def main() -> None:
        agent.answer = lambda question: refuse()
        await agent.open(form(f"<button {AT}>Go</button><input name=note {IN}>"))
        await agent.do(Write("hello", 100, 90), PRESS)
        kept = "location.pathname + document.querySelector('[name=note]').value"
        assert await agent.environment.evaluate(kept) == "/hello"
        await agent.open(button(f"{POST}.catch(e => document.title = e.name)"))
        (result,) = await agent.do(PRESS)
        assert result.observation.title == "TypeError"

    run(main())


def test_a_redirect_to_another_site_is_another_question(run: Run, agent: Agent) -> None:
    to = base64.b64encode(agent.there.url("/order").encode()).decode()
    again = base64.b64encode(agent.here.url("/order").encode()).decode()

    async def main() -> None:
        agent.answer = lambda question: ALLOW_ONCE if question.origin == agent.here.url("") else refuse()
        await agent.open(button(f"fetch('/first?to={to}',{{method:'POST',body:'x'}})"))
        await agent.do(PRESS)
        assert [question.origin for question in agent.questions] == [agent.here.url(""), agent.there.url("")]
        assert agent.there.changes == [] and len(agent.here.changes) == 1
        await agent.open(button(f"fetch('/first?to={again}',{{method:'POST',body:'x'}})"))
        await agent.do(PRESS)
        assert len(agent.questions) == 1 and len(agent.here.changes) == 2  # the same site: one question is enough

    run(main())


def test_once_is_once_and_a_site_is_a_site(run: Run, agent: Agent) -> None:
    async def main() -> None:
        await agent.open(button(POST))
        await agent.do(PRESS, PRESS)
        assert len(agent.questions) == len(agent.changes) == 2
        agent.answer = lambda question: ALLOW_SITE
        await agent.open(button(POST) + f"<input type=password {IN}>")
        await agent.do(PRESS, PRESS)
        assert len(agent.questions) == 1 and len(agent.changes) == 2
        await agent.do(Write("hunter22", 100, 90))
        assert agent.questions[-1].kind is Kind.FIELD  # requests were allowed, not passwords

    run(main())


def test_rules_decide_without_asking(run: Run, other_agent) -> None:
    def rules(agent: Agent):
        origin = agent.here.url("")
        return parse_rules(
            {"always": [{"origin": origin, "path": "/order"}], "never": [{"origin": origin, "path": "/pixel"}],
             "ask": [{"origin": origin, "path": "/quiet", "method": "GET"}]}
        )  # fmt: skip

    agent = other_agent()
    agent = other_agent(rules=rules(agent))

    async def main() -> None:
        await agent.open(button(f"{POST};fetch('/pixel').catch(()=>0)") + f"<a href=/quiet {IN}>x</a>")
        (result,) = await agent.do(PRESS)
        assert agent.changes == ["POST /order"] and agent.questions == []
        assert "/pixel" not in agent.here.seen and "rule" in result.info["reasons"]
        agent.answer = lambda question: refuse()
        await agent.do(Click(100, 90))
        assert len(agent.questions) == 1 and "/quiet" not in agent.here.seen

    run(main())


def test_what_the_page_does_by_itself_is_not_asked_about(run: Run, agent: Agent) -> None:
    page = """<script>
      const beat = () => fetch('/beat', {method: 'POST', body: JSON.stringify({at: Date.now(), page: 'home'})});
      beat(); setInterval(beat, 500); navigator.sendBeacon('/statistics', document.title);
      fetch('/graphql', {method: 'POST', body: JSON.stringify({query: '{ items }'})});
      const s = new WebSocket('SOCKET'); s.onopen = () => setInterval(() => s.send('ping ' + Date.now()), 100);
    </script>"""
    quiet = button("fetch('/more?page=2')", "More") + f"<a href=/next {IN}>next</a>"

    async def main() -> None:
        agent.answer = lambda question: refuse()
        await agent.open(page + quiet, {"/next": page})
        await asyncio.sleep(0.7)  # so that it has done each of them once
        results = await agent.do(PRESS, Scroll("down"), Wait(0.5), Click(100, 90), Wait(0.3), Answer("done"))
        assert agent.questions == []
        assert agent.here.changes.count("POST /beat") >= 3
        assert not any(result.info.get("refused") for result in results)
        await agent.do(Goto(agent.here.url("/quiet")))  # or it would go on into the next test

    run(main())


def test_statistics_of_another_site_are_dropped_without_a_word(run: Run, agent: Agent) -> None:
    async def main() -> None:
        await agent.open(button("navigator.sendBeacon('THERE/collect','x')"))
        (result,) = await agent.do(PRESS)
        assert agent.questions == [] and agent.changes == []
        assert result.info == {"dropped": [f"POST {agent.there.url('')}"]}

    run(main())


def test_what_could_not_be_held_is_not_there(run: Run, agent: Agent) -> None:
    tries = """(async () => {
      const out = [typeof SharedWorker, typeof ServiceWorkerContainer, String(navigator.serviceWorker),
        typeof RTCPeerConnection, typeof WebTransport, typeof WebSocketStream];
      const frame = document.createElement('iframe'); document.body.append(frame);
      out.push(typeof frame.contentWindow.SharedWorker, String(frame.contentWindow.navigator.serviceWorker));
      for (const name of ['geolocation', 'notifications', 'camera', 'microphone', 'midi'])
        out.push((await navigator.permissions.query({name})).state === 'granted');
      return [...new Set(out)].join();
    })()"""
    rules = """<script type=speculationrules>{"prefetch": [{"urls": ["/effect/a"], "eagerness": "immediate"}],
        "prerender": [{"urls": ["/effect/b"], "eagerness": "immediate"}]}</script>"""

    async def main() -> None:
        await agent.open(button("document.body.insertAdjacentHTML('beforeend','<p>x')") + rules)
        await agent.do(PRESS, Wait(0.5))
        assert agent.changes == []
        assert await agent.environment.evaluate(tries) == "undefined,false"

    run(main())


def test_a_question_that_comes_between_two_steps_waits_for_the_next(run: Run, agent: Agent) -> None:
    async def main() -> None:
        await agent.open(button(f"setTimeout(()=>{POST},400)"))
        await agent.do(PRESS)
        await asyncio.sleep(1)
        assert agent.questions == [] and agent.changes == []
        agent.answer = lambda question: refuse()
        (result,) = await agent.do(Answer("done"))
        assert len(agent.questions) == 1 and agent.changes == [] and result.done and result.info["refused"]

    run(main())


def test_what_a_page_sends_when_it_is_closed_does_not_leave(run: Run, other_agent) -> None:
    agent = other_agent()

    async def main() -> None:
        await agent.open("<script>onpagehide=()=>navigator.sendBeacon('/order','x')</script>" + button("1"))
        await agent.do(PRESS)
        await agent.environment.close()
        await asyncio.sleep(0.3)
        assert agent.changes == []

    run(main())


def test_a_slow_person_breaks_nothing(run: Run, agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the page stands still meanwhile: a box, a request that waits."""
    for name in (
        "holotron.envs.tab.ANSWER_TIMEOUT",
        "holotron.envs.tab.INPUT_TIMEOUT",
        "holotron.envs.web.ACTION_TIMEOUT",
    ):
        monkeypatch.setattr(name, 4.0)

    async def slowly(question):
        agent.questions.append(question)
        await asyncio.sleep(5)
        return ALLOW_ONCE

    async def main() -> None:
        agent.environment.ask_first(slowly)
        await agent.open(button("x=new XMLHttpRequest;x.open('POST','/order',false);x.send('a');document.title='sent'"))
        (result,) = await agent.do(PRESS)
        assert result.observation.title == "sent" and result.observation.note == ""

    run(main())


def test_downloads_are_kept_after_a_yes_only(run: Run, other_agent, tmp_path: Path) -> None:
    agent = other_agent(downloads=tmp_path)

    async def main() -> None:
        for answer, files in ((refuse(), []), (ALLOW_ONCE, ["a.zip"])):
            agent.answer = lambda question, answer=answer: answer
            await agent.open(f"<a href=/file.zip download {AT}>manual</a>")
            (result,) = await agent.do(PRESS)
            for _ in range(100):
                if agent.questions and ("ownload" in result.observation.note):
                    break
                (result,) = await agent.do(Wait(0.05))
            assert agent.questions[0].kind is Kind.DOWNLOAD
            assert [path.name for path in tmp_path.rglob("*.zip")] == files

    run(main())


def test_searching_is_not_asked_about(run: Run, agent: Agent) -> None:
    async def main() -> None:
        await agent.open(
            f"<form action=/results><input name=q {IN} oninput=\"fetch('/suggest?q='+this.value)\"></form>"
        )
        await agent.do(Write("red kettle", 100, 90, press_enter=True), Goto(agent.there.url("/red-kettle")))
        assert "/results" in agent.here.seen and "/red-kettle" in agent.there.seen
        assert agent.questions == []

    run(main())
