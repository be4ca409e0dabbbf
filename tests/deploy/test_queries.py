"""Queries of dashboard and alerts: PromQL, and a check of their names that can fail. The check itself, against a fleet
that runs, is in tests/fleet/test_fleet.py."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.deploy.queries import QUERIES, SELECTOR, unknown


def test_the_check_can_fail() -> None:
    series = {"holotron_router_moves_total": {"why"}, "holotron_step_seconds_bucket": {"le", "replica"}}
    assert unknown('sum by (why) (rate(holotron_router_moves_total{job="x"}[1m]))', series) == []
    assert (
        unknown("histogram_quantile(0.5, sum by (le, replica) (rate(holotron_step_seconds_bucket[1m])))", series) == []
    )
    assert unknown('sum by (why) (rate(holotron_moves_total{shop="x"}[1m]))', series) == [
        "holotron_moves_total",
        "holotron_moves_total{shop}",
        "by why",
    ]


def test_servers_and_router_are_both_asked_for() -> None:
    assert len(QUERIES) > 50
    asked = {name for _, query in QUERIES for name, _ in SELECTOR.findall(query)}
    assert {"holotron_router_seconds_bucket", "holotron_router_moves_total", "holotron_sessions_open"} <= asked


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool (Debian: prometheus)")
def test_queries_are_promql(tmp_path: Path) -> None:
    rules = [{"record": "x", "expr": query} for _, query in QUERIES]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    command = ["promtool", "check", "rules", "--lint=none", tmp_path / "rules.yml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
