"""The web apps as a suite like any other."""

from __future__ import annotations

import asyncio

import pytest

from holotron.agent.policies.registry import PolicyRequest
from holotron.errors import ConfigError
from holotron.evals.evaluate import evaluate
from holotron.rollouts.suite import opened
from holotron.suites.base import find_suite
from holotron.view import View


def test_tasks_looks_and_screens_are_chosen_by_word():
    assert find_suite("sites", tasks="short").limits.steps == 15
    assert find_suite("sites", tasks="long").limits.steps == 60
    suite = find_suite("sites:heldout,phone", tasks="shop", seeds=range(2))
    assert {task.options["split"] for task in suite.tasks} == {"heldout"}
    assert suite.describe()["viewport"] == "phone" and suite.describe()["split"] == "heldout"
    assert suite.scored and suite.solver is not None
    with pytest.raises(ConfigError, match="'tablet'; write some of train, heldout, laptop, phone"):
        find_suite("sites:tablet")
    with pytest.raises(ConfigError, match="width cannot be chosen"):
        find_suite("sites", view=View(width=800))


@pytest.mark.browser
def test_the_scripted_policy_of_this_suite_is_its_solver(tmp_path):
    async def main():
        wanted = {"tasks": "shop-wish", "seeds": range(2)}
        async with opened(PolicyRequest("scripted"), "sites:laptop", **wanted) as (policy, suite):
            return await evaluate(policy, suite, tmp_path)

    result = asyncio.run(main())
    assert result.scores.mean_success == 1.0
    assert result.manifest["config"]["policy"]["script"] == "sites-solver"
