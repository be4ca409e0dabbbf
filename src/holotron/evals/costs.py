"""What a run cost, and what each solved task cost: tokens, seconds, and money by a price table.

    prices = read_prices(Path("prices.toml"))
    cost = cost_of(RunReader(run).episodes(), manifest, prices)
    cost.per_solved("seconds"), cost.per_solved("money")

The price table is yours; none comes with the package, because prices change:

    currency = "USD"

    [models."gpt-4o*"]            # the model's name as manifests have it; * is anything, the longest name wins
    prompt = 2.50                 # a million prompt tokens
    cached = 1.25                 # of which cached; as `prompt` where it is not said
    generated = 10.00             # a million generated tokens
    image = 0.0                   # one screenshot sent

    [models."runs/*"]
    hour = 2.20                   # of the machine: wall time in which episodes were played

Everything that was played is paid for, so failures and spoiled episodes are in the sum. Attempts that were thrown away
and made again are not on record and not in it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from holotron.errors import ConfigError
from holotron.evals.statistics import verdict

_KINDS = ("prompt", "cached", "generated", "image", "hour")


@dataclass(frozen=True, slots=True)
class Price:
    prompt: float = 0.0  # per million tokens
    cached: float | None = None  # None: as prompt tokens
    generated: float = 0.0
    image: float = 0.0  # each
    hour: float = 0.0  # of wall time


@dataclass(frozen=True, slots=True)
class Prices:
    currency: str = ""
    models: Mapping[str, Price] = field(default_factory=dict)

    def of(self, model: str) -> Price | None:
        """The price of a model: by its own name, else by the longest pattern that fits."""
        fitting = [name for name in self.models if name == model or fnmatchcase(model, name)]
        return self.models[max(fitting, key=lambda name: (name == model, len(name)))] if fitting else None


def read_prices(file: Path) -> Prices:
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the price table {file}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{file} is not valid TOML: {error}") from None
    if unknown := sorted(set(found) - {"currency", "models"}):
        raise ConfigError(f'{file}: there is no {unknown[0]!r}; write currency and [models."NAME"]')
    currency, models = found.get("currency"), found.get("models")
    if not isinstance(currency, str) or not currency:
        raise ConfigError(f'{file}: say in which currency prices are: currency = "USD"')
    if not isinstance(models, dict) or not models:
        raise ConfigError(f'{file}: name the price of at least one model: [models."NAME"]')
    return Prices(currency, {name: _price(file, name, table) for name, table in models.items()})


def _price(file: Path, model: str, table: Any) -> Price:
    if not isinstance(table, dict) or set(table) - set(_KINDS):
        raise ConfigError(f"{file}: models.{model!r} takes {', '.join(_KINDS)}, found {table!r}"[:300])
    for kind, price in table.items():
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < float("inf"):
            raise ConfigError(f"{file}: {kind} of {model!r} is {price!r}; a price is a number that is not negative")
    return Price(**{kind: float(price) for kind, price in table.items()})


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a whole run. Tokens are None where the policy reported none (a scripted one, a server that does not count)."""

    solved: int
    steps: int
    seconds: float  # wall time in which at least one episode was played
    prompt_tokens: int | None
    cached_tokens: int | None  # of the prompt tokens
    generated_tokens: int | None
    images: int
    money: float | None = None
    currency: str = ""
    no_money: str = ""  # why there is no sum of money, where prices were given

    def per_solved(self, what: str) -> float | None:
        """`what` is steps, seconds, prompt_tokens, ... or money. None: nothing was solved, or it is not known."""
        spent = getattr(self, what)
        return None if spent is None or not self.solved else spent / self.solved

    def to_json(self) -> dict[str, Any]:
        kinds = ("steps", "seconds", "prompt_tokens", "generated_tokens", "images", "money")
        return asdict(self) | {"per_solved": {kind: self.per_solved(kind) for kind in kinds}}


def cost_of(rows: Iterable[Mapping[str, Any]], manifest: Mapping[str, Any], prices: Prices | None = None) -> Cost:
    rows = list(rows)
    prompt, cached, generated = (
        sum(row[key] for row in rows) for key in ("prompt_tokens", "cached_tokens", "generated_tokens")
    )
    known = bool(prompt or generated)
    cost = Cost(
        solved=sum(verdict(row) is True for row in rows),
        steps=sum(row["steps"] for row in rows),
        seconds=_covered((row["started_at"], row["started_at"] + row["seconds"]) for row in rows),
        images=sum(row["images_sent"] for row in rows),
        prompt_tokens=prompt if known else None,
        cached_tokens=cached if known else None,
        generated_tokens=generated if known else None,
    )
    return cost if prices is None else _priced(cost, prices, policy_name(manifest))


def policy_name(manifest: Mapping[str, Any]) -> str:
    """The model or script that played, as its manifest calls it."""
    policy = manifest.get("config", {}).get("policy", {})
    return str(policy.get("model") or policy.get("script") or policy.get("policy") or "policy")


def _priced(cost: Cost, prices: Prices, model: str) -> Cost:
    values = asdict(cost) | {"currency": prices.currency}
    price = prices.of(model)
    if price is None:
        return Cost(**values | {"no_money": f"the price table does not have {model}"})
    by_token = price.prompt or price.cached or price.generated
    if by_token and (cost.prompt_tokens is None or cost.cached_tokens is None or cost.generated_tokens is None):
        return Cost(**values | {"no_money": "the policy reported no tokens"})
    prompt, cached, generated = cost.prompt_tokens or 0, cost.cached_tokens or 0, cost.generated_tokens or 0
    for_cached = price.prompt if price.cached is None else price.cached
    tokens = (prompt - cached) * price.prompt + cached * for_cached + generated * price.generated
    money = tokens / 1e6 + cost.images * price.image + cost.seconds / 3600 * price.hour
    return Cost(**values | {"money": money})


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """How much time lies in at least one span: episodes run side by side, and a run may be taken up days later."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
