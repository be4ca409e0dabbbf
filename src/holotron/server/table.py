"""GET /sessions: what sessions hold and have cost, as a plain table for people; /sessions.json for programs.

A key sees what it opened; the key of `server.metrics_key` sees everybody's. A browser asks for the key as a password.
The page has no scripts and loads nothing; it asks again every five seconds.
"""

from __future__ import annotations

import asyncio
from html import escape
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from holotron.engine import EngineStats, SessionInfo
from holotron.server.access import OPERATOR, TABLE
from holotron.server.manual import HEADERS, STYLE
from holotron.server.replies import Json
from holotron.server.served import ServedSession, ServedSessions
from holotron.server.service import Service

MOST = 1000  # rows

router = APIRouter()


async def describe(service: Service, owner: str) -> Json:
    """A row for each session that `owner` may see; totals of the whole server, for those who may see its metrics."""
    loaded = service.serving()
    rows = [
        *await _rows("session", loaded.sessions, owner),
        *await _rows("responses", loaded.responses.sessions, owner),
    ]
    refused = service.quotas.refusals()
    operator = owner == OPERATOR
    totals = None
    if operator or service.settings.server.metrics_key is None:
        totals = _totals(await loaded.engine.aio.stats(), loaded.engine.config.host_bytes)
    return {
        "object": "session.table",
        "model": loaded.name,
        "totals": totals,
        "refused": refused if operator else {owner: refused.get(owner, 0)},
        "sessions": sorted(rows, key=lambda row: -row["device_bytes"] - row["host_bytes"])[:MOST],
        "not_listed": max(0, len(rows) - MOST),
    }


async def _rows(kind: str, sessions: ServedSessions, owner: str) -> list[Json]:
    seen = [(whose, one) for whose, one in sessions.everybodys() if owner in (OPERATOR, whose)]
    infos = await asyncio.gather(*(one.engine_session.info() for _, one in seen), return_exceptions=True)
    return [
        _row(kind, whose, one, info)
        for (whose, one), info in zip(seen, infos, strict=True)
        if isinstance(info, SessionInfo)  # one may be closed meanwhile
    ]


def _row(kind: str, owner: str, session: ServedSession, info: SessionInfo) -> Json:
    return {
        "id": session.id,
        "kind": kind,
        "key": owner,
        "busy": session.held,
        "turns": len(session.turns),
        "tokens": info.tokens,
        "remembered": info.computed,
        "device_bytes": info.bytes - info.host_bytes,
        "host_bytes": info.host_bytes,
        "cached_tokens": session.cached_tokens,
        "computed_tokens": session.computed_tokens,
        "generated_tokens": session.generated_tokens,
        "refused": session.refused,
    }


def _totals(stats: EngineStats, host_bytes: int | None) -> Json:
    return {
        "device": {
            "pages_used": stats.pages_used,
            "pages_total": stats.pages_total,
            "states_used": stats.rows_used,
            "states_total": stats.rows_total,
            "vision_bytes": stats.vision_bytes_used,
        },
        "host": {
            "bytes_used": stats.host_bytes_used,
            "bytes_total": host_bytes,
            "picture_bytes": stats.pixel_bytes_used,
        },
        "prefixes_kept": stats.cached_sessions,
        "cached_tokens": stats.cached_tokens,
        "computed_tokens": stats.computed_tokens,
        "generated_tokens": stats.generated_tokens,
        "running": stats.running,
        "waiting": stats.waiting,
    }


@router.get(f"{TABLE}.json", tags=["operation"])
async def table_json(http: Request) -> Json:
    """Every session of this key with its memory by tier, cached and computed tokens, and refusals."""
    return await describe(http.app.state.service, http.scope["owner"])


@router.get(TABLE, include_in_schema=False)
async def table_page(http: Request) -> Response:
    return HTMLResponse(page(await describe(http.app.state.service, http.scope["owner"])), headers=HEADERS)


# --------------------------------------------------------------------------------------------------------------- page

_COLUMNS = {
    "id": "Session", "kind": "Kind", "key": "Key", "busy": "", "turns": "Turns", "tokens": "Tokens",
    "remembered": "Remembered", "device_bytes": "On the device", "host_bytes": "On the host",
    "cached_tokens": "Cached", "computed_tokens": "Computed", "generated_tokens": "Generated", "refused": "Refused",
}  # fmt: skip
_MORE_STYLE = """
body { max-width: 80rem } th { color: #555; font-weight: 500 } td { font-variant-numeric: tabular-nums }
td, th { text-align: right; padding: .3em .8em .3em 0; white-space: nowrap }
td:nth-child(-n+4), th:nth-child(-n+4) { text-align: left }
.facts { width: auto } .scroll { overflow-x: auto }
@media (prefers-color-scheme: dark) {
  body { background: #15171a; color: #e6e7e9 } th { color: #a5abb4 } td { border-color: #333 }
}
"""


def page(table: Json) -> str:
    title = f"Sessions of {escape(table['model'])}"
    heads = "".join(f"<th scope=col>{name}" for name in _COLUMNS.values())
    rows = "".join(f"<tr>{''.join(f'<td>{_cell(key, row[key])}' for key in _COLUMNS)}" for row in table["sessions"])
    left = f"<p>{table['not_listed']:,} more are not listed.</p>" if table["not_listed"] else ""
    none = "" if table["sessions"] else "<p>No session of this key is open.</p>"
    facts = [*_facts(table["totals"] or {}), ("requests refused (429)", f"{sum(table['refused'].values()):,}")]
    about = "".join(f"<tr><th scope=row>{escape(name)}<td>{escape(value)}" for name, value in facts)
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<meta http-equiv=refresh content=5><title>{title}</title><style>{STYLE}{_MORE_STYLE}</style>"
        f"<h1>{title}</h1><table class=facts>{about}</table><h2>{len(table['sessions']):,} sessions</h2>{none}"
        f"<div class=scroll><table><thead><tr>{heads}</thead><tbody>{rows}</tbody></table></div>{left}"
    )


def _facts(totals: Json) -> list[tuple[str, str]]:
    if not totals:
        return []
    device, host = totals["device"], totals["host"]
    of_host = f" of {_size(host['bytes_total'])}" if host["bytes_total"] else ""
    return [
        ("on the device: pages of keys and values", f"{device['pages_used']:,} of {device['pages_total']:,}"),
        ("on the device: recurrent states", f"{device['states_used']:,} of {device['states_total']:,}"),
        ("on the device: pictures", _size(device["vision_bytes"])),
        ("on the host", _size(host["bytes_used"]) + of_host),
        ("on the host: pictures", _size(host["picture_bytes"])),
        ("prefixes kept", f"{totals['prefixes_kept']:,}"),
        ("prompt tokens", f"{totals['cached_tokens']:,} cached, {totals['computed_tokens']:,} computed"),
        ("generated tokens", f"{totals['generated_tokens']:,}"),
        ("requests", f"{totals['running']} running, {totals['waiting']} waiting"),
    ]


def _cell(key: str, value: Any) -> str:
    if key == "busy":
        return "busy" if value else ""
    if key.endswith("_bytes"):
        return _size(value)
    return f"{value:,}" if isinstance(value, int) else escape(str(value))


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count:,} B"
