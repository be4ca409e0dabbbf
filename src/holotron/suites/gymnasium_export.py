"""A suite of ours as a Gymnasium environment, for whoever trains with Gymnasium's tools.

    from holotron.suites.gymnasium_export import SuiteEnv
    env = SuiteEnv("miniwob", tasks="click-test", seeds=range(1000))
    observation, info = env.reset(seed=7)                 # {"image": array, "goal": text}
    observation, reward, terminated, truncated, info = env.step('{"tool_name": "click", "x": 80, "y": 120}')

    gymnasium.make("holotron/Suite-v0", spec="miniwob")    # after `import holotron.suites.gymnasium_export`

An action is the JSON of one of ours (`holotron.actions`), coordinates in CSS pixels of the page. One that is no valid
action changes nothing, and `info["note"]` says what is wrong. `reset(options={"task": NAME})` chooses a task; otherwise
one is drawn. `info["success"]` is there when an episode has ended. All pictures have one size; others are resized.
"""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import gymnasium
import numpy as np
from gymnasium import spaces
from PIL import Image

from holotron.actions import InvalidAction, action_from_json
from holotron.envs.base import Environment, EnvironmentPool
from holotron.suites.base import check_name, find_suite
from holotron.types import Observation, StepResult
from holotron.view import View

T = TypeVar("T")
Seen = dict[str, Any]
_CHARACTERS = "".join(chr(code) for code in (9, 10, *range(32, 127), *range(160, 592), 0x2019, 0x201C, 0x201D, 0x2026))


class SuiteEnv(gymnasium.Env[Seen, str]):
    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012  (as the base class declares it)

    def __init__(
        self,
        spec: str,
        tasks: str | Sequence[str] = "all",
        seeds: range = range(2**31),
        view: View = View(),
        render_mode: str | None = None,
    ) -> None:
        self._suite = find_suite(spec, tasks=tasks, seeds=range(1), view=view)
        self._tasks = {task.name: task for task in self._suite.tasks}
        self._seeds = seeds
        self.render_mode = render_mode
        self._loop = _Loop()
        self._pool: EnvironmentPool[Any] = self._suite.open(1)
        self._environment: Environment | None = None
        self._steps = 0
        self._last: Observation | None = None
        first = self._loop.run(self._begin(next(iter(self._tasks)), self._seeds[0]))
        self._size = first.image_size
        shape = (self._size[1], self._size[0], 3)
        self.observation_space = spaces.Dict(
            {
                "image": spaces.Box(0, 255, shape, np.uint8),
                "goal": spaces.Text(65536, min_length=0, charset=_CHARACTERS),
            }
        )
        self.action_space = spaces.Text(65536, min_length=0, charset=_CHARACTERS)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, dict[str, Any]]:
        super().reset(seed=seed)
        name = (options or {}).get("task")
        if name is None:
            name = list(self._tasks)[int(self.np_random.integers(len(self._tasks)))]
        else:
            check_name(name, list(self._tasks))
        chosen = self._seeds[int(self.np_random.integers(len(self._seeds)))]
        observation = self._loop.run(self._begin(name, chosen))
        return self._seen(observation), {"task": name, "seed": chosen, "note": observation.note}

    def step(self, action: str) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        assert self._environment is not None and self._last is not None, "reset it first"
        self._steps += 1
        try:
            wanted = action_from_json(json.loads(action), self._suite.actions)
            result = self._loop.run(self._environment.step(wanted))
        except (ValueError, InvalidAction) as error:
            result = StepResult(replace(self._last, note=f"no valid action: {error}"))
        info: dict[str, Any] = {"note": result.observation.note, **result.info}
        over = self._steps >= self._suite.limits.steps and not result.done
        if result.done or over:
            info["success"] = result.success if result.done else False
        return self._seen(result.observation), float(result.reward), result.done, over, info

    def render(self) -> Any:
        return None if self._last is None else self._pixels(self._last)

    def close(self) -> None:
        if self._loop.running:
            self._loop.run(self._end())
            self._loop.stop()

    # ----------------------------------------------------------------------------------------------------- the inside

    async def _begin(self, name: str, seed: int) -> Observation:
        if self._environment is None:
            self._environment = await self._pool.acquire()
        self._steps = 0
        self._last = await self._environment.reset(replace(self._tasks[name], seed=seed))
        return self._last

    async def _end(self) -> None:
        if self._environment is not None:
            await self._pool.release(self._environment)
        await self._pool.close()

    def _seen(self, observation: Observation) -> Seen:
        assert self._environment is not None
        self._last = observation
        goal = "".join(c for c in self._environment.task.goal if c in _CHARACTERS)
        return {"image": self._pixels(observation), "goal": goal}

    def _pixels(self, observation: Observation) -> np.ndarray:
        with Image.open(io.BytesIO(observation.image)) as opened:
            image = opened.convert("RGB")
        return np.asarray(image if image.size == self._size else image.resize(self._size))


class _Loop:
    """Our environments are asynchronous, Gymnasium's are not: an event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="holotron-gymnasium", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


gymnasium.register("holotron/Suite-v0", entry_point="holotron.suites.gymnasium_export:SuiteEnv")
