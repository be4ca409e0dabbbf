"""`holotron data`: labelled pages to learn from, made in real browsers, painted, or labelled by a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holotron.cli.counting import counting
from holotron.cli.data_annotate import annotate
from holotron.cli.data_verify import verify
from holotron.errors import ConfigError

if TYPE_CHECKING:
    from holotron.data.pages.make import Size
    from holotron.data.synth import SynthSummary

app = typer.Typer(no_args_is_help=True, help="Generate labelled pages; let models label screenshots.")
app.command()(annotate)
app.command()(verify)

Out = Annotated[Path, typer.Argument(help="Folder for the pages; what is there already is kept and completed.")]
Sizes = Annotated[list[str] | None, typer.Option("--size", help="Page size as 160x160@2; repeatable.")]
Processes = Annotated[int, typer.Option(min=1, help="Browsers at work; one for each core is a good number.")]
Fonts = Annotated[list[Path] | None, typer.Option(help="Folder of .ttf and .otf files.", show_default="the system's")]
Sheet = Annotated[int, typer.Option(min=0, help="Screenshots on the contact sheet; 0 for none.")]


@app.command()
def synth(
    out: Out,
    pages: Annotated[int, typer.Option(min=1, help="How many.")] = 1000,
    seed: Annotated[int, typer.Option(help="Another seed gives other pages.")] = 0,
    size: Sizes = None,
    episodes: Annotated[float, typer.Option(min=0, max=1, help="Share of pages that are short episodes.")] = 0.15,
    processes: Processes = 2,
    sheet: Sheet = 60,
) -> None:
    """Real HTML pages in Chromium: exact boxes, every character, instructions, short episodes.

    holotron data synth data/pages --pages 2000 --size 1280x720@1 --size 390x844@1.5
    """
    from holotron.data.pages.make import SIZES, Recipe
    from holotron.data.synth import synthesise

    recipe = Recipe(sizes=_sizes(size) or SIZES, episodes=episodes)
    with counting(pages, "pages") as show:
        report = synthesise(out, recipe, seed=seed, pages=pages, processes=processes, progress=_shown(show))
    print(f"{out}: {report.kept + report.pages} pages, {report.pages} of them new")
    if report.pages:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(report.samples.items()))
        print(f"new: {report.screenshots} screenshots, {report.episodes} episodes; samples: {kinds}")
        print(f"{report.pages_per_second:.1f} pages/s, {report.bytes / report.screenshots / 1000:.1f} KB a screenshot")
    _write_sheet(out, sheet)


@app.command()
def heldout(
    out: Out,
    pages: Annotated[int | None, typer.Option(min=1, help="How many.", show_default="400, of sites 240")] = None,
    size: Sizes = None,
    processes: Processes = 2,
    sheet: Sheet = 60,
    sites: Annotated[bool, typer.Option("--sites", help="Screens of web apps at 1280x720 instead.")] = False,
) -> None:
    """The frozen localisation sets: themes, fonts and layouts that are never trained on, small targets.

    holotron data heldout data/heldout
    holotron data heldout data/heldout-sites --sites
    holotron eval localisation data/heldout --policy holotron-mini
    """
    from holotron.data.heldout import SIZES, make_heldout

    if sites:
        if size:
            raise ConfigError("--sites has a size of its own, 1280x720")
        _site_pages(out, pages or 240, processes)
        return
    pages = pages or 400
    with counting(pages, "pages") as show:
        sizes = _sizes(size) or SIZES
        made = make_heldout(out, pages=pages, sizes=sizes, processes=processes, progress=_shown(show))
    print(f"{out}: {made.samples} targets on {made.pages} pages, median target {made.median_area:.2%} of the page")
    print(f"sha256 {made.hash} (also in heldout.json)")
    _write_sheet(out, sheet)


def _site_pages(out: Path, pages: int, sessions: int) -> None:
    from holotron.suites.site_pages import make_site_pages

    with counting(pages, "pages") as show:
        made = make_site_pages(out, pages=pages, sessions=sessions, progress=lambda done: show(done, 0.0))
    print(f"{out}: {made.samples} targets on {made.pages} pages, median target {made.median_area:.3%} of the page")
    print(f"sha256 {made.hash} (also in heldout.json)")


@app.command()
def drawn(
    out: Out,
    pages: Annotated[int, typer.Option(min=1, help="How many.")] = 1000,
    seed: Annotated[int, typer.Option(help="Another seed gives other pages.")] = 0,
    size: Sizes = None,
    fonts: Fonts = None,
    sheet: Sheet = 60,
) -> None:
    """Painted pages, to look at or to store. Trainers paint their own as they go.

    holotron data drawn data/drawn --pages 100
    """
    from holotron.data.drawn import SIZES, Painter, store_drawn
    from holotron.data.fonts import font_files

    painter = Painter(sizes=_sizes(size) or SIZES, fonts=font_files(fonts) if fonts else None)
    rate = store_drawn(out, painter, seed=seed, pages=pages)
    print(f"{out}: {pages} pages, painted at {rate:.0f} pages/s")
    _write_sheet(out, sheet)


@app.command(name="sheet")
def sheet_(
    pages: Annotated[Path, typer.Argument(help="A folder of pages, or one shard.")],
    out: Annotated[Path, typer.Argument(help="The HTML file to write.")],
    count: Annotated[int, typer.Option(min=1, help="Screenshots to show.")] = 60,
) -> None:
    """One HTML file that shows pages with their labels and samples.

    holotron data sheet data/pages sheet.html
    """
    from holotron.data.contact import write_contact_sheet

    print(f"{out}: {write_contact_sheet(pages, out, count=count)} screenshots")


@app.command(name="hash")
def hash_(pages: Annotated[Path, typer.Argument(help="A folder of pages, or one shard.")]) -> None:
    """The SHA-256 of what pages show and say, whatever their compression.

    holotron data hash data/heldout
    """
    from holotron.data.shards import content_hash

    print(content_hash(pages))


def _sizes(texts: list[str] | None) -> tuple[Size, ...]:
    from holotron.data.pages.make import Size

    return tuple(Size.parse(text) for text in texts or ())


def _write_sheet(pages: Path, count: int) -> None:
    from holotron.data.contact import write_contact_sheet

    if count:
        write_contact_sheet(pages, pages / "index.html", count=count)
        print(f"look at {pages / 'index.html'}")


def _shown(show: Callable[[int, float], None]) -> Callable[[SynthSummary], None]:
    return lambda report: show(report.kept + report.pages, report.pages_per_second)
