"""Which grounding benchmarks there are, where they are published, and what their publications break results down by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from holotron.errors import ConfigError, InputError
from holotron.suites.grounding import formats
from holotron.suites.grounding.items import GroundingItem
from holotron.suites.navigation.files import HUB, folder_from_hub


@dataclass(frozen=True, slots=True)
class Benchmark:
    name: str
    about: str
    load: Callable[[Path], Iterator[GroundingItem]]
    items: int  # as published
    breakdowns: tuple[tuple[str, ...], ...]  # each a set of tags whose combinations are counted apart
    source: str  # where people get it
    on_hub: bool = True  # `source` is a data set on the Hugging Face hub, in the notation that is read here


BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark(
            "screenspot",
            "ScreenSpot: desktop, mobile and web, texts and icons",
            partial(formats.screenspot, suffix=""),
            1272,
            (("platform", "ui_type"), ("platform",), ("ui_type",)),
            "njucckevin/SeeClick",
            on_hub=False,
        ),
        Benchmark(
            "screenspot-v2",
            "ScreenSpot-v2: the same with corrected labels",
            partial(formats.screenspot, suffix="_v2"),
            1272,
            (("platform", "ui_type"), ("platform",), ("ui_type",)),
            "OS-Copilot/ScreenSpot-v2",
        ),
        Benchmark(
            "screenspot-pro",
            "ScreenSpot-Pro: professional applications in high resolution",
            formats.screenspot_pro,
            1581,
            (("group", "ui_type"), ("group",), ("platform",), ("application",), ("ui_type",)),
            "likaixin/ScreenSpot-Pro",
        ),
        Benchmark(
            "osworld-g",
            "OSWorld-G: boxes, polygons and refusals",
            formats.osworld_g,
            564,
            (("box_type",), ("bucket:text_matching",), ("bucket:element_recognition",),
             ("bucket:layout_understanding",), ("bucket:fine_grained_manipulation",)),
            "xlang-ai/OSWorld-G",
            on_hub=False,
        ),
        Benchmark(
            "osworld-g-refined",
            "OSWorld-G with the refined instructions",
            partial(formats.osworld_g, refined=True),
            564,
            (("box_type",), ("bucket:text_matching",), ("bucket:element_recognition",),
             ("bucket:layout_understanding",), ("bucket:fine_grained_manipulation",)),
            "xlang-ai/OSWorld-G",
            on_hub=False,
        ),
        Benchmark("webclick", "WebClick: clicks of agents and people on web pages", formats.webclick, 1639,
                  (("bucket",),), "Hcompany/WebClick"),
        Benchmark("groundui-1k", "GroundUI-1K: web, desktop and mobile", formats.groundui, 1000,
                  (("platform",), ("source",)), "agent-studio/GroundUI-1K"),
        Benchmark("showdown-clicks", "Showdown-clicks: desktop clicks of people", formats.showdown, 557,
                  (), "generalagents/showdown-clicks"),
    )
}  # fmt: skip


def folder_of(benchmark: Benchmark, given: str) -> Path:
    """`given` is the folder itself, or the word `hub`."""
    if given != HUB:
        return Path(given).expanduser()
    if not benchmark.on_hub:
        raise ConfigError(
            f"{benchmark.name} is not published on the hub in the notation that is read here; "
            f"get it from {benchmark.source} and name its folder"
        )
    return folder_from_hub(benchmark.source)


@lru_cache(maxsize=2)
def load(name: str, folder: Path) -> dict[str, GroundingItem]:
    """All items of a benchmark by id."""
    benchmark = BENCHMARKS[name]
    if not folder.is_dir():
        raise ConfigError(
            f"there is no folder {folder}; get {benchmark.name} from {benchmark.source} and name its folder"
        )
    items: dict[str, GroundingItem] = {}
    try:
        for item in benchmark.load(folder):
            if item.id in items:
                raise InputError(f"{folder}: the id {item.id!r} occurs twice")
            items[item.id] = item
    except formats.MissingFile as error:
        raise InputError(f"{error}; {name} is read as {benchmark.source} publishes it") from None
    if not items:
        raise InputError(f"{folder} holds no items of {name}")
    return items
