"""Pictures, a labeller in process, and a program that labels slowly enough to be killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from PIL import Image, ImageDraw

from holotron.agent.dialects import make_dialect
from holotron.agent.history import parse_history
from holotron.agent.policies.engine import EnginePolicy
from holotron.annotate.annotator import AnnotationSettings, annotate
from holotron.annotate.items import Wishes
from holotron.engine.api import EngineConfig, SamplingParams
from holotron.engine.engine import Engine
from holotron.model.loading import load_model

WISHES = Wishes(("Click the button.", "Open the menu."))


def draw_pictures(folder: Path, count: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        image = Image.new("RGB", (160, 120), (240, 240, 250 - 10 * number))
        ImageDraw.Draw(image).rectangle((20 + 5 * number, 30, 70 + 5 * number, 60), fill=(30, 90, 200))
        image.save(folder / f"shot{number}.png")


def labeller(engine: Engine, **options: object) -> EnginePolicy:
    dialect = make_dialect("compact", actions=["click"])
    sampling = SamplingParams(max_tokens=int(options.pop("max_tokens", 64)))  # type: ignore[call-overload]
    return EnginePolicy(engine, dialect, parse_history("append"), name="tiny", sampling=sampling)


def tiny_engine() -> Engine:
    model, processor = load_model("tiny", device="cpu")
    return Engine(model, processor, EngineConfig())


def main(source: Path, out: Path) -> None:
    with tiny_engine() as engine:
        work = annotate(
            source, "point", [labeller(engine)], out, AnnotationSettings(samples=2, parallel=1), WISHES,
            lambda report: print(report.labelled, flush=True),
        )  # fmt: skip
        asyncio.run(work)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
