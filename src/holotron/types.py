"""The few frozen types that every room shares.

Plain dataclasses, no dependencies: a trainer on a GPU node and a browser worker on a CPU node import the same file.

Coordinates. An `Action` always speaks in CSS pixels of the page's viewport (floats, origin top left). Models speak in
frames of their own (absolute pixels of the image they saw, 0-1000, 0-1); `holotron.agent.coordinates` is the one place
that converts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

# --------------------------------------------------------------------------------------------------- tasks and sight


@dataclass(frozen=True, slots=True)
class Task:
    """What an agent is asked to do. `(suite, name, seed)` identifies it; environments rebuild it from those."""

    suite: str
    name: str
    goal: str = ""  # empty until reset() when the environment writes the goal (MiniWoB++)
    seed: int = 0
    start_url: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.suite}/{self.name}/{self.seed}"


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at the environment. `image` is the encoded screenshot exactly as taken."""

    image: bytes = field(repr=False)
    mime: str  # "image/png" | "image/jpeg"
    image_size: tuple[int, int]  # width, height in image pixels
    viewport: tuple[int, int]  # width, height in CSS pixels
    url: str = ""
    title: str = ""
    tabs: tuple[str, ...] = ()  # titles of open tabs, when there are several
    active_tab: int = 0
    note: str = ""  # what the environment has to say: a dialog was dismissed, an action failed, a file downloaded


# ----------------------------------------------------------------------------------------------------------- actions


@dataclass(frozen=True, slots=True)
class Click:
    x: float
    y: float
    element: str = ""  # what the policy says it clicks; for people and logs
    tool_name: Literal["click"] = "click"


@dataclass(frozen=True, slots=True)
class DoubleClick:
    x: float
    y: float
    element: str = ""
    tool_name: Literal["double_click"] = "double_click"


@dataclass(frozen=True, slots=True)
class RightClick:
    x: float
    y: float
    element: str = ""
    tool_name: Literal["right_click"] = "right_click"


@dataclass(frozen=True, slots=True)
class Hover:
    x: float
    y: float
    element: str = ""
    tool_name: Literal["hover"] = "hover"


@dataclass(frozen=True, slots=True)
class Write:
    """Type into the field at (x, y), or into whatever has the focus when no point is given. Where `content` follows
    from something on the screen (a sum from its problem), teachers say in `read` what that is, and so do policies that
    read before they write; no schema asks for it."""

    content: str
    x: float | None = None
    y: float | None = None
    element: str = ""
    overwrite: bool = True
    press_enter: bool = False
    read: str = field(default="", metadata={"asked": False})
    tool_name: Literal["write"] = "write"


@dataclass(frozen=True, slots=True)
class PressKeys:
    """One chord, in Playwright's names: ("Control", "a"), ("Enter",)."""

    keys: tuple[str, ...]
    tool_name: Literal["press_keys"] = "press_keys"


@dataclass(frozen=True, slots=True)
class Scroll:
    direction: Literal["up", "down", "left", "right"]
    amount: float = 0.0  # CSS pixels; 0 means most of a page
    x: float | None = None
    y: float | None = None
    tool_name: Literal["scroll"] = "scroll"


@dataclass(frozen=True, slots=True)
class Drag:
    x1: float
    y1: float
    x2: float
    y2: float
    tool_name: Literal["drag"] = "drag"


@dataclass(frozen=True, slots=True)
class GoBack:
    tool_name: Literal["go_back"] = "go_back"


@dataclass(frozen=True, slots=True)
class Goto:
    url: str
    tool_name: Literal["goto"] = "goto"


@dataclass(frozen=True, slots=True)
class Refresh:
    tool_name: Literal["refresh"] = "refresh"


@dataclass(frozen=True, slots=True)
class Wait:
    seconds: float = 1.0
    tool_name: Literal["wait"] = "wait"


@dataclass(frozen=True, slots=True)
class NewTab:
    url: str = ""
    tool_name: Literal["new_tab"] = "new_tab"


@dataclass(frozen=True, slots=True)
class SwitchTab:
    index: int
    tool_name: Literal["switch_tab"] = "switch_tab"


@dataclass(frozen=True, slots=True)
class CloseTab:
    tool_name: Literal["close_tab"] = "close_tab"


@dataclass(frozen=True, slots=True)
class Restart:
    """Back to the task's start page with a fresh state."""

    tool_name: Literal["restart"] = "restart"


@dataclass(frozen=True, slots=True)
class Answer:
    """The agent is done; `content` is its answer to the user. Teachers say where on the screen it can be read, and so
    do policies that look before they speak; no schema asks for it."""

    content: str
    x: float | None = field(default=None, metadata={"asked": False})
    y: float | None = field(default=None, metadata={"asked": False})
    tool_name: Literal["answer"] = "answer"


Action = (
    Click | DoubleClick | RightClick | Hover | Write | PressKeys | Scroll | Drag | GoBack | Goto | Refresh | Wait
    | NewTab | SwitchTab | CloseTab | Restart | Answer
)  # fmt: skip


# --------------------------------------------------------------------------------------------- what the policy said


@dataclass(frozen=True, slots=True)
class Completion:
    """One reply of a policy, with what is needed to train on it. Token fields are empty for remote policies."""

    text: str
    reasoning: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    images_sent: int = 0  # screenshots that travelled with this request: what a history policy costs
    tokens: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    versions: tuple[int, ...] = ()  # of the weights behind each token
    policy_version: int = 0  # the oldest of them
    finish_reason: str = "stop"  # "stop" | "length" | "cancelled" | "error"
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Reply:
    """A completion parsed by a dialect: durable memory, one line of reasoning, one action (or why there is none)."""

    completion: Completion
    note: str = ""
    thought: str = ""
    action: Action | None = None
    error: str = ""  # why the text is not a valid action; goes back to the policy as feedback
    label: Action | None = None  # what a teacher would have done here, where one was asked


# --------------------------------------------------------------------------------------------------------- episodes


@dataclass(frozen=True, slots=True)
class StepResult:
    """What the environment gives back for one action."""

    observation: Observation
    reward: float = 0.0  # any number; what an episode earns is the sum over its steps
    done: bool = False
    success: bool | None = None  # of the whole task, where this result ends it; None: nobody here can tell
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """One turn of an episode: what was seen, said and done, and what came of it.

    `reply.action` is what was done. Where a person did it, or changed what the agent was about to do, `author` says so
    and `proposed` is what the agent had wanted, if anything."""

    index: int
    observation: Observation
    reply: Reply
    reward: float = 0.0
    done: bool = False
    policy_seconds: float = 0.0
    environment_seconds: float = 0.0
    info: Mapping[str, Any] = field(default_factory=dict)
    author: Literal["agent", "person"] = "agent"
    proposed: Action | None = None
    instruction: str = ""  # what a person added to the task before this step


class Outcome(StrEnum):
    SUCCESS = "success"
    FAILURE = "failure"  # the task ended or was answered, wrongly
    EXHAUSTED = "exhausted"  # steps, wall time or tokens ran out
    STUCK = "stuck"  # the loop detector ended it
    UNSCORED = "unscored"  # the agent answered and nobody can score it here (a free-form web task)
    POLICY_ERROR = "policy_error"
    ENVIRONMENT_ERROR = "environment_error"  # counted apart: not the agent's fault


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One whole episode."""

    id: str
    task: Task
    steps: tuple[Step, ...]
    outcome: Outcome
    reward: float = 0.0
    answer: str = ""
    error: str = ""
    attempt: int = 0
    started_at: float = 0.0  # seconds since the epoch
    seconds: float = 0.0
    final: Observation | None = None
    assisted: bool = False  # a person had a hand in it: acted, changed an action, added an instruction, stopped it
