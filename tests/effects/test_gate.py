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
    hidden = f"<div><template shadowrootmode=closed>{rules}</template></div>"
    added = """d=document.createElement('div');s=document.createElement('script');s.type='speculationrules';d.append(s);
        s.textContent=JSON.stringify({prefetch:[{urls:['/effect/c'],eagerness:'immediate'}]});document.body.append(d)"""

    async def main() -> None:
        kind = {"Content-Type": "application/speculationrules+json"}
        headers = {"/": {"Speculation-Rules": '"/ahead.json"'}, "/ahead.json": kind}
        pages = {"/ahead.json": rules.partition(">")[2].removesuffix("</script>").replace("effect/", "effect/h")}
        await agent.open(button(added) + rules + hidden, pages, headers=headers)
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


def test_workers_have_no_sockets_and_work_all_the_same(run: Run, agent: Agent) -> None:
    """Nobody could hold their messages, wherever their script comes from, and whoever makes them."""
    talks = "postMessage(1);s=new WebSocket('SOCKET');s.onopen=()=>s.send('buy')"
    page = f"""<script>
      const text = `{talks}`, blob = (one) => URL.createObjectURL(new Blob([one], {{type: 'text/javascript'}}));
      const data = `data:text/javascript,${{encodeURIComponent(text)}}`, module = {{type: 'module'}};
      const inner = `new Worker(URL.createObjectURL(new Blob(['postMessage(1);new WebSocket("SOCKET").onopen=(e)=>e.target.send(1)'])))`;
      const Real = Worker.prototype.constructor, started = window.started = new Set();
      const begin = () => Object.entries({{site: () => new Worker('/w.js'), blob: () => new Worker(blob(text)),
        module: () => new Worker(blob(text), module), data: () => new Worker(data), more: () => new Worker(data, module),
        real: () => new Real(blob(text)), inside: () => new Worker(blob(`(${{inner}}).onmessage=()=>postMessage(1)`)),
        forged: () => {{ const list = Array.prototype[Symbol.iterator], made = blob(text);
          Array.prototype[Symbol.iterator] = function* () {{ yield text; }};
          try {{ return new Worker(made); }} finally {{ Array.prototype[Symbol.iterator] = list; }} }},
      }}).forEach(([name, make]) => {{ make().onmessage = () => started.add(name); }});
    </script>"""  # noqa: E501

    async def main() -> None:
        await agent.open(page + button("begin()"), {"/w.js": talks})
        await agent.do(PRESS)
        for _ in range(100):
            started = await agent.environment.evaluate("[...started]")
            if len(started) == 8:
                break
            await asyncio.sleep(0.05)
        assert sorted(started) == ["blob", "data", "forged", "inside", "module", "more", "real", "site"]
        await asyncio.sleep(0.3)
        assert agent.changes == [] and "/socket" not in agent.here.seen

    run(main())


def test_what_was_asked_about_is_what_is_sent(run: Run, agent: Agent) -> None:
    page = """<script>
      const bytes = (text) => new TextEncoder().encode(text), s = new WebSocket('SOCKET');
      const act = () => {
        const array = bytes('one'); s.send(array); array.set(bytes('bad'));
        const buffer = bytes('two').buffer; s.send(buffer); new Uint8Array(buffer).set(bytes('bad'));
        const view = bytes('.three.').buffer; s.send(new DataView(view, 1, 5)); new Uint8Array(view).fill(0);
        let said = 0; s.send({toString: () => said++ ? 'bad' : 'four'});
        s.send(new Blob(['five'])); s.send('six');
      };
    </script>"""

    async def main() -> None:
        await agent.open(page + button("act()"))
        await agent.do(Wait(0.3), PRESS)
        assert agent.changes == [f"MESSAGE {said}" for said in ("one", "two", "three", "four", "five", "six")]
        assert [question.sends for question in agent.questions[:3]] == ["one", "two", "three"]

    run(main())


def test_a_card_number_in_several_fields_is_asked_about_at_the_last(run: Run, agent: Agent) -> None:
    fields = "".join(f"<input style='position:fixed;left:{90 * n}px;top:70px;width:80px'>" for n in range(4))

    async def main() -> None:
        agent.answer = lambda question: refuse()
        await agent.open(fields)
        parts = ["4111", "1111", "1111", "1111"]
        results = await agent.do(*(Write(part, 90 * n + 30, 80) for n, part in enumerate(parts)))
        assert [bool(result.info.get("refused")) for result in results] == [False, False, False, True]
        await agent.open(fields)
        await agent.do(*(Write(part, 90 * n + 30, 80) for n, part in enumerate(("2026", "1119", "1930", "0043"))))
        assert agent.questions == []

    run(main())


def test_a_name_that_holds_typed_text_is_not_looked_up(run: Run, agent: Agent) -> None:
    """A connection that the browser opens ahead is no request, but its name would be looked up."""

    async def main() -> list[str]:
        await agent.open(f"<input {IN}>")
        await agent.do(Write("password1", 100, 90))
        gate = agent.environment._open_session.gate
        gate._hosts.add("password1.allowed.example")
        return [gate.why_not_looked_up(f"password1.{host}") for host in ("there.example", "allowed.example")]

    assert run(main()) == ["holds typed text", ""]
