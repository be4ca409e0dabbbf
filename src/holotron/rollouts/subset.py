"""For manifests: exactly which tasks were played, and exactly what the model was sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from holotron.agent.dialects.base import Dialect
from holotron.agent.dialects.example import example_request
from holotron.agent.policies.base import Policy
from holotron.types import Task


def describe_subset(tasks: Sequence[Task]) -> dict[str, Any]:
    """How many there are, their seeds, and a hash of what they ask, in any order: two runs with the same hash were
    asked the same."""
    lines = sorted(
        json.dumps([task.id, task.goal, task.start_url, dict(task.options)], sort_keys=True, default=str)
        for task in tasks
    )
    seeds = [task.seed for task in tasks]
    return {
        "tasks": len({task.name for task in tasks}),
        "instances": len(tasks),
        "seeds": [min(seeds), max(seeds)] if seeds else [],
        "sha256": hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16],
    }


def describe_request(policy: Policy) -> dict[str, Any] | None:
    """The prompt in full and what replies are held to; None for policies that are no models."""
    dialect = getattr(policy, "dialect", None)
    return example_request(dialect) if isinstance(dialect, Dialect) else None
