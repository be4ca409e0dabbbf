"""Recall: a value seen k steps ago must be typed now. Pure Mamba, hybrid and pure attention of equal size.

    python benchmarks/recall.py --minutes 15 --out docs/images/recall.png           # a CPU core is enough

Every step of a session shows a field and its value, and may ask for the value of a field that was on the screen some
steps ago; each value is asked for at most once, so it was seen exactly k steps ago and never since:

    screen f17 c3    type f04 c9                  the last token is the model's; f04 was shown k steps ago

A recurrent state has a fixed size, so what it can hold until step k is bounded; attention looks back. The question is
how much a hybrid with a single attention layer gives away. The three decoders are those of the package (same code as
the 12B), differ in their pattern only, and have the same number of parameters to within a few per cent, by the width of
their MLPs. They are trained on the same sessions for the same time or the same number of steps. Answers are greedy.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from holotron.errors import ConfigError
from holotron.kernels.layout import Layout
from holotron.model.config import AttentionConfig, DecoderConfig, MambaConfig, MLPConfig, ModelConfig, TokenIds
from holotron.model.model import Holotron
from holotron.model.weights import random_model

VALUE = 1  # tokens of a value
CHARACTERS = 8
FIELDS = 24
SCREEN, TYPE, NOTHING, BLANK = range(4)
_FIELD = 4
_CHARACTER = _FIELD + FIELDS
VOCAB = _CHARACTER + CHARACTERS
STEP = 4 + 2 * VALUE  # tokens

PATTERNS = {"pure Mamba": "M-M-M-", "hybrid": "M-M-*-", "pure attention": "*-*-*-"}


@dataclass(frozen=True)
class Sessions:
    """Some sessions of the same length. Legend: B sessions, S steps."""

    ids: np.ndarray  # [B, S * STEP]
    ago: np.ndarray  # [B, S]: how many steps ago the value was shown; -1 where nothing is asked


def make_sessions(rng: np.random.Generator, count: int, steps: int, farthest: int) -> Sessions:
    """At every other step, on average, a value is asked for that was shown at most `farthest` steps ago and not asked
    for yet: so about half of all values are waiting, and lags of all lengths occur."""
    ids = np.empty((count, steps, STEP), np.int64)
    ago = np.full((count, steps), -1)
    for session in range(count):
        fields = np.resize(rng.permutation(FIELDS), steps)  # a field comes back only when all others were shown
        values = rng.integers(0, CHARACTERS, (steps, VALUE))
        asked: set[int] = set()
        for step in range(steps):
            typed = [TYPE, NOTHING, *[BLANK] * VALUE]
            free = [past for past in range(max(0, step - farthest), step) if past not in asked]
            if free and rng.random() < 0.5:
                past = int(rng.choice(free))
                asked.add(past)
                ago[session, step] = step - past
                typed = [TYPE, _FIELD + fields[past], *(_CHARACTER + values[past])]
            ids[session, step] = [SCREEN, _FIELD + fields[step], *(_CHARACTER + values[step]), *typed]
    return Sessions(ids.reshape(count, -1), ago)


def decoder(pattern: str, hidden: int, mlp: int, state: int = 8) -> ModelConfig:
    return ModelConfig(
        name="recall",
        family="nemotron_h",
        decoder=DecoderConfig(
            vocab=VOCAB,
            hidden=hidden,
            pattern=pattern,
            mamba=MambaConfig(heads=hidden // 16, head_dim=32, state=state, groups=1, chunk=64),
            # A transformer needs positions; beside Mamba layers attention has none, as in the family.
            attention=AttentionConfig(
                heads=2, kv_heads=2, head_dim=hidden // 2, rope_theta=10_000.0 if "M" not in pattern else None
            ),
            mlp=MLPConfig(mlp),
        ),
        tokens=TokenIds(image=0, image_start=0, image_end=0, bos=None, eos=(), first_unsampled=None),
    )


def equal_sizes(hidden: int) -> dict[str, ModelConfig]:
    """MLPs as wide as it takes to give every pattern the parameters of pure Mamba with MLPs of width 2 x hidden."""

    def size(config: ModelConfig) -> int:
        with torch.device("meta"):
            return sum(p.numel() for p in Holotron(config).parameters())

    wanted = size(decoder(PATTERNS["pure Mamba"], hidden, 2 * hidden))
    made = {}
    for name, pattern in PATTERNS.items():
        layers = pattern.count("-")
        missing = wanted - size(decoder(pattern, hidden, 2 * hidden))
        width = 2 * hidden + round(missing / layers / (2 * hidden))
        made[name] = decoder(pattern, hidden, width)
        assert abs(size(made[name]) / wanted - 1) < 0.03
    return made


class Learner:
    def __init__(self, config: ModelConfig, device: torch.device, seed: int, lr: float) -> None:
        self.model = random_model(config, device=device, seed=seed).train()
        self.device = device
        self._adam = torch.optim.AdamW(self.model.parameters(), lr=lr, betas=(0.9, 0.95), weight_decay=0.01)
        self.lr = lr

    @property
    def parameters(self) -> int:
        return sum(p.numel() for p in self.model.parameters())

    def logits(self, sessions: Sessions) -> tuple[torch.Tensor, torch.Tensor]:
        """For every answer's tokens [B, S, VALUE]: the logits that predict them, and what they are."""
        count, length = sessions.ids.shape
        ids = torch.from_numpy(sessions.ids).to(self.device)
        language = self.model.language_model
        layout = Layout.build([length] * count, device=self.device)
        hidden = language(language.embed(ids.flatten()), layout).view(count, -1, STEP, self.model.config.decoder.hidden)
        answers = ids.view(count, -1, STEP)[:, :, -VALUE:]
        return language.logits(hidden[:, :, -VALUE - 1 : -1]), answers

    def learn(self, sessions: Sessions, rate: float) -> float:
        for group in self._adam.param_groups:
            group["lr"] = rate * self.lr
        logits, answers = self.logits(sessions)
        asked = torch.from_numpy(sessions.ago >= 0).to(self.device)
        loss = F.cross_entropy(logits[asked].flatten(0, 1).float(), answers[asked].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self._adam.step()
        self._adam.zero_grad(set_to_none=True)
        return float(loss.detach())

    @torch.no_grad()
    def recall(self, sessions: Sessions, lags: Sequence[int]) -> dict[int, tuple[int, int]]:
        """By lag: values typed right, and how many were asked for."""
        logits, answers = self.logits(sessions)
        right = (logits.argmax(-1) == answers).all(-1).cpu().numpy()
        return {lag: (int(right[sessions.ago == lag].sum()), int((sessions.ago == lag).sum())) for lag in lags}


def train(
    config: ModelConfig,
    *,
    seconds: float | None,
    steps: int | None,
    farthest: int,
    batch_tokens: int,
    lr: float,
    seed: int,
    device: torch.device,
    say: bool = True,
) -> tuple[Learner, int]:
    """Sessions of all lengths up to twice the farthest lag: short ones teach the trick, long ones make it last."""
    learner = Learner(config, device, seed, lr)
    rng = np.random.default_rng([seed, 1])
    started = spoke = time.monotonic()
    step, done, mean = 0, 0.0, 0.0
    while done < 1.0:
        reach = int(rng.integers(2, farthest + 1))
        length = 2 * reach
        sessions = make_sessions(rng, max(1, batch_tokens // (length * STEP)), length, reach)
        loss = learner.learn(sessions, min(1.0, (step + 1) / 50) * min(1.0, (1 - done) / 0.25))
        mean += (loss - mean) / min(step + 1, 50)
        step += 1
        now = time.monotonic()
        done = step / steps if steps is not None else (now - started) / (seconds or 1.0)
        if say and now - spoke > 20:
            print(f"  step {step}  loss {mean:.3f}", flush=True)
            spoke = now
    return learner, step


def measure(learner: Learner, farthest: int, lags: Sequence[int], sessions: int, seed: int) -> dict[int, float]:
    """Share of values typed right by lag, on sessions never trained on; beyond the trained lags they are longer too."""
    right = dict.fromkeys(lags, 0)
    asked = dict.fromkeys(lags, 0)
    for reach in sorted({farthest, max(lags)}):
        mine = [lag for lag in lags if (lag <= farthest) == (reach <= farthest)]
        rng = np.random.default_rng([seed, 2, reach])
        for _ in range(sessions // 8):
            for lag, (hits, count) in learner.recall(make_sessions(rng, 8, 3 * reach, reach), mine).items():
                right[lag] += hits
                asked[lag] += count
    return {lag: right[lag] / asked[lag] for lag in lags if asked[lag]}


def draw(results: dict[str, dict[str, object]], farthest: int, path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for name, result in results.items():
        curve: dict[int, float] = result["recall"]  # type: ignore[assignment]
        axes.plot(list(curve), [100 * value for value in curve.values()], marker="o", label=name)
    axes.axhline(100 * CHARACTERS**-VALUE, color="grey", linewidth=0.8, linestyle=":", label="chance")
    axes.axvline(farthest, color="grey", linewidth=0.8, linestyle="--", label="farthest lag in training")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set(xlabel="steps since the value was seen", ylabel="values typed right, %", ylim=(-2, 102))
    axes.grid(alpha=0.3)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def ablation(
    *,
    hidden: int = 32,
    farthest: int = 4,
    seconds: float | None = None,
    steps: int | None = None,
    batch_tokens: int = 768,
    lr: float = 5e-3,
    seed: int = 0,
    sessions: int = 256,
    device: torch.device = torch.device("cpu"),
    say: bool = True,
) -> dict[str, dict[str, object]]:
    if 4 * farthest >= FIELDS:  # a field would come back within reach of a question about it
        raise ConfigError(f"lags are measured up to {4 * farthest} steps and there are {FIELDS} fields; raise FIELDS")
    lags = sorted({lag for power in range(8) for lag in (2**power, 3 * 2**power // 2) if lag <= 4 * farthest})
    results: dict[str, dict[str, object]] = {}
    for name, config in equal_sizes(hidden).items():
        started = time.monotonic()
        learner, trained = train(
            config,
            seconds=seconds,
            steps=steps,
            farthest=farthest,
            batch_tokens=batch_tokens,
            lr=lr,
            seed=seed,
            device=device,
            say=say,
        )
        took = time.monotonic() - started
        results[name] = {
            "pattern": config.decoder.pattern,
            "parameters": learner.parameters,
            "steps": trained,
            "seconds": round(took, 1),
            "recall": measure(learner, farthest, lags, sessions, seed),
        }
        if say:
            print(name, json.dumps(results[name]), flush=True)
    return results


def table(results: dict[str, dict[str, object]]) -> str:
    curves: list[dict[int, float]] = [result["recall"] for result in results.values()]  # type: ignore[misc]
    lines = ["| steps ago | " + " | ".join(results) + " |", "|---" * (len(results) + 1) + "|"]
    lines += [f"| {lag} | " + " | ".join(f"{100 * curve[lag]:.1f} %" for curve in curves) + " |" for lag in curves[0]]
    for what in ("parameters", "steps", "seconds"):
        lines.append(f"| {what} | " + " | ".join(f"{result[what]:,}" for result in results.values()) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15.0, help="for all three models together")
    parser.add_argument("--steps", type=int, help="updates of each model, instead of a time")
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument(
        "--farthest", type=int, default=4, help="steps ago, in training; measured up to four times that"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=Path("recall.png"), help="the curve; the figures go beside it")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    results = ablation(
        hidden=args.hidden,
        farthest=args.farthest,
        seconds=60 * args.minutes / len(PATTERNS),
        steps=args.steps,
        seed=args.seed,
        device=torch.device(args.device),
    )
    draw(results, args.farthest, args.out)
    args.out.with_suffix(".json").write_text(json.dumps(results, indent=2) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
