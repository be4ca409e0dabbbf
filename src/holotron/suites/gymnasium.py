"""Any Gymnasium environment that can be seen, as a suite: `holotron eval gymnasium:ENV_ID --policy ...`

    find_suite("gymnasium:browsergym/miniwob.click-test", seeds=range(10))
    find_suite("gymnasium:my_package/Shop-v0")               # after `import my_package` has registered it: see below

`ENV_ID` may be `module:ENV_ID`, as Gymnasium itself understands it: the module is imported first.

What is seen is the observation's picture (an array, or `screenshot`, `image` or `pixels` of a dictionary), else what
`render()` gives. The goal is the observation's `goal`, `utterance` or `instruction`. Actions depend on the action
space: text gets BrowserGym's calls (`mouse_click(x, y)`, `keyboard_type(...)`); a box of two numbers gets a click,
scaled to the box; a discrete space gets the number that the policy writes. Success is `info["success"]` or
`info["is_success"]` at the end, else whether the return reaches the threshold that the environment was registered with,
else nobody knows.

`holotron.suites.gymnasium_export` goes the other way.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from PIL import Image

from holotron.errors import ConfigError, EnvironmentFault, MissingDependency
from holotron.suites.base import Suite, SuiteRequest, environments_of, suites
from holotron.types import (
    Action,
    Answer,
    Click,
    DoubleClick,
    Drag,
    GoBack,
    Goto,
    Hover,
    Observation,
    PressKeys,
    RightClick,
    Scroll,
    StepResult,
    Task,
    Wait,
    Write,
)

T = TypeVar("T")
PICTURES = ("screenshot", "image", "pixels")
GOALS = ("goal", "utterance", "instruction", "mission")
_PAGE = 500.0  # CSS pixels that a scroll without an amount moves


@suites.register("gymnasium")
def gymnasium_suite(request: SuiteRequest) -> Suite:
    """Any Gymnasium environment that can be seen: holotron eval gymnasium:ENV_ID

    Needs: the package gymnasium, and the one that brings the environment.
    Takes: as long as the environment and your policy take.
    """
    if not request.argument:
        raise ConfigError("name a Gymnasium environment: gymnasium:ENV_ID")
    request.view.refuse(("width", "height", "scale", "crop", "format"), "Gymnasium environments draw themselves")
    id = request.argument
    space = _action_space(id)
    names = request.choose([id])
    return Suite(
        name="gymnasium",
        tasks=request.tasks_of("gymnasium", names),
        open=environments_of(lambda: GymnasiumEnvironment(id)),
        actions=_actions_of(space),
        facts={"environment": id},
    )


class GymnasiumEnvironment:
    """One Gymnasium environment, driven in a thread of its own."""

    def __init__(self, id: str) -> None:
        self._id = id
        self._env: Any = None
        self._task: Task | None = None
        self._seen: Observation | None = None
        self._return = 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gymnasium")

    @property
    def task(self) -> Task:
        assert self._task is not None, "reset it first"
        return self._task

    async def reset(self, task: Task) -> Observation:
        seen, info = await self._call(self._reset, task.seed)
        self._return = 0.0
        self._seen = await self._call(self._observation, seen)
        goal = task.goal or _text(seen, GOALS) or _text(info, GOALS) or f"Do well in {self._id}."
        self._task = replace(task, goal=goal)
        return self._seen

    def _reset(self, seed: int) -> tuple[Any, Any]:
        if self._env is None:
            self._env = _make(self._id)
        return self._env.reset(seed=seed)

    async def observe(self) -> Observation:
        assert self._seen is not None, "reset it first"
        return self._seen

    async def step(self, action: Action) -> StepResult:
        assert self._seen is not None, "reset it first"
        try:
            theirs = translate(action, self._env.action_space, self._seen.viewport)
        except ConfigError as refusal:
            return StepResult(replace(self._seen, note=str(refusal)))
        seen, reward, terminated, truncated, info = await self._call(self._env.step, theirs)
        self._seen = await self._call(self._observation, seen)
        self._return += float(reward)
        done = bool(terminated or truncated)
        return StepResult(self._seen, float(reward), done, self._success(info) if done else None)

    async def close(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, env.close)
        self._thread.shutdown(wait=False)

    async def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)
        except (ConfigError, MissingDependency):
            raise
        except _gymnasium().error.DependencyNotInstalled as error:
            raise MissingDependency(f"{self._id}: {error}") from None
        except Exception as error:
            raise EnvironmentFault(f"{self._id}: {type(error).__name__}: {error}") from error

    def _success(self, info: Mapping[str, Any]) -> bool | None:
        for name in ("success", "is_success"):
            if name in info:
                return bool(info[name])
        threshold = getattr(self._env.spec, "reward_threshold", None)
        return None if threshold is None else self._return >= threshold

    def _observation(self, seen: Any) -> Observation:
        pixels = seen if _is_picture(seen) else None
        if isinstance(seen, Mapping):
            pixels = next((seen[name] for name in PICTURES if _is_picture(seen.get(name))), None)
        if pixels is None:
            pixels = self._env.render()
        if not _is_picture(pixels):
            raise ConfigError(f"{self._id} shows no picture: neither its observation nor render() is an RGB array")
        file = io.BytesIO()
        image = Image.fromarray(np.asarray(pixels)[..., :3])
        image.save(file, "PNG", compress_level=1)
        url = _text(seen, ("url",)) if isinstance(seen, Mapping) else ""
        return Observation(file.getvalue(), "image/png", image.size, image.size, url=url)


def translate(action: Action, space: Any, viewport: tuple[int, int]) -> Any:
    """Our action in the words of an action space. What it cannot say is a `ConfigError`; its text is for the agent."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        words = action.content if isinstance(action, Write | Answer) else ""
        if words.strip().isdigit() and space.contains(number := int(words) + int(space.start)):
            return number
        raise ConfigError(f"write a number from 0 to {space.n - 1}: the action to take")
    if isinstance(space, spaces.Box) and space.shape == (2,):
        if isinstance(action, Click):
            place = np.asarray([action.x / viewport[0], action.y / viewport[1]])
            return (space.low + place * (space.high - space.low)).astype(space.dtype)
        raise ConfigError("only clicks do something here")
    if (call := _browsergym(action)) is not None:
        return call
    raise ConfigError(f"{action.tool_name} does nothing here")


def _browsergym(action: Action) -> str | None:
    """BrowserGym's high-level calls that take coordinates."""
    match action:
        case Click():
            return f"mouse_click({action.x}, {action.y})"
        case DoubleClick():
            return f"mouse_dblclick({action.x}, {action.y})"
        case RightClick():
            return f"mouse_click({action.x}, {action.y}, button='right')"
        case Hover():
            return f"mouse_move({action.x}, {action.y})"
        case Drag():
            return f"mouse_drag_and_drop({action.x1}, {action.y1}, {action.x2}, {action.y2})"
        case Write():
            click = f"mouse_click({action.x}, {action.y})\n" if action.x is not None else ""
            clear = "keyboard_press('ControlOrMeta+a')\n" if action.overwrite and click else ""
            enter = "\nkeyboard_press('Enter')" if action.press_enter else ""
            return f"{click}{clear}keyboard_type({action.content!r}){enter}"
        case PressKeys():
            return f"keyboard_press({'+'.join(action.keys)!r})"
        case Scroll():
            amount = action.amount or _PAGE
            x, y = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}[action.direction]
            return f"scroll({x * amount}, {y * amount})"
        case Goto():
            return f"goto({action.url!r})"
        case GoBack():
            return "go_back()"
        case Wait():
            return f"noop({action.seconds * 1000})"
        case Answer():
            return f"send_msg_to_user({action.content!r})"
    return None


def _actions_of(space: Any) -> tuple[str, ...]:
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return ("write",)
    if isinstance(space, spaces.Box):
        return ("click",)
    samples = (Click, DoubleClick, RightClick, Hover, Drag, Write, PressKeys, Scroll, Goto, GoBack, Wait, Answer)
    return tuple(str(kind.__dataclass_fields__["tool_name"].default) for kind in samples)


def _gymnasium() -> Any:
    try:
        import gymnasium
    except ImportError:
        raise MissingDependency("gymnasium is not installed. Install it with: pip install gymnasium") from None
    return gymnasium


def _action_space(id: str) -> Any:
    env = _make(id)
    try:
        return env.action_space
    finally:
        env.close()


def _make(id: str) -> Any:
    gymnasium = _gymnasium()
    try:
        env = gymnasium.make(id)
        if "rgb_array" not in (env.metadata.get("render_modes") or ()):  # its observation is the picture
            return env
        env.close()
        return gymnasium.make(id, render_mode="rgb_array")
    except gymnasium.error.Error as error:
        raise ConfigError(f"gymnasium cannot make {id!r}: {error}") from None


def _is_picture(value: Any) -> bool:
    array = value if isinstance(value, np.ndarray) else None
    return array is not None and array.ndim == 3 and array.shape[2] in (3, 4) and array.dtype == np.uint8


def _text(value: Any, names: tuple[str, ...]) -> str:
    if not isinstance(value, Mapping):
        return ""
    return next((value[name] for name in names if isinstance(value.get(name), str) and value[name]), "")
