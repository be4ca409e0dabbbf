"""A page to look at labels and to accept or reject them: one HTML file, no server, nothing loaded from elsewhere.

    write_review(Path("labels"))                  # -> labels/review.html

The least certain labels come first, because that is where a person's eye is worth most. Decisions stay in the browser
and are exported as JSON: {"<id>": "accept" | "reject", ...}. Texts of pages and models are inserted as text, and the
page's content policy allows no script but its own.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from PIL import Image

from holotron.annotate.store import Row, iter_labels, read_broken
from holotron.storage.files import replace_file

_ASSETS = files(__package__) / "assets"
SIDE = 1000  # pixels of a picture's longer side
IMAGE_BYTES = 24_000_000  # of one page


def write_review(folder: Path, out: Path | None = None, *, count: int = 300) -> tuple[Path, int]:
    """Build the page; where it is, and how many labels it shows."""
    rows = sorted(
        iter_labels(folder), key=lambda row: (row["confidence"] is not None, row["confidence"] or 0.0, row["id"])
    )
    album = _Album()
    shown = [_entry(row, album) for row in rows[:count]]
    left_out = len(rows) - len(shown)
    notes = []
    if left_out:
        notes.append(f"{left_out} more labels, all at least as certain, are not on this page.")
    if album.missing:
        notes.append(f"{album.missing} pictures are gone or did not fit the page.")
    if broken := read_broken(folder):
        notes.append(f"{len(broken)} pictures could not be read and have no label: {', '.join(list(broken)[:5])} …")
    data = {
        "title": f"{folder.resolve().name}: {len(rows)} labels",
        "notice": " ".join(notes),
        "store": hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16],
        "labels": shown,
        "images": album.images,
    }
    path = out or folder / "review.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, _page(data).encode())
    return path, len(shown)


class _Album:
    """Scaled-down pictures as data URLs, each once, until the page is full."""

    def __init__(self) -> None:
        self.images: list[str] = []
        self.missing = 0
        self._known: dict[str, int | None] = {}
        self._bytes = 0

    def add(self, path: str) -> int | None:
        if path not in self._known:
            self._known[path] = self._take(Path(path))
        return self._known[path]

    def _take(self, path: Path) -> int | None:
        try:
            if self._bytes >= IMAGE_BYTES:
                raise OSError("the page is full")
            with Image.open(path) as image:
                small = image.convert("RGB")
        except OSError:
            self.missing += 1
            return None
        small.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
        buffer = io.BytesIO()
        small.save(buffer, "WEBP", quality=80, method=2)
        self.images.append(f"data:image/webp;base64,{base64.b64encode(buffer.getvalue()).decode()}")
        self._bytes += len(self.images[-1])
        return len(self.images) - 1


def _entry(row: Row, album: _Album) -> dict[str, Any]:
    kept = ("id", "kind", "instruction", "context", "width", "height", "point", "box", "text", "success", "confidence")
    answers = [answer["value"] for of_one in json.loads(row["answers"]) for answer in of_one]
    pictures = [album.add(path) for path in row["images"]]
    named = {"images": pictures, "answers": answers, "remark": row["remark"], "model": row["model"]}
    return {key: row[key] for key in kept} | named | {"second": row["second"]}


def _page(data: Mapping[str, Any]) -> str:
    css, script = (_ASSETS / "review.css").read_text(), (_ASSETS / "review.js").read_text()
    pieces = {
        "CSP": f"default-src 'none'; img-src data:; style-src {_hash(css)}; script-src {_hash(script)}",
        "TITLE": html.escape(data["title"]),
        "CSS": css,
        # In a script element only "<" can end the element or begin a comment.
        "DATA": json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
        "JS": script,
    }
    head, *rest = (_ASSETS / "review.html").read_text().split("%%")
    # Odd pieces are names of slots, even ones are template text: data that holds a slot's name is not touched.
    return head + "".join(pieces[piece] if index % 2 == 0 else piece for index, piece in enumerate(rest))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
