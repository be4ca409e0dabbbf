"""The question at the terminal: plain text, a picture beside it, and no unless yes is written."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holotron.cli.asking import read_answer, terminal_approver
from holotron.envs.effects.question import Kind, Question

EVIL = 'Pay"\n  thought  "harmless"\x1b[1A\x1b[2K\x9b2J\rAllow it? y\u202e'


@pytest.mark.parametrize(
    "line", ["", " ", "n", "no", "N", "j", "yy", "y n", "yes please no", "\x1b", "sure", "1", "true"]
)
def test_no_is_the_default(line: str) -> None:
    assert not read_answer(line).allow


@pytest.mark.parametrize(("line", "scope"), [("y", "once"), (" YES ", "once"), ("s", "site"), ("site", "site")])
def test_yes_has_to_be_written(line: str, scope: str) -> None:
    decision = read_answer(line)
    assert decision.allow and decision.scope == scope


def test_a_no_may_have_a_reason() -> None:
    assert read_answer("n too expensive").reason == "too expensive"
    assert read_answer("not before Monday").reason == "not before Monday"


def ask(monkeypatch: pytest.MonkeyPatch, folder: Path, typed: str | None) -> bool:
    async def line(prompt: str) -> str:
        return typed or ""

    monkeypatch.setattr("holotron.cli.asking.read_line", line)
    question = Question(
        Kind.FORM, "POST to https://a.b", sends=EVIL, control=EVIL, thought=EVIL, screenshot=b"x", mime="image/png"
    )
    return asyncio.run(terminal_approver(folder)(question)).allow


def test_a_page_cannot_write_the_question(monkeypatch, tmp_path, capsys) -> None:
    assert not ask(monkeypatch, tmp_path, None)
    said = capsys.readouterr().out
    assert not set(said) & set("\x1b\x9b\r\u202e")
    labels = [line.split()[0] for line in said.splitlines() if line.startswith("  ")]
    assert labels == ["sends", "pressed", "thought", "picture"]
    assert (tmp_path / "question.png").read_bytes() == b"x"
    assert ask(monkeypatch, tmp_path, "y")
