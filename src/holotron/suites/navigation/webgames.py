"""WebGames: 150 small challenges on pages of one app; who wins one is shown its password, and reports it.

    holotron eval webgames:data/webgames@http://localhost:4173 --policy ...      your own build of the app
    holotron eval webgames:data/webgames --policy ...                            the public one

Success is exact: the password of the game is in the answer, as in the benchmark's own scorer. Two traps of the
published games are in the manifest. Six show their password from the start (`visible_passwords`), so that reading is
enough; three need google.com (`need_google`), which an app of your own cannot reach from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from holotron.agent.loop import Limits
from holotron.envs.base import EnvironmentPool
from holotron.envs.effects.question import Approver
from holotron.envs.web import WebEnvironment
from holotron.errors import ConfigError
from holotron.suites.base import Suite, SuiteRequest, suites
from holotron.suites.navigation.files import by_name, find_file, rows_of, subset_hash, text_of
from holotron.suites.navigation.places import VIEW, Place
from holotron.types import Action, Answer, Observation, StepResult, Task

FILE = "webgames_tasks.jsonl"
SOURCE = "convergence-ai/webgames"
PUBLIC = "https://webgames.convergence.ai"
TASKS = 150
VISIBLE = ("context-breaker", "scroll-diagonal")  # beginnings of ids
GOOGLE = ("robo-check",)
PROOF = (
    ". When you have done it, the page shows a password: answer with that password. Without it the task is not done."
)


@suites.register("webgames")
def webgames(request: SuiteRequest) -> Suite:
    """WebGames: 150 challenges on pages of one app; a password is the proof.

    Needs: its list of tasks, webgames:FOLDER@ADDRESS (published as convergence-ai/webgames), and the app at that
    address; Chromium and playwright (extra `agent`).
    Takes: as long as your policy does, at most 15 minutes an episode.
    """
    place = Place.parse(request.argument, request.network)
    if not place.files:
        raise ConfigError(
            f"name the folder with {FILE}: holotron eval webgames:FOLDER@http://localhost:4173 ({SOURCE})"
        )
    file = find_file(place.files, FILE, SOURCE)
    passwords: dict[str, str] = {}
    tasks = by_name(read_games(file, place.base or PUBLIC, passwords))
    chosen = tuple(tasks[name] for name in request.choose(list(tasks)))
    view = request.view.over(VIEW)
    names = [task.name for task in chosen]
    return Suite(
        name="webgames",
        tasks=chosen,
        open=lambda sessions: GamePool(place.open(sessions, view), passwords),
        limits=Limits(steps=40, seconds=900.0, answer_when_over=True),
        view=view,
        facts={
            "items": len(chosen),
            "published_items": TASKS,
            "subset": subset_hash(Task("", task.name, task.goal) for task in chosen),  # wherever it is served
            "visible_passwords": [name for name in names if name.startswith(VISIBLE)],
            "need_google": [name for name in names if name.startswith(GOOGLE)],
            **place.facts,
        },
    )


def read_games(file: Path, base: str, passwords: dict[str, str]) -> Iterator[tuple[Task, str]]:
    """`{id, path, title, description, password, ...}` a row. Passwords go apart: a task is shown to policies."""
    for row, where in rows_of(file):
        name = text_of(row, where, "id")
        passwords[name] = text_of(row, where, "password")
        goal = text_of(row, where, "description").rstrip(".") + PROOF
        options = {key: row[key] for key in ("difficulty", "variant", "base_task", "tags") if key in row}
        url = f"{base}/{quote(text_of(row, where, 'path'))}"
        yield Task("webgames", name, goal, start_url=url, options=options), where


class GamePool:
    """Web environments that know the passwords."""

    def __init__(self, pages: EnvironmentPool[Any], passwords: Mapping[str, str]) -> None:
        self._pages, self._passwords = pages, passwords

    async def acquire(self) -> GameEnvironment:
        return GameEnvironment(await self._pages.acquire(), self._passwords)

    async def release(self, environment: GameEnvironment, *, broken: bool = False) -> None:
        await self._pages.release(environment.page, broken=broken)

    async def close(self) -> None:
        await self._pages.close()


class GameEnvironment:
    def __init__(self, page: WebEnvironment, passwords: Mapping[str, str]) -> None:
        self.page, self._passwords = page, passwords

    @property
    def task(self) -> Task:
        return self.page.task

    async def reset(self, task: Task) -> Observation:
        return await self.page.reset(task)

    async def observe(self) -> Observation:
        return await self.page.observe()

    async def step(self, action: Action) -> StepResult:
        result: StepResult = await self.page.step(action)
        if not isinstance(action, Answer):
            return result
        won = self._passwords[self.task.name] in action.content
        return StepResult(result.observation, float(won), True, won)

    def ask_first(self, ask: Approver) -> None:
        self.page.ask_first(ask)

    async def close(self) -> None:
        await self.page.close()
