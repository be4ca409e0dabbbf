"""What the page may ask for, from the JSON it sends to what an episode understands (`agent.steering`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holotron.actions import action_from_json
from holotron.agent.steering import (
    Command,
    Do,
    Edit,
    HandBack,
    Instruct,
    Look,
    OneStep,
    Pause,
    Refuse,
    Resume,
    Stop,
    TakeOver,
)
from holotron.envs.effects.question import ALLOW_ONCE, ALLOW_SITE, Decision, refuse
from holotron.errors import InputError

LONGEST = 4000  # characters of what a person writes

_READ: dict[str, Callable[[Mapping[str, Any]], Command]] = {
    "pause": lambda body: Pause(),
    "resume": lambda body: Resume(),
    "step": lambda body: OneStep(_number(body, "step")),
    "edit": lambda body: Edit(_number(body, "step"), action_from_json(body.get("action")), text_of(body, "reason")),
    "refuse": lambda body: Refuse(_number(body, "step"), text_of(body, "reason")),
    "instruct": lambda body: Instruct(text_of(body, "text")),
    "take_over": lambda body: TakeOver(),
    "act": lambda body: Do(action_from_json(body.get("action"))),
    "look": lambda body: Look(),
    "hand_back": lambda body: HandBack(text_of(body, "text")),
    "stop": lambda body: Stop(),
}


def read_command(body: Mapping[str, Any]) -> Command:
    read = _READ.get(str(body.get("do")))
    if read is None:
        raise InputError(f"there is no command {str(body.get('do'))[:40]!r}; there are: {', '.join(_READ)}")
    return read(body)


def read_answer(body: Mapping[str, Any]) -> tuple[int, Decision]:
    """Which question is answered, and how. Whatever is not a clear yes is a no."""
    number, reason = _number(body, "question"), text_of(body, "reason")
    if body.get("allow") is not True:
        return number, refuse(reason)
    return number, ALLOW_SITE if body.get("scope") == "site" else ALLOW_ONCE


def text_of(body: Mapping[str, Any], name: str) -> str:
    text = body.get(name, "")
    if not isinstance(text, str) or len(text) > LONGEST:
        raise InputError(f"{name} is a text of at most {LONGEST} characters")
    return text


def _number(body: Mapping[str, Any], name: str) -> int:
    number = body.get(name)
    if isinstance(number, bool) or not isinstance(number, int):
        raise InputError(f"{name} is a whole number")
    return number
