"""Small SVG pictures for reports, without a plotting library. What they say is also said in words, for screen readers.

forest([("miniwob", 0.74, 0.68, 0.79), ...])           # a rate with its interval, one row each
outcomes([("miniwob", {"success": 180, "failure": 20}), ...])
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable, Mapping, Sequence

WIDTH, ROW, RIGHT = 720, 30, 120
LONGEST = 34  # letters of a label
_COLOURS = {
    "success": "#2f9e44", "failure": "#e03131", "exhausted": "#f08c00", "stuck": "#9c36b5", "unscored": "#868e96",
    "policy_error": "#495057", "environment_error": "#adb5bd",
}  # fmt: skip


def as_url(svg: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode('utf-8', 'replace')).decode()}"


def forest(rows: Sequence[tuple[str, float | None, float, float]]) -> str:
    """A point and its 95 % interval for each row; None: no episode was scored."""
    parts = []
    height, left = ROW * len(rows) + 34, _left(name for name, *_ in rows)
    for percent in (0, 25, 50, 75, 100):
        x = _across(percent / 100, left)
        parts.append(f'<path d="M{x:.1f} 8V{height - 26}" stroke="#80889444"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle">{percent} %</text>')
    for index, (name, rate, low, high) in enumerate(rows):
        y = ROW * index + 24
        parts.append(_label(name, left, y))
        if rate is None:
            parts.append(f'<text x="{left:.1f}" y="{y + 4}">nothing scored</text>')
            continue
        ends = f"M{_across(low, left):.1f} {y}H{_across(high, left):.1f}"
        parts.append(f'<path d="{ends}" stroke="#3b5bdb" stroke-width="3"/>')
        parts.append(f'<circle cx="{_across(rate, left):.1f}" cy="{y}" r="5" fill="#3b5bdb"/>')
        said = f"{100 * rate:.1f} ({100 * low:.0f}–{100 * high:.0f})"
        parts.append(f'<text x="{WIDTH - RIGHT + 14}" y="{y + 4}">{said}</text>')
    return _svg(height, parts)


def outcomes(rows: Sequence[tuple[str, Mapping[str, int]]]) -> str:
    """How episodes ended: one bar a row, as shares."""
    parts = []
    left = _left(name for name, _ in rows)
    for index, (name, counts) in enumerate(rows):
        y, total, x = ROW * index + 24, sum(counts.values()), left
        parts.append(_label(name, left, y))
        for outcome, colour in _COLOURS.items():
            if count := counts.get(outcome, 0):
                width = (_across(1, left) - left) * count / total
                parts.append(f'<rect x="{x:.2f}" y="{y - 9}" width="{width:.2f}" height="18" fill="{colour}"/>')
                x += width
        parts.append(f'<text x="{WIDTH - RIGHT + 14}" y="{y + 4}">{total:,} episodes</text>')
    top, x = ROW * len(rows) + 24, 10.0
    for outcome, colour in _COLOURS.items():
        if any(counts.get(outcome) for _, counts in rows):
            said = outcome.replace("_", " ")
            parts.append(f'<rect x="{x:.1f}" y="{top - 10}" width="12" height="12" fill="{colour}"/>')
            parts.append(f'<text x="{x + 17:.1f}" y="{top}">{said}</text>')
            x += 34 + 7.2 * len(said)
    return _svg(top + 12, parts)


def _left(names: Iterable[str]) -> float:
    """Where the scale begins: behind the longest label."""
    return 30 + 6.8 * min(LONGEST, max(map(len, names), default=0))


def _across(rate: float, left: float) -> float:
    return left + rate * (WIDTH - left - RIGHT)


def _label(name: str, left: float, y: float) -> str:
    plain = re.sub(r"[\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff]", " ", name)  # XML has no words for these
    cut = plain if len(plain) <= LONGEST else plain[: LONGEST - 1] + "…"
    return f'<text x="{left - 12:.1f}" y="{y + 4}" text-anchor="end">{html.escape(cut)}</text>'


def _svg(height: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" font-family="sans-serif" '
    return f'{head}font-size="13" fill="#808894">{"".join(parts)}</svg>'
