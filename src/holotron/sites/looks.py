"""How apps can look: themes (colours, type, shapes) and layouts (page skeleton, lists, forms).

Each list has a training and a held-out side. Nothing is ever trained on the held-out side; `HELD_OUT_HASH` freezes it:
a test recomputes the hash, so a held-out look cannot be changed or traded by accident. Fonts that the synthetic pages
hold out (`holotron.data.fonts`) appear on the held-out side only.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Literal

Skeleton = Literal["topbar", "storefront", "sidebar", "tabs", "rail", "masthead"]
Collection = Literal["cards", "rows", "table", "tiles"]
Form = Literal["stacked", "columns", "beside"]
PhoneMenu = Literal["drawer", "strip", "dock"]
Button = Literal["solid", "pill", "outline", "soft", "upper"]


@dataclass(frozen=True, slots=True)
class Theme:
    name: str
    font: str
    heading: str  # font of headings
    ground: str  # behind everything
    surface: str  # cards, bars, fields
    ink: str
    faint: str  # less important text
    line: str
    accent: str  # buttons, links
    on_accent: str
    bar: str  # the header's colour
    on_bar: str
    radius: int  # CSS pixels
    shadow: str
    button: Button
    held_out: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    name: str
    skeleton: Skeleton
    collection: Collection
    form: Form
    phone_menu: PhoneMenu
    held_out: bool = False


_SANS = "'Liberation Sans', Arimo, Arial, Helvetica, sans-serif"
_WIDE = "'DejaVu Sans', Verdana, sans-serif"
_SERIF = "'Liberation Serif', 'Times New Roman', serif"
_CONDENSED = "'DejaVu Sans Condensed', 'DejaVu Sans', sans-serif"
_MONO = "'DejaVu Sans Mono', monospace"
_NARROW = "'Liberation Sans Narrow', 'Arial Narrow', sans-serif"  # held out
_SLAB = "'DejaVu Serif', Georgia, serif"  # held out

_SOFT = "0 1px 2px #0001, 0 2px 8px #0001"
_DEEP = "0 2px 4px #0002, 0 6px 18px #0002"

# fmt: off
THEMES = (
    Theme("porcelain", _SANS, _SANS, "#f6f7f9", "#ffffff", "#1c2430", "#667085", "#dfe3e8", "#2563eb", "#ffffff",
          "#ffffff", "#1c2430", 8, _SOFT, "solid"),
    Theme("linen", _SANS, _SERIF, "#faf6ef", "#fffdf9", "#2e2a25", "#7b7166", "#e6dccb", "#9a5b2f", "#ffffff",
          "#fffdf9", "#2e2a25", 4, "none", "solid"),
    Theme("harbour", _WIDE, _WIDE, "#eef3f7", "#ffffff", "#12263a", "#5b7083", "#cfdbe5", "#0b7a75", "#ffffff",
          "#12263a", "#ffffff", 10, _SOFT, "pill"),
    Theme("graphite", _SANS, _SANS, "#15181d", "#1f242b", "#e8ebef", "#9aa4b1", "#323a45", "#5aa2ff", "#0b1220",
          "#1b2026", "#e8ebef", 8, "none", "solid"),
    Theme("moss", _SANS, _SANS, "#f3f6f1", "#ffffff", "#1f2b20", "#64735f", "#d5dfd0", "#2f7d3b", "#ffffff",
          "#2f5d36", "#ffffff", 6, _SOFT, "soft"),
    Theme("ember", _CONDENSED, _CONDENSED, "#fff8f5", "#ffffff", "#2b1d18", "#84695f", "#f0d9cf", "#d9480f", "#ffffff",
          "#ffffff", "#2b1d18", 12, _DEEP, "pill"),
    Theme("ledger", _SERIF, _SERIF, "#ffffff", "#ffffff", "#111111", "#555555", "#c9c9c9", "#0b4f9c", "#ffffff",
          "#f2f2f2", "#111111", 0, "none", "outline"),
    Theme("orchid", _SANS, _SANS, "#f8f5fb", "#ffffff", "#251a33", "#756a86", "#e2d8ee", "#7c3aed", "#ffffff",
          "#4c1d95", "#ffffff", 14, _DEEP, "solid"),
    Theme("midnight", _WIDE, _SANS, "#0c1424", "#131f36", "#e3eafc", "#90a0c2", "#263557", "#f2b441", "#1a1300",
          "#0f1a30", "#e3eafc", 6, "none", "upper"),
    Theme("signal", _SANS, _WIDE, "#ffffff", "#ffffff", "#0d0d0d", "#6b6b6b", "#e2e2e2", "#111111", "#ffffff",
          "#ffd60a", "#0d0d0d", 2, "none", "upper"),
    Theme("terminal", _MONO, _MONO, "#f4f4f0", "#fcfcf9", "#20221f", "#6d7069", "#d8d9d2", "#1d6f42", "#ffffff",
          "#20221f", "#f4f4f0", 3, "none", "outline"),
    Theme("coral", _SANS, _SANS, "#fdf4f4", "#ffffff", "#33181c", "#8b6369", "#f1d5d8", "#e11d48", "#ffffff",
          "#ffffff", "#e11d48", 18, _SOFT, "soft"),
    Theme("atlas", _NARROW, _NARROW, "#eef0f4", "#ffffff", "#202637", "#646d85", "#d3d8e4", "#3949ab", "#ffffff",
          "#303f9f", "#ffffff", 5, _SOFT, "solid", held_out=True),
    Theme("gazette", _SLAB, _SLAB, "#f7f3ea", "#fffdf7", "#241f17", "#766d5c", "#ddd3bd", "#7a1f2b", "#ffffff",
          "#fffdf7", "#241f17", 2, "none", "outline", held_out=True),
    Theme("lagoon", _SANS, _SANS, "#05282e", "#0b3940", "#e2f6f5", "#8fbfbf", "#1d545c", "#2dd4bf", "#032022",
          "#042127", "#e2f6f5", 16, "none", "pill", held_out=True),
    Theme("sherbet", _WIDE, _WIDE, "#fffbea", "#ffffff", "#3a2f12", "#8a7a4d", "#f0e3b4", "#c2410c", "#ffffff",
          "#fde68a", "#3a2f12", 22, _DEEP, "pill", held_out=True),
)

LAYOUTS = (
    Layout("topbar-cards", "topbar", "cards", "stacked", "drawer"),
    Layout("topbar-rows", "topbar", "rows", "columns", "strip"),
    Layout("storefront-cards", "storefront", "cards", "columns", "drawer"),
    Layout("storefront-rows", "storefront", "rows", "stacked", "strip"),
    Layout("sidebar-table", "sidebar", "table", "beside", "drawer"),
    Layout("sidebar-cards", "sidebar", "cards", "stacked", "strip"),
    Layout("tabs-table", "tabs", "table", "stacked", "strip"),
    Layout("tabs-rows", "tabs", "rows", "beside", "drawer"),
    Layout("rail-tiles", "rail", "tiles", "columns", "dock", held_out=True),
    Layout("rail-table", "rail", "table", "beside", "dock", held_out=True),
    Layout("masthead-tiles", "masthead", "tiles", "stacked", "dock", held_out=True),
)
# fmt: on

# Frozen before anything was trained on these apps. Looks may be added to the training side; this side stays.
HELD_OUT_HASH = "20a70b8f8c9e099b2f9be1816710b6581e026784f2a78036002571d7ee4114fa"


def held_out_hash() -> str:
    """Over every held-out theme and layout in all its details."""
    held = [asdict(look) for look in (*THEMES, *LAYOUTS) if look.held_out]
    return hashlib.sha256(json.dumps(held, sort_keys=True).encode()).hexdigest()
