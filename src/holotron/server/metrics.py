"""Prometheus metrics. Counters and levels are read from the engine when somebody asks; latencies are observed as they
happen. Everything is named `holotron_...`; docs/server.md lists them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest

from holotron.engine import EngineStats, Result, StepReport

STEP_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5)
REQUEST_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320)
BATCH = (1, 2, 4, 8, 16, 32, 64, 128, 256)

_COUNTERS = {
    "iterations": "Iterations of the engine",
    "requests": "Generations submitted",
    "generated_tokens": "Tokens generated",
    "forced_tokens": "Tokens a grammar left no choice about (of those generated)",
    "drafted_tokens": "Tokens guessed and read by the network",
    "drafts_kept": "Guessed tokens that were right",
    "recomputed_tokens": "Prompt tokens computed a second time: rewound without a snapshot, compacted, refreshed",
    "tiles_encoded": "Image tiles that went through the vision tower",
    "tiles_reused": "Image tiles found in the vision cache",
    "pictures_reused": "Pictures sent again, neither decoded nor cut again",
    "blocks_to_host": "KV pages and states moved to host memory",
    "blocks_to_device": "KV pages and states brought back",
    "blocks_to_disk": "KV pages and states written to files",
    "blocks_from_disk": "KV pages and states read back from files",
    "preemptions": "Running requests that had to yield",
    "evicted_sessions": "Cached prefixes dropped for room",
    "forgotten_sessions": "Open sessions that forgot what they remember for lack of memory, to be computed again",
    "resumed_everything": "Stateless requests that continued an earlier one",
    "resumed_prompt": "Stateless requests that continued an earlier prompt, with the reply told otherwise",
    "resumed_window": "Stateless requests that had dropped the oldest picture, resumed where it stood",
    "resumed_beginning": "Stateless requests that found a common beginning",
    "resumed_nothing": "Stateless requests that were computed from their first token",
    "integrity_failures": "Accounting checks that failed: a bug, please report it",
}
_GAUGES = {
    "requests_running": ("running", "Requests in the current batch"),
    "requests_waiting": ("waiting", "Requests in the queue"),
    "sessions_open": ("sessions", "Open sessions"),
    "cached_prefixes": ("cached_sessions", "Finished stateless requests kept for the next one to resume"),
    "kv_pages_used": ("pages_used", "KV pages that hold something"),
    "kv_pages": ("pages_total", "KV pages on the device"),
    "state_rows_used": ("rows_used", "State rows that hold something"),
    "state_rows": ("rows_total", "State rows on the device"),
    "host_bytes_used": ("host_bytes_used", "Host memory that holds pages and states"),
    "disk_bytes_used": ("disk_bytes_used", "Files that hold pages and states"),
    "vision_cache_bytes": ("vision_bytes_used", "Vision cache"),
    "pixel_bytes": ("pixel_bytes_used", "Host memory that holds the tiles sessions show"),
    "picture_bytes": ("picture_bytes_used", "Host memory that holds the tiles of pictures that may be sent again"),
    "weights_version": ("version", "Version of the weights"),
}


class Kept(Protocol):
    """The journal, if there is one."""

    failures: int
    dropped: int

    @property
    def held(self) -> int: ...


class Metrics:
    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.journal: Kept | None = None
        self._engine = _EngineCollector()
        self._registry.register(self._engine)

        def histogram(name: str, what: str, buckets: Iterable[float]) -> Histogram:
            return Histogram(f"holotron_{name}", what, registry=self._registry, buckets=tuple(buckets))

        self._step = histogram("step_seconds", "One iteration of the engine", STEP_SECONDS)
        self._batch = histogram("batch_size", "Sequences in one iteration", BATCH)
        self._queued = histogram("queue_seconds", "Submission to admission", REQUEST_SECONDS)
        self._first = histogram("first_token_seconds", "Submission to the first token", REQUEST_SECONDS)
        self._total = histogram("generation_seconds", "Submission to the last token", REQUEST_SECONDS)
        self._http = Counter(
            "holotron_http_requests", "Responses by route and status", ["route", "status"], registry=self._registry
        )

    def step(self, report: StepReport) -> None:
        """Called from the engine's thread."""
        self._step.observe(report.seconds)
        self._batch.observe(report.sequences)

    def generated(self, result: Result) -> None:
        self._queued.observe(result.timings.queued)
        self._first.observe(result.timings.first_token)
        self._total.observe(result.timings.total)

    def answered(self, route: str, status: int) -> None:
        self._http.labels(route, str(status)).inc()

    def text(self, stats: EngineStats | None) -> bytes:
        self._engine.stats, self._engine.journal = stats, self.journal
        return generate_latest(self._registry)


class _EngineCollector:
    """The engine's own numbers, as of the moment somebody asked."""

    def __init__(self) -> None:
        self.stats: EngineStats | None = None
        self.journal: Kept | None = None

    def collect(self) -> Iterable[Metric]:
        if (journal := self.journal) is not None:
            what = "Logs of sessions that could not be written: these would be lost with the process"
            yield CounterMetricFamily("holotron_journal_failures", what, value=journal.failures)
            what = "Logs of sessions that went for room (fleet.journal_bytes)"
            yield CounterMetricFamily("holotron_journal_dropped", what, value=journal.dropped)
            yield GaugeMetricFamily("holotron_journal_bytes", "Logs of sessions on disk", value=journal.held)
        stats = self.stats
        if stats is None:
            return
        for name, what in _COUNTERS.items():
            yield CounterMetricFamily(f"holotron_{name}", what, value=getattr(stats, name))
        prompt = CounterMetricFamily(
            "holotron_prompt_tokens", "Prompt tokens, by where they came from", labels=["source"]
        )
        prompt.add_metric(["cached"], stats.cached_tokens)
        prompt.add_metric(["computed"], stats.computed_tokens)
        yield prompt
        for name, (field, what) in _GAUGES.items():
            yield GaugeMetricFamily(f"holotron_{name}", what, value=getattr(stats, field))

    def describe(self) -> Iterable[Metric]:
        return []
