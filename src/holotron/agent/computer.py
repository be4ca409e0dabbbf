"""A policy behind the Responses API's computer tool: our actions as that tool's, and back.

    user = ComputerUser(profile)
    episode = user.begin().told("Close the dialog").saw(png, "image/png", (1280, 720))
    question = episode.question()               # chat messages in the model's own dialect, and what it may write
    episode, move = episode.replied(text)
    move.actions                                # [{"type": "click", "button": "left", "x": 412, "y": 80}]

The model sees and says what it was trained on: its dialect, frame and history, from its profile. Whoever drives it sees
the tool's contract and nothing else. An episode is a value: every call gives a new one, so a conversation can branch
anywhere.

Coordinates on the outside are pixels of the screenshot, or of the display if one was declared. What the tool has no
word for (addresses, tabs, reloading) is not offered to the model. `answer` ends the task: it becomes a message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holotron.actions import InvalidAction, action_from_json
from holotron.agent.coordinates import Size
from holotron.agent.dialects import Dialect, Output
from holotron.agent.dialects.tools import write_calls
from holotron.agent.history import History, Selection, Shown, Turn
from holotron.agent.messages import Message, to_openai
from holotron.agent.policies.conversation import new_messages
from holotron.agent.policies.registry import MAX_TOKENS
from holotron.agent.profiles import Profile
from holotron.errors import InputError
from holotron.types import (
    Action,
    Answer,
    Click,
    Completion,
    DoubleClick,
    Drag,
    Hover,
    Observation,
    PressKeys,
    Reply,
    RightClick,
    Scroll,
    Task,
    Wait,
    Write,
)

Json = dict[str, Any]

ACTIONS = ("click", "double_click", "right_click", "hover", "write", "press_keys", "scroll", "drag", "wait", "answer")
LOOK: Json = {"type": "screenshot"}
MOST_OF_A_PAGE = 0.8  # how far a scroll without an amount goes, as in our own environments

# As OpenAI's models write keys, where that is not Playwright's name in capitals. Single letters stay as they are.
_KEYS = {"Control": "CTRL", "ControlOrMeta": "CTRL", "Meta": "CMD", "Escape": "ESC"}
_SELECT_ALL: Json = {"type": "keypress", "keys": ["CTRL", "a"]}
_ENTER: Json = {"type": "keypress", "keys": ["ENTER"]}


@dataclass(frozen=True)
class Question:
    """What to ask the model."""

    said: tuple[Message, ...]
    output: Output

    @property
    def messages(self) -> list[Json]:
        return [to_openai(message) for message in self.said]

    def since(self, before: Question) -> list[Json] | None:
        """What is new to a session that holds the question before and its reply; None: it was asked differently."""
        if before.output.tools != self.output.tools:  # these stand at the prompt's beginning; grammars do not
            return None
        new = new_messages(before.said, self.said)
        return None if new is None else [to_openai(message) for message in new]


@dataclass(frozen=True)
class Move:
    """What the model decided: actions, or (without any) the answer that ends the task."""

    actions: tuple[Json, ...]
    answer: str = ""
    thought: str = ""
    note: str = ""


class ComputerUser:
    """How a served model uses a computer."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._history = profile.make_history()
        self.temperature = profile.temperature
        self.top_p = profile.top_p
        self.max_tokens = profile.max_tokens or MAX_TOKENS
        self.thinking = profile.thinking
        self.begin()  # a dialect that knows none of the actions fails when the server starts

    def begin(self, display: Size | None = None, *, instructions: str = "", must_act: bool = False) -> Episode:
        """`display`: the size that coordinates refer to, where it is not the screenshot's. `instructions`: that stand
        before the task. `must_act`: no answer."""
        actions = ACTIONS[:-1] if must_act else ACTIONS
        return Episode(self._profile.make_dialect(actions), self._history, display, instructions)


@dataclass(frozen=True)
class Episode:
    dialect: Dialect
    history: History
    display: Size | None
    instructions: str = ""
    goal: str = ""
    turns: tuple[Turn, ...] = ()
    feedback: str = ""  # about the last reply, for the next turn
    over: bool = False  # answered

    @property
    def waiting(self) -> bool:
        """A screen has been shown, and nothing done yet."""
        return bool(self.turns) and self.turns[-1].reply is None

    @property
    def picture_bytes(self) -> int:
        """Of pictures that the last turn holds."""
        return len(self.turns[-1].observation.image) if self.turns else 0

    def under(self, other: Episode) -> Episode:
        """What happened here, with the other's display, instructions and actions."""
        return replace(other, goal=self.goal, turns=self.turns, feedback=self.feedback, over=self.over)

    # ----------------------------------------------------------------------------------------------- what happened

    def told(self, text: str) -> Episode:
        """By the user: the task, more of it, or (after an answer) the next one."""
        if self.over:
            return Episode(self.dialect, self.history, self.display, self.instructions, text)
        return replace(self, goal=f"{self.goal}\n{text}" if self.goal else text)

    def saw(self, image: bytes, mime: str, size: Size, url: str = "") -> Episode:
        """A screenshot. Of several before one action the last counts."""
        observation = Observation(image, mime, size, self.display or size, url=url)
        shown, screen = self.dialect.look(observation)
        turns = self.turns[:-1] if self.waiting else self.turns
        turn = Turn(len(turns), observation, shown, screen, self.feedback)
        return replace(self, turns=(*turns, turn), feedback="", over=False)

    def acted(self, actions: Sequence[Mapping[str, Any]], thought: str = "", note: str = "") -> Episode:
        """As told by the client, for a conversation that is not remembered here. Looking is no action."""
        try:
            return self._did(read_actions(actions), thought, note)
        except InputError:  # no words for all of it at once: one by one, then
            return self._did([action for one in actions for action in read_actions([one])], thought, note)

    def _did(self, actions: Sequence[Action], thought: str, note: str) -> Episode:
        episode = self
        for action in actions:
            if not episode.waiting:
                if not episode.turns:
                    raise InputError("a computer_call comes after a screenshot; this conversation has none before it")
                last = episode.turns[-1]
                again = Turn(len(episode.turns), last.observation, None, last.screen)
                episode = replace(episode, turns=(*episode.turns, again))
            screen = episode.turns[-1].screen
            said = episode.dialect.render(action, screen, note=note, thought=thought)
            episode = episode._after(Reply(Completion(said), note, thought, action), said)
        return episode

    def answered(self, text: str) -> Episode:
        """As told by the client: the model ended the task with these words."""
        if not self.waiting:
            return replace(self, over=True)
        if "answer" not in self.dialect.actions:
            return replace(self, turns=self.turns[:-1], over=True)
        said = self.dialect.render(Answer(text), self.turns[-1].screen)
        return replace(self._after(Reply(Completion(said), action=Answer(text)), said), over=True)

    def _after(self, reply: Reply, said: str) -> Episode:
        return replace(self, turns=(*self.turns[:-1], replace(self.turns[-1], reply=reply, said=said)))

    # ------------------------------------------------------------------------------------------------ asking the model

    def question(self, fold: int = 0) -> Question:
        """`fold`: so many of the first turns are told in a few lines, because there is no room for them."""
        view = self.history.view(self.turns)
        if fold:
            kept = [shown for shown in view.shown if shown.turn.index >= fold] or [view.shown[-1]]
            first = kept[0]
            if first.image is None:  # its screenshot went with the turns before it
                earlier = (turn.image for turn in reversed(self.turns[: first.turn.index]) if turn.image is not None)
                kept = [Shown(first.turn, next(earlier, None)), *kept[1:]]
            view = Selection(self.turns[: first.turn.index], tuple(kept))
        goal = f"{self.instructions}\n\n{self.goal}" if self.instructions else self.goal
        task = Task("computer", "computer", goal=goal)
        return Question(tuple(self.dialect.messages(task, view)), self.dialect.output())

    def replied(self, text: str, calls: Sequence[tuple[str, Any]] = (), *, cut: bool = False) -> tuple[Episode, Move]:
        """What the model wrote, and what it means. A reply that is no action makes the client look again; the model
        then reads what was wrong. `cut`: it was not finished."""
        said = write_calls(text, list(calls))
        screen = self.turns[-1].screen
        reply = self.dialect.parse(Completion(said, finish_reason="length" if cut else "stop"), screen)
        after = self._after(reply, said)
        match reply.action:
            case None:
                return replace(after, feedback=reply.error), Move((LOOK,))
            case Answer(content):
                return replace(after, over=True), Move((), content, reply.thought, reply.note)
            case action:
                actions = tuple(write_action(action, screen.viewport))
                return after, Move(actions, "", reply.thought, reply.note)


# ---------------------------------------------------------------------------------------------------------- actions


def write_action(action: Action, screen: Size) -> list[Json]:
    """One of our actions as the tool's; some take several."""
    match action:
        case Click(x, y):
            return [_click(x, y)]
        case RightClick(x, y):
            return [_click(x, y, "right")]
        case DoubleClick(x, y):
            return [{"type": "double_click", **_at(x, y)}]
        case Hover(x, y):
            return [{"type": "move", **_at(x, y)}]
        case Drag():
            return [{"type": "drag", "path": [_at(action.x1, action.y1), _at(action.x2, action.y2)]}]
        case Scroll():
            return [_scroll(action, screen)]
        case PressKeys(keys):
            return [
                {"type": "keypress", "keys": [_KEYS.get(key, key.upper() if len(key) > 1 else key) for key in keys]}
            ]
        case Wait(seconds):
            return [{"type": "wait"} if seconds else LOOK]
        case Write():
            point = [_click(action.x, action.y)] if action.x is not None and action.y is not None else []
            clear = [_SELECT_ALL] if action.overwrite else []
            typed: list[Json] = [{"type": "type", "text": action.content}] if action.content else []
            if clear and not typed:
                typed = [{"type": "keypress", "keys": ["BACKSPACE"]}]
            return [*point, *clear, *typed, *([_ENTER] if action.press_enter else [])]
    raise InputError(f"the computer tool has no word for {action.tool_name}")


def read_actions(actions: Sequence[Mapping[str, Any]]) -> list[Action]:
    """The tool's actions as ours. What `write_action` wrote as several is one again."""
    given = [action for action in actions if action.get("type") != "screenshot"]
    if len(given) > 1 and (written := _written(given)) is not None:
        return [written]
    return [_read(action) for action in given]


def _written(actions: Sequence[Mapping[str, Any]]) -> Write | None:
    """[click] [select all] type or backspace [enter]: writing into a field."""
    rest = list(actions)
    point = rest.pop(0) if rest and rest[0].get("type") == "click" and rest[0].get("button", "left") == "left" else None
    overwrite = bool(rest) and _is_keys(rest[0], ("Control", "a"))
    rest = rest[overwrite:]
    if rest and rest[0].get("type") == "type":
        content = str(rest.pop(0).get("text", ""))
    elif overwrite and rest and _is_keys(rest[0], ("Backspace",)):
        rest.pop(0)
        content = ""
    else:
        return None
    enter = bool(rest) and _is_keys(rest[0], ("Enter",))
    if rest[enter:]:
        return None
    x, y = _point(point) if point is not None else (None, None)
    return Write(content, x, y, overwrite=overwrite, press_enter=enter)


def _read(action: Mapping[str, Any]) -> Action:
    kind = action.get("type")
    if action.get("keys") and kind != "keypress":
        raise InvalidAction(f"a computer_call's {kind} with keys held down is not supported")
    match kind:
        case "click" if action.get("button", "left") == "left":
            return Click(*_point(action))
        case "click" if action["button"] == "right":
            return RightClick(*_point(action))
        case "double_click":
            return DoubleClick(*_point(action))
        case "move":
            return Hover(*_point(action))
        case "wait":
            return Wait()
        case "type":
            return Write(str(action.get("text", "")), overwrite=False)
        case "keypress":
            return action_from_json({"tool_name": "press_keys", "keys": action.get("keys")})
        case "drag":
            path = action.get("path")
            if not isinstance(path, list) or len(path) < 2 or not all(isinstance(at, Mapping) for at in path):
                raise InvalidAction("a computer_call's drag needs a path of two points or more")
            return Drag(*_point(path[0]), *_point(path[-1]))
        case "scroll":
            across, down = _number(action.get("scroll_x", 0)), _number(action.get("scroll_y", 0))
            if abs(across) > abs(down):
                return Scroll("right" if across > 0 else "left", abs(across), *_point(action))
            return Scroll("up" if down < 0 else "down", abs(down), *_point(action))
    what = f"button {action.get('button')!r}" if kind == "click" else f"action {str(kind)[:40]!r}"
    raise InvalidAction(f"a computer_call's {what} is not supported")


def _is_keys(action: Mapping[str, Any], keys: tuple[str, ...]) -> bool:
    if action.get("type") != "keypress":
        return False
    pressed = _read(action)
    return isinstance(pressed, PressKeys) and pressed.keys == keys


def _at(x: float, y: float) -> Json:
    return {"x": int(x), "y": int(y)}  # the pixel that holds the place


def _click(x: float, y: float, button: str = "left") -> Json:
    return {"type": "click", "button": button, **_at(x, y)}


def _scroll(action: Scroll, screen: Size) -> Json:
    vertical = action.direction in ("up", "down")
    amount = action.amount or MOST_OF_A_PAGE * screen[vertical]
    signed = max(1, round(amount)) * (1 if action.direction in ("down", "right") else -1)
    x = screen[0] / 2 if action.x is None else action.x
    y = screen[1] / 2 if action.y is None else action.y
    return {"type": "scroll", **_at(x, y), "scroll_x": 0 if vertical else signed, "scroll_y": signed if vertical else 0}


def _point(value: Mapping[str, Any]) -> tuple[float, float]:
    return _number(value.get("x")), _number(value.get("y"))


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**31:
        raise InvalidAction("a computer_call's coordinates are numbers")
    return float(value)
