"""Two commands say what fits on a card. They are to say the same, and what the server then does."""

from __future__ import annotations

import json

import pytest

from holotron.engine.recommend import by_card
from holotron.model.presets import preset
from tests.cli.calling import call


@pytest.mark.parametrize("weights", ["bf16", "fp8"])
def test_plan_and_model_check_count_the_same_sessions(weights):
    told = json.loads(
        call("plan", "holotron-12b", "--gpu", "RTX-4090", "--weights", weights, "--context", "32k", "--json").out
    )
    checked = next(fit for fit in by_card(preset("holotron-12b"), 32_768) if fit.weights == weights)
    assert told["plans"][0]["sessions_that_fit"] == checked.sessions
