"""Recall: a value seen k steps ago must be typed now. Pure Mamba, hybrid and pure attention of equal size.

    python benchmarks/recall.py --farthest 32 --seconds 80 --out docs/images/recall.png        # one GPU, all at once
    python benchmarks/recall.py --farthest 4 --steps 600 --tokens 768 --hidden 32       # a CPU core, some minutes

Every step of a session shows a field and its value, and may ask for the value of a field that was on the screen some
steps ago; each value is asked for at most once, so it was seen exactly k steps ago and never since:

    screen f17 c3    type f04 c9                  the last token is the model's; f04 was shown k steps ago

A recurrent state has a fixed size, so what it can hold until step k is bounded; attention looks back. The question is
how much a hybrid with a single attention layer gives away. The three decoders are those of the package (same code as
the 12B), differ in their pattern only, and have the same number of parameters to within a few per cent, by the width of
their MLPs. They are trained on the same sessions, in processes side by side on a GPU. Answers are greedy.

Sessions are made on the device, many at once, in a few fixed shapes: a small model's time goes into launching things.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from holotron.kernels.layout import Layout
from holotron.model.config import AttentionConfig, DecoderConfig, MambaConfig, MLPConfig, ModelConfig, TokenIds
from holotron.model.model import Holotron
from holotron.model.weights import random_model

CHARACTERS = 16  # what a value can be
SCREEN, TYPE, NOTHING, BLANK = range(4)
STEP = 6  # tokens: screen, field, value, type, field or nothing, value or blank
AHEAD = 32  # batches whose sessions are made in one go

PATTERNS = {"pure Mamba": "M-M-M-", "hybrid": "M-M-*-", "pure attention": "*-*-*-"}


@dataclass(frozen=True)
class Settings:
    farthest: int = 4  # steps ago, in training; measured up to four times that
    hidden: int = 32
    tokens: int = 768  # of an update
    steps: int | None = None  # updates
    seconds: float | None = None  # of training; whichever of the two comes first
    lr: float = 3e-3
    seed: int = 0
    sessions: int = 256  # to measure
    device: str = "cpu"

    @property
    def fields(self) -> int:
        """So many that none comes back within reach of a question about it."""
        return 4 * self.farthest + 8

    @property
    def vocab(self) -> int:
        return 4 + self.fields + CHARACTERS

    @property
    def lags(self) -> list[int]:
        """That are measured: powers of two, and halfway between."""
        most = 4 * self.farthest
        return sorted({lag for power in range(10) for lag in (2**power, 3 * 2**power // 2) if lag <= most})

    @property
    def reaches(self) -> list[int]:
        """Training sessions of a few lengths: short ones teach the trick, long ones make it last."""
        return [reach for reach in (2, 4, 8, 16, 32, 64, 128) if reach < self.farthest] + [self.farthest]


@dataclass(frozen=True)
class Sessions:
    """Some sessions of the same length. Legend: B sessions, S steps."""

    ids_BT: Tensor  # T = S * STEP
    ago_BS: Tensor  # how many steps ago the value was shown; -1 where nothing is asked


def make_sessions(chance: torch.Generator, count: int, steps: int, farthest: int, fields: int) -> Sessions:
    """At every other step, on average, a value is asked for that was shown at most `farthest` steps ago and not asked
    for yet: so about half of all values are waiting, and lags of all lengths occur."""
    device = chance.device
    order = torch.rand(count, fields, device=device, generator=chance).argsort(1)
    shown = order.repeat(1, -(-steps // fields))[:, :steps]  # a field comes back only when all others were shown
    values = torch.randint(CHARACTERS, (count, steps), device=device, generator=chance)
    wanted = torch.rand(count, steps, device=device, generator=chance) < 0.5
    luck = torch.rand(count, steps, steps, device=device, generator=chance)
    free = torch.ones(count, steps, dtype=torch.bool, device=device)
    ago = torch.full((count, steps), -1, device=device)
    for step in range(1, steps):
        first = max(0, step - farthest)
        lot, past = (luck[:, step, first:step] * free[:, first:step]).max(1)
        asks = wanted[:, step] & (lot > 0)
        past = past + first
        free.scatter_(1, past[:, None], free.gather(1, past[:, None]) & ~asks[:, None])
        ago[:, step] = torch.where(asks, step - past, -1)
    asks = ago > 0
    past = torch.where(asks, torch.arange(steps, device=device) - ago, 0)
    ids = torch.empty(count, steps, STEP, dtype=torch.int64, device=device)
    ids[:, :, 0], ids[:, :, 3] = SCREEN, TYPE
    ids[:, :, 1], ids[:, :, 2] = 4 + shown, 4 + fields + values
    ids[:, :, 4] = torch.where(asks, 4 + shown.gather(1, past), NOTHING)
    ids[:, :, 5] = torch.where(asks, 4 + fields + values.gather(1, past), BLANK)
    return Sessions(ids.flatten(1), ago)


# --------------------------------------------------------------------------------------------------------------- models


def decoder(pattern: str, hidden: int, mlp: int, vocab: int) -> ModelConfig:
    return ModelConfig(
        name="recall",
        family="nemotron_h",
        decoder=DecoderConfig(
            vocab=vocab,
            hidden=hidden,
            pattern=pattern,
            mamba=MambaConfig(heads=hidden // 16, head_dim=32, state=16, groups=1, chunk=24),
            # A transformer needs positions; beside Mamba layers attention has none, as in the family.
            attention=AttentionConfig(
                heads=2, kv_heads=2, head_dim=hidden // 2, rope_theta=10_000.0 if "M" not in pattern else None
            ),
            mlp=MLPConfig(mlp),
        ),
        tokens=TokenIds(image=0, image_start=0, image_end=0, bos=None, eos=(), first_unsampled=None),
    )


def equal_sizes(settings: Settings) -> dict[str, ModelConfig]:
    """MLPs as wide as it takes to give every pattern the parameters of pure Mamba with MLPs of width 2 x hidden."""
    hidden, vocab = settings.hidden, settings.vocab

    def size(config: ModelConfig) -> int:
        with torch.device("meta"):
            return sum(p.numel() for p in Holotron(config).parameters())

    wanted = size(decoder(PATTERNS["pure Mamba"], hidden, 2 * hidden, vocab))
    made = {}
    for name, pattern in PATTERNS.items():
        missing = wanted - size(decoder(pattern, hidden, 2 * hidden, vocab))
        width = 2 * hidden + round(missing / pattern.count("-") / (2 * hidden))
        made[name] = decoder(pattern, hidden, width, vocab)
        assert abs(size(made[name]) / wanted - 1) < 0.03
    return made


class Learner:
    def __init__(self, config: ModelConfig, settings: Settings) -> None:
        self.model = random_model(config, device=settings.device, seed=settings.seed).train().requires_grad_(True)
        gpu = self.model.device.type == "cuda"
        parameters = self.model.parameters()
        self._adam = torch.optim.AdamW(parameters, settings.lr, betas=(0.9, 0.95), weight_decay=0.01, fused=gpu)
        self._lr = settings.lr

    @property
    def parameters(self) -> int:
        return sum(p.numel() for p in self.model.parameters())

    def logits(self, ids_BT: Tensor) -> Tensor:
        """What the last token of every step is predicted from, [B, S, V]."""
        count, length = ids_BT.shape
        language = self.model.language_model
        hidden = language(language.embed(ids_BT.flatten()), _layout(count, length, ids_BT.device))
        return language.logits(hidden.view(count, length // STEP, STEP, -1)[:, :, -2])

    def learn(self, ids_BT: Tensor, rate: float) -> Tensor:
        for group in self._adam.param_groups:
            group["lr"] = rate * self._lr
        answers = ids_BT[:, STEP - 1 :: STEP]
        loss = F.cross_entropy(self.logits(ids_BT).flatten(0, 1).float(), answers.flatten(), ignore_index=BLANK)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self._adam.step()
        self._adam.zero_grad(set_to_none=True)
        return loss.detach()

    @torch.no_grad()
    def recall(self, sessions: Sessions, lags: Sequence[int]) -> dict[int, tuple[int, int]]:
        """By lag: values typed right, and how many were asked for."""
        right = self.logits(sessions.ids_BT).argmax(-1) == sessions.ids_BT[:, STEP - 1 :: STEP]
        found = {lag: sessions.ago_BS == lag for lag in lags}
        return {lag: (int((right & here).sum()), int(here.sum())) for lag, here in found.items()}


@functools.lru_cache(maxsize=64)
def _layout(count: int, length: int, device: torch.device) -> Layout:
    return Layout.build([length] * count, device=device)


# ------------------------------------------------------------------------------------------------------------- training


def training_ids(settings: Settings) -> Iterator[Tensor]:
    """Token ids of one update after the other, lengths in turn; the same for every model."""
    chance = torch.Generator(settings.device).manual_seed(settings.seed)
    ready: dict[int, Iterator[Tensor]] = {}
    while True:
        for reach in settings.reaches:
            ids = next(ready.get(reach, iter(())), None)
            if ids is None:
                count = max(1, settings.tokens // (2 * reach * STEP))
                made = make_sessions(chance, AHEAD * count, 2 * reach, reach, settings.fields)
                ready[reach] = iter(made.ids_BT.split(count))
                ids = next(ready[reach])
            yield ids


def train(name: str, settings: Settings, say: bool = True) -> tuple[Learner, dict[str, object]]:
    learner = Learner(equal_sizes(settings)[name], settings)
    assert settings.steps is not None or settings.seconds is not None, "say when to stop"
    losses: list[Tensor] = []
    curve: list[tuple[int, float]] = []  # mean loss of the last updates
    started: float | None = None  # the first updates compile kernels
    done, spoke = 0.0, time.monotonic()
    for step, ids in enumerate(training_ids(settings), start=1):
        losses.append(learner.learn(ids, min(1.0, step / 100) * min(1.0, (1 - done) / 0.3)))
        now = time.monotonic()
        if step == 8:
            started = now
        parts = [step / settings.steps] if settings.steps is not None else []
        if settings.seconds is not None and started is not None:
            parts.append((now - started) / settings.seconds)
        done = max(parts, default=0.0)
        if len(losses) == 100 or done >= 1:
            curve.append((step, float(torch.stack(losses).mean())))
            losses.clear()
            if say and now - spoke > 10:
                print(f"  {name}: step {step}  loss {curve[-1][1]:.4f}", flush=True)
                spoke = now
        if done >= 1:
            break
    took = time.monotonic() - (started or now)
    return learner, {
        "pattern": PATTERNS[name],
        "parameters": learner.parameters,
        "steps": step,
        "tokens": step * settings.tokens,
        "seconds": round(took, 1),
        "loss": curve,
    }


def measure(learner: Learner, settings: Settings) -> dict[int, tuple[int, int]]:
    """By lag, on sessions never trained on: values typed right of how many. Beyond the trained lags sessions are longer
    too."""
    found: dict[int, tuple[int, int]] = dict.fromkeys(settings.lags, (0, 0))
    for reach in sorted({settings.farthest, max(settings.lags)}):
        mine = [lag for lag in settings.lags if (lag <= settings.farthest) == (reach <= settings.farthest)]
        chance = torch.Generator(settings.device).manual_seed(1_000_003 + settings.seed)
        for _ in range(-(-settings.sessions // 32)):
            sessions = make_sessions(chance, 32, 3 * reach, reach, settings.fields)
            for lag, (right, asked) in learner.recall(sessions, mine).items():
                found[lag] = (found[lag][0] + right, found[lag][1] + asked)
    return {lag: counts for lag, counts in found.items() if counts[1]}


def one(name: str, settings: Settings, say: bool = True) -> dict[str, object]:
    torch.set_num_threads(1)
    learner, result = train(name, settings, say)
    counts = measure(learner, settings)
    result["asked"] = {lag: asked for lag, (_, asked) in counts.items()}
    result["recall"] = {lag: right / asked for lag, (right, asked) in counts.items()}
    if say:
        print(name, json.dumps(result), flush=True)
    return result


def ablation(settings: Settings, say: bool = True) -> dict[str, dict[str, object]]:
    if settings.device == "cpu":
        return {name: one(name, settings, say) for name in PATTERNS}
    with ProcessPoolExecutor(len(PATTERNS), mp_context=get_context("spawn")) as pool:
        running = {name: pool.submit(one, name, settings, say) for name in PATTERNS}
        return {name: future.result() for name, future in running.items()}


# -------------------------------------------------------------------------------------------------------------- showing


def draw(results: dict[str, dict[str, object]], farthest: int, path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (axes, losses) = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained", width_ratios=(3, 2))
    for name, result in results.items():
        curve: dict[int, float] = result["recall"]  # type: ignore[assignment]
        axes.plot([int(lag) for lag in curve], [100 * value for value in curve.values()], marker="o", label=name)
        steps, values = zip(*result["loss"], strict=True)  # type: ignore[call-overload]
        losses.plot(steps, values, label=name)
    axes.axhline(100 / CHARACTERS, color="grey", linewidth=0.8, linestyle=":", label="chance")
    axes.axvline(farthest, color="grey", linewidth=0.8, linestyle="--", label="farthest in training")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set(xlabel="steps since the value was seen", ylabel="values typed right, %", ylim=(-2, 102))
    losses.set(xlabel="updates", ylabel="loss of the value typed, nats", ylim=(0, None))
    for part in (axes, losses):
        part.grid(alpha=0.3)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def table(results: dict[str, dict[str, object]]) -> str:
    curves: list[dict[int, float]] = [result["recall"] for result in results.values()]  # type: ignore[misc]
    asked: dict[int, int] = next(iter(results.values()))["asked"]  # type: ignore[assignment]
    lines = ["| steps ago | values measured | " + " | ".join(results) + " |", "|---" * (len(results) + 2) + "|"]
    for lag, count in asked.items():
        lines.append(f"| {lag} | {count:,} | " + " | ".join(f"{100 * curve[lag]:.1f} %" for curve in curves) + " |")
    for what in ("parameters", "steps", "seconds"):
        lines.append(f"| {what} | | " + " | ".join(f"{result[what]:,}" for result in results.values()) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    gpu = torch.cuda.is_available()
    parser.add_argument("--farthest", type=int, default=4, help="steps ago, in training")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=24_576 if gpu else 768, help="of an update")
    parser.add_argument("--steps", type=int, help="updates of each model")
    parser.add_argument("--seconds", type=float, help="of each model; whichever comes first")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(PATTERNS), help="one model alone")
    parser.add_argument("--device", default="cuda" if gpu else "cpu")
    parser.add_argument("--out", type=Path, default=Path("recall.png"), help="the curves; the figures go beside it")
    args = vars(parser.parse_args())
    out, only = args.pop("out"), args.pop("only")
    settings = Settings(**args)
    results = {only: one(only, settings)} if only else ablation(settings)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.with_suffix(".json").write_text(json.dumps(results) + "\n")
    print(table(results), flush=True)
    draw(results, settings.farthest, out)


if __name__ == "__main__":
    main()
