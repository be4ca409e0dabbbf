"""A contact sheet: one HTML file that shows pages with their boxes, characters and samples, for people to look at.

    write_contact_sheet(Path("data/synth"), Path("sheet.html"), pages=60)

Move over an instruction to see its target; press `e` for all elements and `c` for all characters.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from itertools import islice
from pathlib import Path

from holotron.data.labels import Box, Sample, elements_from_json
from holotron.data.shards import Row, iter_rows
from holotron.storage.files import replace_file

_TEMPLATE = (files(__package__) / "assets" / "contact.html").read_text()
WIDEST = 640  # CSS pixels of a page on the sheet


def write_contact_sheet(pages: Path, sheet: Path, *, count: int = 60) -> int:
    """Show the first screenshots of a folder; how many there were."""
    figures = [_figure(row) for row in islice(iter_rows(pages), count)]
    title = f"{pages.name}: {len(figures)} screenshots"
    body = _TEMPLATE.replace("{{title}}", escape(title)).replace("{{figures}}", "\n".join(figures))
    sheet.parent.mkdir(parents=True, exist_ok=True)
    replace_file(sheet, body.encode())
    return len(figures)


def _figure(row: Row) -> str:
    width, height = row["width"] / row["scale"], row["height"] / row["scale"]
    zoom = min(1.0, WIDEST / width) * (2 if width <= 240 else 1)
    elements = elements_from_json(row["elements"])
    boxes = row["boxes"]
    marks = [
        _mark("e", e.box, f"{e.role} {e.name!r} {e.colour} {e.icon} {' '.join(e.states)}")
        for e in elements
        if e.exposed
    ]
    marks += [_mark("c", boxes[4 * i : 4 * i + 4], sign) for i, sign in enumerate(row["characters"]) if sign != " "]
    picture = base64.b64encode(row["image"]).decode()
    origin = json.loads(row["origin"])
    about = " · ".join(
        str(origin[key]) for key in ("size", "layout", "theme", "font", "language", "voice") if key in origin
    )
    lines = [_goal(row)] if row["goal"] else []
    lines += [_sample(Sample(**sample)) for sample in row["samples"]]
    shown = f"{width * zoom:.0f}"
    return (
        f'<figure style="width:{max(width * zoom, 320):.0f}px">'
        f"<figcaption><b>{escape(row['id'])}</b> {escape(about)}</figcaption>"
        f'<div class="page"><img width="{shown}" src="data:image/webp;base64,{picture}">'
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{shown}">{"".join(marks)}<rect class="t"/></svg></div>'
        f"<ol>{''.join(lines)}</ol></figure>"
    )


def _mark(kind: str, box: Iterable[float], title: str) -> str:
    left, top, right, bottom = box
    place = f'x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}"'
    return f'<rect class="{kind}" {place}><title>{escape(title)}</title></rect>'


def _where(box: Box | None) -> str:
    return f' data-box="{" ".join(f"{v:.1f}" for v in box)}"' if box else ""


def _sample(sample: Sample) -> str:
    words = sample.worded(lambda x, y: f"({x:.0f}, {y:.0f})")
    answer = f" → {escape(sample.answer)}" if sample.answer else ""
    return f"<li{_where(sample.box)}><i>{sample.kind}, {escape(sample.by)}</i> {escape(words)}{answer}</li>"


def _goal(row: Row) -> str:
    action = json.loads(row["action"])
    point = (action["x"] - 2, action["y"] - 2, action["x"] + 2, action["y"] + 2) if "x" in action else None
    step = f"step {row['step'] + 1} of {row['steps']}"
    return f"<li{_where(point)}><i>{step}</i> <b>{escape(row['goal'])}</b> → {escape(row['action'])}</li>"
