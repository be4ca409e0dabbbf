"""No secret is told: not by titles, addresses, dialogs, errors, questions, records or reports."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import holotron
from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.envs.effects.question import ALLOW_ONCE
from holotron.envs.secrets import Secret
from holotron.errors import EnvironmentFault
from holotron.evals.report import write_report
from holotron.types import Answer, Click, Scroll, Write
from tests.effects.world import World
from tests.secrets.conftest import ONE, Keeper, Run

pytestmark = pytest.mark.browser
AT = 'style="position:fixed;left:0;top:0;width:200px;height:60px"'


def test_dialogs_titles_addresses_and_buttons(run: Run, keeper: Keeper) -> None:
    page = (
        f"<title>SECRET</title><button {AT} onclick=\"alert('x'.repeat(295)+'SECRET');"
        "history.pushState(0,'','?a=SECRET#SECRET');"
        "fetch('/order',{method:'POST',body:'SECRET'})\">" + "x" * 74 + " SECRET</button>"
    )

    async def main() -> str:
        await keeper.open(page, SECRET=ONE)
        keeper.answer = lambda question: ALLOW_ONCE
        (result,) = await keeper.do(Click(100, 30))
        seen = result.observation
        return repr((seen.url, seen.title, seen.tabs, seen.note, result.info, [str(q) for q in keeper.questions]))

    told = run(main())
    assert "<secret:one>" in told
    assert not any(part in told for part in (ONE, ONE[:5], ONE[-5:]))


def test_errors_of_pages(run: Run, keeper: Keeper) -> None:
    broken = (
        "<div style='height:9999px'></div>"
        "<script>document.elementFromPoint=()=>{throw new Error('code SECRET')}</script>"
    )

    async def main() -> list[BaseException]:
        await keeper.open(broken, SECRET=ONE)
        caught: list[BaseException] = []
        for attempt in (
            lambda: keeper.do(Scroll("down")),
            lambda: keeper.environment.evaluate(
                "(() => { throw new Error('code ' + 'SECRET') })()".replace("SECRET", ONE)
            ),
        ):
            try:
                await attempt()
            except EnvironmentFault as error:
                caught.append(error)
        return caught

    caught = run(main())
    assert len(caught) == 2
    for error in caught:
        assert "code <secret:one>" in str(error)
        assert error.__suppress_context__ and error.__cause__ is None


def everything(folder: Path) -> str:
    """What a run has left on disk, tables unpacked."""
    texts = []
    for path in folder.rglob("*"):
        if path.suffix == ".parquet":
            texts.append(repr(pq.read_table(path).to_pylist()))
        elif path.is_file():
            texts.append(path.read_bytes().decode("latin-1"))
    return "\n".join(texts)


def test_records_reports_and_logs(
    sites: tuple[World, World], tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Logged in, and then the page breaks with the password on its lips."""
    here, _ = sites
    here.forget()
    here.pages["/"] = (
        f"<title>in</title><input type=password {AT}><script>document.querySelector('input').oninput = (e) => {{"
        "document.title = 'hello ' + e.target.value; history.replaceState(0, '', '/?p=' + e.target.value);"
        "document.elementFromPoint = () => { throw new Error('wrong: ' + e.target.value) } }</script>"
    )

    def script(environment: Any, seen: Any, step: int) -> Any:
        return [Write("<secret:password>", 100, 30), Scroll("down"), Answer("done")][step]

    with caplog.at_level(logging.DEBUG):
        result = holotron.run(
            "Log in.",
            url=here.url("/"),
            private=True,
            policy=ScriptedPolicy(script),
            secrets=[Secret("password", ONE, hosts=(here.host,))],
            confirm=lambda question: True,
            out=tmp_path / "run",
        )
        write_report(tmp_path / "run")
    assert "wrong: <secret:password>" in result.error
    said = everything(tmp_path / "run") + caplog.text + repr(result) + "".join(capsys.readouterr())
    assert "<secret:password>" in said
    assert ONE not in said


def test_a_password_in_an_address(sites: tuple[World, World], tmp_path: Path) -> None:
    """It is used, and it is nowhere."""
    here, _ = sites
    here.forget()
    here.logins = {"ann": "hunter22-long"}
    here.pages["/"] = "<title>in</title>hello"
    prompts: list[str] = []

    def script(environment: Any, seen: Any, step: int) -> Any:
        prompts.append(repr((environment.task, seen.url, seen.title, seen.note)))
        return Answer(seen.title)

    url = here.url("/").replace("://", "://ann:hunter22-long@")
    try:
        result = holotron.run(
            "Look.", url=url, private=True, policy=ScriptedPolicy(script), confirm="never", out=tmp_path / "run"
        )
    finally:
        here.logins = {}
    write_report(tmp_path / "run")
    assert result.answer == "in"  # the site has let it in
    assert "hunter22" not in everything(tmp_path / "run") + repr(result) + "".join(prompts)

    missing = url.replace(here.host, "127.0.0.1:1")
    result = holotron.run(
        "Look.", url=missing, private=True, policy=ScriptedPolicy(script), confirm="never", out=tmp_path / "none"
    )
    assert "did not open" in result.error
    assert "hunter22" not in everything(tmp_path / "none") + repr(result)
