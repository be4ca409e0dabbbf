"""Options of the commands that judge: which model says whether a task was done, by which protocol.

@with_judge(required=True)                     # adds --judge, --judge-model, --protocol ...; hands over a JudgeOptions
def judge(run: Path, by: JudgeOptions, ...): ...
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from holotron.cli.agent_options import replace_parameter

if TYPE_CHECKING:
    from holotron.evals.judging.cases import Judge
    from holotron.evals.judging.run import Judged

C = TypeVar("C", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    judge: str
    judge_model: str | None
    protocol: str
    screenshots: int | None
    threshold: int | None
    judge_temperature: str
    judge_tokens: int | None
    judge_seconds: float
    judge_requests: int
    judge_price: str | None
    calibration: Path | None

    def check(self) -> None:
        """Before anything is played or asked: an error at the end of a long run is a dear one."""
        from holotron.errors import ConfigError

        self.make_protocol()
        self.temperature()
        self.money(0, 0)
        if self.calibration is not None and not self.calibration.is_file():
            raise ConfigError(f"there is no file {self.calibration}; `holotron judge calibrate --json` writes one")

    def make_protocol(self) -> Judge:
        from holotron.evals.judging.cases import JudgeRequest, protocols

        return protocols.get(self.protocol)(JudgeRequest(self.screenshots, self.threshold))

    def temperature(self) -> float | None:
        from holotron.errors import ConfigError

        if self.judge_temperature == "default":
            return None
        try:
            return float(self.judge_temperature)
        except ValueError:
            raise ConfigError(f"--judge-temperature is a number or `default`, not {self.judge_temperature!r}") from None

    def money(self, prompt: int, generated: int) -> float | None:
        """By the price for a million tokens of each kind."""
        from holotron.errors import ConfigError

        if self.judge_price is None:
            return None
        try:
            of_prompt, of_generated = map(float, self.judge_price.split(","))
        except ValueError:
            raise ConfigError(
                f"--judge-price is two numbers with a comma (prompt,generated), not {self.judge_price!r}"
            ) from None
        return (prompt * of_prompt + generated * of_generated) / 1e6


def _option(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="Judge", **more)


_JUDGE = "Address of an OpenAI-compatible server with a vision model, ending in /v1."
_OPTIONS: dict[str, tuple[Any, Any]] = {
    "judge_model": (Annotated[str | None, _option(help="Which of its models.", show_default="its only one")], None),
    "protocol": (
        Annotated[str, _option(help="webvoyager, three-stage (after WebJudge), or your own as module:function.")],
        "webvoyager",
    ),
    "screenshots": (
        Annotated[
            int | None,
            _option(min=1, help="The last so many are shown.", show_default="webvoyager: 15; three-stage: all"),
        ],
        None,
    ),
    "threshold": (
        Annotated[int | None, _option(min=1, max=5, help="three-stage: keep screenshots scored so.", show_default="3")],
        None,
    ),
    "judge_temperature": (Annotated[str, _option(help="A number, or `default`: as the model has it.")], "0"),
    "judge_tokens": (
        Annotated[
            int | None,
            _option(min=1, help="Of one reply; more for models that reason.", show_default="protocol's, 1000 or 1500"),
        ],
        None,
    ),
    "judge_seconds": (Annotated[float, _option(min=0.1, help="For one request, before it is tried again.")], 180.0),
    "judge_requests": (Annotated[int, _option(min=1, help="Requests at once.")], 8),
    "judge_price": (
        Annotated[
            str | None, _option(help="Of a million tokens, prompt,generated: 2.5,10. Says what judging cost.")
        ],
        None,
    ),
    "calibration": (
        Annotated[
            Path | None,
            _option(help="What `holotron judge calibrate --json` wrote of this judge: also estimate the true rate."),
        ],
        None,
    ),
}  # fmt: skip


def with_judge(*, required: bool) -> Callable[[C], C]:
    """The command's parameter `by` is made of these options; None where no judge is asked for."""
    if required:
        address: Any = (Annotated[str, _option(help=_JUDGE)], inspect.Parameter.empty)
    else:
        address = (Annotated[str | None, _option(help=f"Judge at the end. {_JUDGE}")], None)

    def gather(values: dict[str, Any]) -> Any:
        return JudgeOptions(**values) if values["judge"] else None

    return lambda command: replace_parameter(command, "by", {"judge": address, **_OPTIONS}, gather)


def judge_run(run: Path, by: JudgeOptions, *, out: Path | None = None, again: bool = False) -> Judged:
    """Judge what is recorded there, with a bar, and print what came out."""
    from holotron.cli.counting import counting
    from holotron.evals.judging.model import JudgeModel, only_model
    from holotron.evals.judging.run import JudgeProgress, judge
    from holotron.evals.judging.sources import read_source

    by.check()
    protocol, source = by.make_protocol(), read_source(run)

    async def main() -> Judged:
        name = by.judge_model or await only_model(by.judge)
        model = JudgeModel(
            by.judge,
            name,
            temperature=by.temperature(),
            max_tokens=by.judge_tokens,
            seconds=by.judge_seconds,
            parallel=by.judge_requests,
        )
        with counting(len(source.cases), "cases") as show:

            def move(progress: JudgeProgress) -> None:
                show(progress.done, progress.per_second)

            async with model:
                return await judge(source, protocol, model, out=out, again=again, on_progress=move)

    judged = asyncio.run(main())
    show_judged(judged, by)
    return judged


def show_judged(judged: Judged, by: JudgeOptions) -> None:
    figures, overall = judged.figures, judged.figures.overall
    for site, rate in figures.sites.items():
        print(f"{site:28} {rate}" + (f"; {rate.undecided} undecided" if rate.undecided else ""))
    print(f"{'judged success':28} {overall}")
    if overall.undecided:
        low, high = overall.bounds
        print(
            f"{'undecided':28} {overall.undecided} of {overall.cases} (with them: {100 * low:.1f} – {100 * high:.1f} %)"
        )
    print(f"{'decided by':28} {', '.join(f'{how} {count}' for how, count in sorted(figures.decided.items()))}")
    if by.calibration is not None:
        from holotron.evals.judging.correction import corrected, read_error_rates

        config = judged.manifest["config"]
        likely = corrected(overall, read_error_rates(by.calibration, f"{config['protocol']}, {config['model']}"))
        print(f"{'likely true rate':28} {likely or '– (this judge tells nothing apart)'}")
    cost = f"{figures.requests} requests, {figures.prompt_tokens:,} + {figures.generated_tokens:,} tokens"
    if (money := by.money(figures.prompt_tokens, figures.generated_tokens)) is not None:
        cost += f", {money:.2f} in money"
        cost += f" ({money / overall.successes:.3f} per success)" if overall.successes else ""
    print(f"{'cost':28} {cost}")
    print(f"verdicts: {judged.folder}")
