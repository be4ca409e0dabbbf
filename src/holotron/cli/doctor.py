"""`holotron doctor`: what works on this machine, proved rather than assumed."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from holotron.errors import HolotronError

app = typer.Typer()

Verdict = Literal["ok", "warning", "failed"]


@dataclass(frozen=True)
class Finding:
    what: str
    verdict: Verdict
    detail: str


@app.command()
def doctor(
    model: Annotated[str | None, typer.Option(help="Also load this model and run it once.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One window size and scale factor instead of sixteen.")
    ] = False,
) -> None:
    """Check browser, isolation, clicks, fonts, GPU, model and disk. Exit code 1 when something needed does not work.

    holotron doctor --quick
    holotron doctor --model runs/mine/model
    """
    from rich.console import Console
    from rich.markup import escape

    console = Console()
    checks: list[tuple[str, Callable[[], Iterable[Finding]]]] = [
        ("system", _system),
        ("browser", _browser),
        ("isolation", _isolation),
        ("clicks: minutes, seconds with --quick" if not quick else "clicks", lambda: _clicks(quick)),
        ("model", lambda: _model(model)),
    ]
    colours = {"ok": "green", "warning": "yellow", "failed": "red"}
    failed = False

    def show(finding: Finding) -> None:
        nonlocal failed
        failed |= finding.verdict == "failed"
        verdict = f"[{colours[finding.verdict]}]{finding.verdict:8}[/]"
        # pip install 'holotron[agent]' is no markup
        console.print(f"{verdict} {finding.what:18} {escape(finding.detail)}", soft_wrap=True)

    for name, check in checks:
        with console.status(f"checking {name}"):
            try:
                for finding in check():
                    show(finding)
            except HolotronError as error:
                show(Finding(name.partition(":")[0], "failed", str(error)))
    if failed:
        raise typer.Exit(1)


def _system() -> list[Finding]:
    import torch

    found = [
        Finding("python", "ok", f"{platform.python_version()}, torch {torch.__version__}, {os.cpu_count()} cores"),
    ]
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        found.append(Finding("gpu", "ok", f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB"))
    else:
        found.append(Finding("gpu", "warning", "none: small models run on the CPU, the 12B needs a GPU"))
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    enough = free >= 5
    found.append(Finding("disk", "ok" if enough else "warning", f"{free:.0f} GiB free here"))
    return found


def _browser() -> list[Finding]:
    from holotron.envs.doctor import check_browser

    browser = asyncio.run(check_browser())
    found = [Finding("browser", "ok", f"{browser.version} in {browser.start_seconds:.2f} s, {browser.executable}")]
    if browser.missing_glyphs:
        missing = ", ".join(browser.missing_glyphs)
        advice = "on Debian: apt-get install fonts-noto-cjk fonts-noto-color-emoji"
        found.append(Finding("fonts", "warning", f"no glyphs for {missing} ({advice})"))
    else:
        found.append(Finding("fonts", "ok", "all sampled scripts are drawn"))
    return found


def _isolation() -> list[Finding]:
    """What stands between a page and this machine. It works without, but somebody should know."""
    from holotron.envs.isolation_check import check_isolation

    walls = asyncio.run(check_isolation())
    return [Finding(f"isolation, {wall.name}", "ok" if wall.stands else "warning", wall.detail) for wall in walls]


def _clicks(quick: bool) -> Iterator[Finding]:
    """The whole chain for every coordinate frame: screenshot, the model's numbers, the click, where it arrived."""
    from holotron.agent.coordinates import Frame, Screen, point_to_model, point_to_page
    from holotron.envs.doctor import SCALES, VIEWPORTS, Point, click_accuracy, image_to_view
    from holotron.types import Observation

    for frame in Frame:

        def through(point: Point, seen: Observation, frame: Frame = frame) -> Point:
            """What a policy would write for this pixel, read back as the loop reads it."""
            screen = Screen.of(seen)
            spoken = point_to_model(frame, screen, *image_to_view(point, seen))
            return point_to_page(frame, screen, *spoken)

        checks = asyncio.run(
            click_accuracy(VIEWPORTS[1:2] if quick else VIEWPORTS, SCALES[1:2] if quick else SCALES, convert=through)
        )
        worst = max(checks, key=lambda check: check.worst)
        where = f"{worst.viewport[0]}x{worst.viewport[1]} at {worst.scale:g}x"
        verdict: Verdict = "ok" if all(check.ok for check in checks) else "failed"
        clicks = sum(check.clicks for check in checks)
        yield Finding(f"clicks, {frame}", verdict, f"{clicks} clicks, worst {worst.worst:.2f} px off ({where})")


def _model(source: str | None) -> list[Finding]:
    import time

    import torch

    from holotron.model.bundled import BUNDLED
    from holotron.model.loading import load_model

    source = source or BUNDLED
    began = time.monotonic()
    model, processor = load_model(source)
    loaded = time.monotonic() - began
    prompt = processor.render([{"role": "user", "content": "hello"}])
    with torch.inference_mode():
        logits = model(torch.tensor(prompt.ids, device=model.device), last_only=True)
    if not bool(torch.isfinite(logits).all()):
        return [Finding("model", "failed", f"{source} answers with numbers that are not finite")]
    size = sum(p.numel() for p in model.parameters())
    return [
        Finding("model", "ok", f"{source}: {size / 1e6:,.1f} M parameters, loaded in {loaded:.1f} s on {model.device}")
    ]
