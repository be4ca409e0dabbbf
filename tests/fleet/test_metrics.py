"""What an entrance says of all of its replicas together."""

from __future__ import annotations

from collections.abc import Mapping

from holotron.fleet.metrics import RouterMetrics


class Nobody:
    def all_replicas(self) -> list[object]:
        return []

    def counts(self) -> Mapping[str, tuple[str, float]]:
        return {}

    def labelled(self) -> Mapping[str, tuple[str, str, Mapping[str, float]]]:
        return {}


def said(requests: int, running: int) -> str:
    return (
        f"# TYPE holotron_requests counter\nholotron_requests_total {requests}\n"
        f"# TYPE holotron_running gauge\nholotron_running {running}\n"
    )


def test_counts_of_the_fleet_never_fall() -> None:
    """Prometheus would take the whole sum for an increase: a burst of requests that nobody made."""
    metrics = RouterMetrics()

    def sums(texts: Mapping[str, str]) -> tuple[float, float]:
        rows = dict(line.split(" ") for line in metrics.text(Nobody(), texts).decode().splitlines() if line[0] != "#")
        return float(rows["holotron_fleet_requests_total"]), float(rows["holotron_fleet_running"])

    assert sums({"0": said(100, 2), "1": said(50, 3)}) == (150, 5)
    assert sums({"0": said(101, 2), "1": ""}) == (151, 2), "one does not answer for once"
    assert sums({"0": said(101, 2), "1": said(60, 3)}) == (161, 5)
    assert sums({"0": said(102, 2)}) == (162, 2), "it is dead"
    assert sums({"0": said(102, 2), "1": said(4, 1)}) == (166, 3), "another one has its name and begins at nought"
    assert sums({"0": said(102, 2), "1": said(5, 1)}) == (167, 3)
