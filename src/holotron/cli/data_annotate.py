"""`holotron data annotate`: labels by a model, with a confidence, and a page to review them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holotron.cli.agent_options import with_policy
from holotron.cli.counting import counting

if TYPE_CHECKING:
    from holotron.agent.policies.registry import PolicyRequest
    from holotron.annotate.annotator import AnnotationSettings, AnnotationSummary
    from holotron.annotate.items import Kind, Wishes


@with_policy(only=("model", "dialect", "frame", "max_tokens", "constrained", "thinking", "device"))
def annotate(
    source: Annotated[Path, typer.Argument(help="A folder of screenshots, or a run directory (rollout, eval, run).")],
    out: Annotated[Path, typer.Argument(help="Folder for the labels; an interrupted run there is resumed.")],
    who: PolicyRequest,
    label: Annotated[str, typer.Option(help="point, box, caption or judgement.")] = "point",
    second: Annotated[str | None, typer.Option(help="A second model; its agreement is the confidence.")] = None,
    instruction: Annotated[
        list[str] | None, typer.Option(help="What to point at, on every picture; repeatable.")
    ] = None,
    instructions: Annotated[
        Path | None, typer.Option(help="A file: one a line, or JSON lines with image and instruction.")
    ] = None,
    generate: Annotated[
        int, typer.Option(min=0, help="So many instructions a picture, by the model, where none are given.")
    ] = 0,
    samples: Annotated[int, typer.Option(min=1, help="Answers of each model; several give a confidence.")] = 5,
    radius: Annotated[float, typer.Option(min=0, help="Clicks so near agree, CSS pixels.")] = 14.0,
    overlap: Annotated[float, typer.Option(min=0, max=1, help="Boxes that overlap so much (IoU) agree.")] = 0.5,
    parallel: Annotated[int, typer.Option(min=1, help="Questions at a time.")] = 8,
    review: Annotated[int, typer.Option(min=0, help="Labels on the review page; 0 for no page.")] = 300,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be asked, and ask nothing.")] = False,
    temperature: Annotated[float, typer.Option(min=0.0, help="Of several answers.", rich_help_panel="Policy")] = 0.7,
    seed: Annotated[int, typer.Option(help="Of the sampling.", rich_help_panel="Policy")] = 0,
) -> None:
    """Let a model label screenshots or recorded episodes.

    Each question is asked several times; the share of answers that agree is the label's confidence. With --second the
    confidence is how far another model agrees. Labels are Parquet (OUT/labels/*.parquet), and OUT/review.html shows
    them, the least certain first, to accept or reject. Stop it at any time: the same command goes on.

    Where to click, for your own instructions:

      holotron data annotate shots labels --policy holotron-mini --instruction "Click the search button."

    Instructions thought up by the model, checked by a second one behind a server:

      holotron data annotate shots labels --policy http://localhost:8000/v1 --generate 5 --second holotron-mini

    Captions for every step, and a judgement for every episode, of a recorded run:

      holotron data annotate runs/eval captions --policy http://localhost:8000/v1 --label caption

      holotron data annotate runs/eval verdicts --policy http://localhost:8000/v1 --label judgement
    """
    from holotron.annotate.agreement import Rule
    from holotron.annotate.annotator import AnnotationSettings
    from holotron.annotate.items import Wishes, check_kind, read_wishes
    from holotron.errors import ConfigError

    kind = check_kind(label)
    wishes = read_wishes(instructions) if instructions is not None else Wishes()
    wishes = Wishes((*(instruction or ()), *wishes.everywhere), wishes.by_image)
    settings = AnnotationSettings(samples, temperature, seed, generate, Rule(radius, overlap), parallel)
    if not source.exists():
        raise ConfigError(f"{source} does not exist")
    asked = [replace(who, actions=("click", "answer"))]
    if second is not None:
        asked.append(replace(asked[0], spec=second, model=None))
    if dry_run:
        _tell(source, out, kind, settings, wishes, asked)
        return
    asyncio.run(_annotate(source, out, kind, settings, wishes, asked))
    if review:
        from holotron.annotate.review import write_review

        path, shown = write_review(out, count=review)
        print(f"look at {path}: {shown} labels, the least certain first")


def _tell(
    source: Path, out: Path, kind: Kind, settings: AnnotationSettings, wishes: Wishes, requests: Sequence[PolicyRequest]
) -> None:
    from holotron.annotate.annotator import count_items

    items, pictures = count_items(source, kind, wishes, settings)
    more = (
        f" (at most: {settings.generate} generated instructions a picture)" if settings.generate and not wishes else ""
    )
    print(f"{source}: {pictures} pictures, {items} {kind} labels{more}")
    print(f"asked of {' and '.join(request.spec for request in requests)}, {settings.samples} answers each")
    print(f"{items * settings.samples * len(requests)} answers in all; labels would go to {out}")


async def _annotate(
    source: Path, out: Path, kind: Kind, settings: AnnotationSettings, wishes: Wishes, requests: Sequence[PolicyRequest]
) -> None:
    from holotron.agent.policies.base import Policy
    from holotron.agent.policies.registry import make_policy
    from holotron.annotate.annotator import annotate as work
    from holotron.annotate.annotator import count_items
    from holotron.errors import ConfigError

    items, _ = count_items(source, kind, wishes, settings)
    policies: list[Policy] = []
    try:
        for request in requests:
            policies.append(await make_policy(request))
            if not hasattr(policies[-1], "sample"):
                raise ConfigError(
                    f"{request.spec!r} is no model; give a folder, a preset, a hub id or a server's address"
                )
        with counting(items, "labels") as show:

            def shown(report: AnnotationSummary) -> None:
                show(report.kept + report.labelled, report.labels_per_second)

            report = await work(source, kind, policies, out, settings, wishes, shown)  # type: ignore[arg-type]
    finally:
        for policy in policies:
            await policy.close()
    for name, why in report.broken.items():
        print(f"skipped {name}: {why}")
    rate = f", {report.labels_per_second:.2f} labels/s" if report.labelled else ""
    print(f"{out}: {report.kept + report.labelled} labels, {report.labelled} of them new{rate}")
    if report.unreadable:
        print(f"{report.unreadable} have no answer that could be read; the column remark says why")
