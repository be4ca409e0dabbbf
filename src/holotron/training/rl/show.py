"""What a person sees of a run: a table in the terminal that grows with every update, and a picture of the curves."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from rich.live import Live
from rich.table import Table

from holotron.training.curves import Curves, read_metrics

CURVE = "curve.png"
_ROWS = 16  # updates on the screen
_LOG_SECONDS = 20.0  # between two lines where there is no screen

_Column = tuple[str, Callable[[Mapping[str, float]], str]]  # heading, how it shows an update

_COLUMNS: tuple[_Column, ...] = (
    ("success", lambda v: _percent(v.get("rollout/success"))),
    ("estimate", lambda v: _percent(v.get("rollout/estimate"))),
    ("episodes", lambda v: f"{v['rollout/episodes']:,.0f}"),
    ("kept", lambda v: f"{v['groups/kept'] + v['groups/replayed']:.0f}"),
    ("solved", lambda v: f"{v['groups/solved']:.0f}"),
    ("failed", lambda v: f"{v['groups/failed']:.0f}"),
    ("stale", lambda v: f"{v['groups/stale'] + v['groups/overflowed']:.0f}"),
    ("age", lambda v: f"{v['update/staleness']:.1f}"),
    ("ratio", lambda v: f"{v['update/ratio']:.3f}"),
    ("clipped", lambda v: _percent(v["update/clipped"])),
    ("entropy", lambda v: f"{v['update/entropy']:.3f}"),
    ("engine/trainer", lambda v: f"{v['update/agreement']:.5f}" if "update/agreement" in v else "–"),
    ("gradient", lambda v: f"{v['update/gradient']:.2f}"),
    ("trainer idle", lambda v: _percent(v["idle/trainer"])),
    ("engine idle", lambda v: _percent(v["idle/engine"])),
)


_REWARD: _Column = ("reward", lambda v: f"{v['rollout/reward']:.3f}" if "rollout/reward" in v else "–")


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"


class RlDisplay:
    """A live table where there is a terminal, a line now and then where there is not."""

    def __init__(self, curves: Curves, *, rewards: bool = False) -> None:
        """`rewards`: of a run that learns from them."""
        self._columns = (_REWARD, *_COLUMNS) if rewards else _COLUMNS
        self._curves = curves
        self._rows: list[tuple[str, ...]] = []
        self._live = Live(console=curves.console, auto_refresh=False) if curves.console.is_terminal else None
        self._spoke = 0.0

    def __enter__(self) -> RlDisplay:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def updated(self, step: int, values: Mapping[str, float]) -> None:
        cells = tuple(show(values) for _, show in self._columns)
        self._rows = [*self._rows, (str(step), *cells)][-_ROWS:]
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
        elif time.monotonic() - self._spoke >= _LOG_SECONDS:
            self._spoke = time.monotonic()
            pairs = "  ".join(f"{name} {cell}" for (name, _), cell in zip(self._columns, cells, strict=True))
            self._curves.say(f"update {step:,}  {pairs}")

    def evaluated(self, step: int, success: float, episodes: int) -> None:
        self._curves.say(f"[bold]after update {step:,}: {100 * success:.1f} % of {episodes:,} held-out episodes[/bold]")

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        for heading in ("update", *(name for name, _ in self._columns)):
            table.add_column(heading, justify="right")
        for row in self._rows:
            table.add_row(*row)
        return table


def draw_curve(folder: Path, say: Callable[[str], None] = lambda text: None) -> Path | None:
    """Success, entropy, staleness and agreement over the updates, from `metrics.jsonl`."""
    rows = read_metrics(folder)
    if not rows:
        return None
    if importlib.util.find_spec("matplotlib") is None:
        say("matplotlib is not installed, so there is no picture of the curves: pip install 'holotron[plot]'")
        return None
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    def series(name: str) -> tuple[list[float], list[float]]:
        found = [(row["step"], row[name]) for row in rows if name in row]
        return [step for step, _ in found], [value for _, value in found]

    figure, axes = pyplot.subplots(2, 2, figsize=(11, 7), layout="constrained")
    success, entropy, age, agreement = axes.flat
    success.plot(*series("rollout/success"), alpha=0.5, label="sampled, training tasks as drawn")
    success.plot(*series("rollout/estimate"), label="sampled, mean over tasks")
    if series("evaluation/success")[0]:
        success.plot(*series("evaluation/success"), marker="o", label="greedy, held-out seeds")
    success.set(title="Success", ylim=(0, 1))
    entropy.plot(*series("update/entropy"))
    entropy.set(title="Entropy of sampled tokens, nats")
    age.plot(*series("update/staleness"), label="mean")
    age.plot(*series("update/oldest"), label="oldest")
    age.set(title="Updates behind", ylim=(0, None))
    agreement.plot(*series("update/agreement"), label="same weights: engine against trainer")
    agreement.plot(*series("update/error"), alpha=0.5, label="sampled then against now")
    agreement.set(title="Multiplicative probability error, mean of exp |difference|")
    for panel in axes.flat:
        panel.grid(alpha=0.3)
        panel.set_xlabel("update")
        if panel.get_legend_handles_labels()[0]:
            panel.legend(fontsize="small")
    draft = folder / f".{CURVE}"
    figure.savefig(draft, dpi=120, format="png")
    pyplot.close(figure)
    draft.replace(folder / CURVE)
    return folder / CURVE
