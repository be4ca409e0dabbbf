"""What dashboard and alerts ask Prometheus for, held against what a server exports. Used where a fleet runs anyway
(tests/fleet/test_fleet.py)."""

from __future__ import annotations

import re

from prometheus_client.parser import text_string_to_metric_families

from tests.deploy.files import alert_queries, dashboard_queries

OF_PROMETHEUS = {"job", "instance"}  # labels that it adds itself
QUERIES = [*dashboard_queries(), *alert_queries()]
SELECTOR = re.compile(r"(?<!\w)(holotron_\w+)(?:\{([^}]*)\})?")


def exported(text: str) -> dict[str, set[str]]:
    """Every time series of a /metrics that can be asked for, with its labels."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def unknown(query: str, series: dict[str, set[str]]) -> list[str]:
    """Names and labels in a query that nobody exports."""
    problems, labels = [], set(OF_PROMETHEUS)
    for name, chosen in SELECTOR.findall(query):
        problems += [] if name in series else [name]
        labels |= series.get(name, set())
        used = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", chosen))
        problems += [f"{name}{{{label}}}" for label in used - series.get(name, set()) - OF_PROMETHEUS]
    for listed in re.findall(r"\bby \(([^)]*)\)", query):
        problems += [f"by {label}" for label in set(listed.replace(",", " ").split()) - labels]
    return problems


def all_unknown(text: str) -> dict[str, list[str]]:
    """By panel or alert; `text` is a /metrics."""
    series = exported(text)
    return {title: wrong for title, query in QUERIES if (wrong := unknown(query, series))}
