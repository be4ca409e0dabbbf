"""Not a nag: on the package's own web apps people are asked about what changes something, and little else."""

from __future__ import annotations

import pytest

from holotron.agent.approval import Approval
from holotron.agent.loop import Episode, Limits
from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.envs.effects.question import ALLOW_ONCE, Kind, Question
from holotron.envs.effects.rules import Rules
from holotron.envs.session import SessionOptions
from holotron.sites.environment import SitesPool
from holotron.sites.solver import SitesSolver
from holotron.sites.tasks import app_names, sites_tasks
from holotron.types import Outcome
from tests.effects.conftest import Run

pytestmark = pytest.mark.browser
STEPS_PER_NAG = 20
TASKS = 2  # of each app; benchmarks/approval.py plays more


def critical(question: Question) -> bool:
    """These apps change something with POST alone; passwords and boxes of the browser are asked about as well."""
    return question.method == "POST" or question.kind in (Kind.FIELD, Kind.DIALOG)


def test_people_are_hardly_asked_about_what_changes_nothing(run: Run) -> None:
    tasks = [
        task for app in app_names() for task in sites_tasks(app, [5])[:: max(1, len(sites_tasks(app)) // TASKS)][:TASKS]
    ]
    questions: list[Question] = []

    async def yes(question: Question):
        questions.append(question)
        return ALLOW_ONCE

    async def main() -> tuple[int, list[str]]:
        pool = SitesPool(sessions=1, options=SessionOptions(rules=Rules()))
        policy, steps, failed = ScriptedPolicy(SitesSolver(), "sites-solver"), 0, []
        try:
            for task in tasks:
                environment = await pool.acquire()
                episode = Episode(
                    environment, policy, task, limits=Limits(steps=90), approval=Approval("critical", yes)
                )
                played = await episode.run()
                await pool.release(environment)
                steps += len(played.steps)
                failed += (
                    [f"{task.id}: {played.outcome} {played.error}"] if played.outcome is not Outcome.SUCCESS else []
                )
        finally:
            await pool.close()
        return steps, failed

    steps, failed = run(main())
    nags = [str(question) for question in questions if not critical(question)]
    assert not failed
    assert questions, "nothing was asked at all, so this shows nothing"
    assert len(nags) * STEPS_PER_NAG <= steps, nags
