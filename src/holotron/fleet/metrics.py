"""Metrics of all replicas, apart and together, and the router's own.

holotron_requests_running{replica="0"} 3          each replica's, under the names that one server has
holotron_fleet_requests_running 7                 their sum (of weights' versions the lowest); a count never falls
holotron_router_...                               how requests were sent, repeated and moved
"""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Iterable, Mapping
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from holotron.fleet.replicas import Replica

LOWEST = ("holotron_weights_version",)  # a sum of these says nothing
Series = tuple[str, str, tuple[tuple[str, str], ...]]  # family, name, labels
SECONDS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)


class Told(Protocol):
    """What the router counts itself."""

    def all_replicas(self) -> Iterable[Replica]: ...
    def counts(self) -> Mapping[str, tuple[str, float]]: ...  # name: what it is, value
    def labelled(self) -> Mapping[str, tuple[str, str, Mapping[str, float]]]: ...  # name: what, label, values


class RouterMetrics:
    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._counted = _Sums()
        self._http = Counter(
            "holotron_router_requests", "Answers by route and status", ["route", "status"], registry=self._registry
        )
        self.overhead = Histogram(
            "holotron_router_seconds",
            "Time from a request's last byte to the replica being asked",
            registry=self._registry,
            buckets=SECONDS,
        )

    def answered(self, route: str, status: int) -> None:
        self._http.labels(route, str(status)).inc()

    def text(self, told: Told, texts: Mapping[str, str]) -> bytes:
        """`texts`: what each replica says, by its name."""
        return _Text([*_own(told), *_merged(texts, self._counted)]).bytes() + generate_latest(self._registry)


class _Text(CollectorRegistry):
    def __init__(self, families: Iterable[Metric]) -> None:
        super().__init__()
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families

    def bytes(self) -> bytes:
        return generate_latest(self)


def _own(told: Told) -> Iterable[Metric]:
    up = GaugeMetricFamily("holotron_router_replica_up", "Whether it takes requests", labels=["replica"])
    busy = GaugeMetricFamily("holotron_router_replica_in_flight", "Requests being answered by it", labels=["replica"])
    for replica in told.all_replicas():
        up.add_metric([replica.name], float(replica.stage == "ready" and not replica.quiet))
        busy.add_metric([replica.name], replica.in_flight)
    yield from (up, busy)
    for name, (what, value) in told.counts().items():
        yield CounterMetricFamily(f"holotron_router_{name}", what, value=value)
    for name, (what, label, values) in told.labelled().items():
        family = CounterMetricFamily(f"holotron_router_{name}", what, labels=[label])
        for key, value in sorted(values.items()):
            family.add_metric([key], value)
        yield family


class _Sums:
    """Of all replicas. What one has counted still counts when it is gone, begins again at nought, or does not answer
    for once: a sum that falls is a new beginning to Prometheus, which takes all of it for an increase."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, Series], float] = {}  # by replica
        self._gone: Count[Series] = Count()

    def of(self, counts: Mapping[str, Mapping[Series, float]]) -> Mapping[Series, float]:
        """`counts`: what each replica that answers has counted since it began."""
        for name, mine in counts.items():
            for series, value in mine.items():
                before = self._last.get((name, series), 0.0)
                self._gone[series] += before if value < before else 0.0  # type: ignore[assignment]
                self._last[name, series] = value
        sums = Count(self._gone)
        for (_, series), value in self._last.items():
            sums[series] += value  # type: ignore[assignment]
        return sums


def _merged(texts: Mapping[str, str], counted: _Sums) -> Iterable[Metric]:
    apart: dict[str, Metric] = {}
    levels: dict[Series, float] = {}
    counts: dict[str, dict[Series, float]] = {name: {} for name in texts}
    for name, text in texts.items():
        for family in text_string_to_metric_families(text):
            if not family.name.startswith("holotron_"):
                continue
            mine = apart.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                if sample.name.endswith("_created"):
                    continue
                mine.add_sample(sample.name, {**sample.labels, "replica": name}, sample.value)
                key = (family.name, sample.name, tuple(sorted(sample.labels.items())))
                if family.type != "gauge":
                    counts[name][key] = sample.value
                elif family.name in LOWEST:
                    levels[key] = min(levels.get(key, sample.value), sample.value)
                else:
                    levels[key] = levels.get(key, 0.0) + sample.value
    together: dict[str, Metric] = {}
    for (name, sample_name, labels), value in {**levels, **counted.of(counts)}.items():
        if (one := apart.get(name)) is None:
            continue  # nobody says any more what it means
        fleet = name.replace("holotron_", "holotron_fleet_", 1)
        family = together.setdefault(name, Metric(fleet, f"{one.documentation} (all replicas)", one.type))
        family.add_sample(sample_name.replace("holotron_", "holotron_fleet_", 1), dict(labels), value)
    return [*apart.values(), *together.values()]
