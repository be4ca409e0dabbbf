"""A run directory to look at: one that is finished, or one that another process is writing.

run = RecordedRun(Path("runs/eval"))
run.refresh()                                   # what has been recorded meanwhile
run.session("miniwob/click-test/0")             # its summary and its steps
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holotron.agent.steering import NotNow
from holotron.console.board import Board
from holotron.console.cards import card_of, frame_name, summary_of
from holotron.console.frames import Frames
from holotron.errors import HolotronError, InputError
from holotron.evals.album import short
from holotron.evals.costs import Prices, cost_of, policy_name
from holotron.rollouts.records import Row, from_rows
from holotron.rollouts.store import RunReader
from holotron.storage.files import entries
from holotron.storage.objects import is_remote, shown
from holotron.storage.tables import Record

LISTED = 5000  # sessions; of a larger run, the last ones
REFRESH_SECONDS = 2.0


class WatchedRun:
    """What the page shows: a board of documents, and pictures. Without a folder there is nothing beyond memory."""

    live = False
    viewers = 0  # pages that are open; the server counts
    closing = False  # the server is about to stop: streams end

    def __init__(self, folder: Path | None, *, prices: Prices | None = None) -> None:
        self.folder = folder
        self.board = Board()
        self.frames = Frames(folder)
        self.manifest: Mapping[str, Any] = {}
        self._prices = prices

    def session(self, id: str) -> dict[str, Any]:
        """One session with its steps. Reads files, so it belongs on a worker thread. `KeyError`: there is none."""
        if id not in self.board:
            raise KeyError(id)
        cards = self.board.cards(id)
        if not cards and self.folder is not None:
            cards = [{"session": id, **card} for card in self._recorded_cards(id)]
        return {"summary": self.board.summary(id), "cards": cards}

    def refresh(self) -> None:
        """Look for what is new on disk; called again and again while somebody looks."""

    async def command(self, id: str, body: Mapping[str, Any]) -> None:
        raise NotNow("this run is only looked at here: nothing in it can be steered")

    def money(self, row: Mapping[str, Any]) -> float | None:
        return None if self._prices is None else cost_of([row], self.manifest, self._prices).money

    def _recorded_cards(self, id: str) -> list[dict[str, Any]]:
        try:
            reader = RunReader(self.folder) if self.folder is not None else None
            found: list[Record] = [] if reader is None else list(reader.rows([id]))
        except (InputError, FileNotFoundError):  # nothing is on record yet
            return []
        return [card for record in found for card in cards_of(*record)]


class RecordedRun(WatchedRun):
    def __init__(self, folder: Path, *, prices: Prices | None = None) -> None:
        super().__init__(folder, prices=prices)
        self._reader = RunReader(folder)
        self.manifest = self._reader.manifest
        self._seen: tuple[Any, ...] = ()
        self._looked = 0.0
        config = self.manifest.get("config", {})
        environment = config.get("environment") or {}
        self.board.put_run(
            title=folder.name,
            folder=shown(folder),
            kind=str(self.manifest.get("kind", "run")),
            policy=policy_name(self.manifest),
            suite=str(environment.get("suite", "")),
            currency=prices.currency if prices is not None else "",
            live=False,
            total=len(self.manifest.get("episodes", ())),
        )
        self.refresh()

    def refresh(self) -> None:
        if time.monotonic() - self._looked < REFRESH_SECONDS and self._looked:
            return
        self._looked = time.monotonic()
        now = tuple(mark for folder in ("episodes", "journal") for mark in _marks(self._reader.path / folder))
        if now == self._seen:
            return
        self._seen = now
        try:
            rows = self._reader.episodes()
        except HolotronError as error:  # a damaged file: what is known stays
            self.board.put_run(problem=short(str(error), 600))
            return
        for row in rows[-LISTED:]:
            self.board.put(row["id"], **summary_of(row), money=self.money(row))
        self.board.put_run(recorded=len(rows), listed=min(len(rows), LISTED))


def _marks(folder: Path) -> list[tuple[str, int]]:
    """What differs when something was added. In an object store a journal is a folder of parts."""
    if is_remote(folder):
        grows = folder.name == "journal"
        return [(name, len(entries(folder / name)) if grows else 0) for name in entries(folder)]
    return [(path.name, path.stat().st_size) for path in sorted(folder.glob("*.*")) if path.exists()]


def cards_of(row: Row, steps: list[Row]) -> list[dict[str, Any]]:
    """The steps of a recorded episode, and how it looked at the end."""
    trajectory = from_rows(row, steps, lambda name: b"")
    names = [frame_name(step["observation"]["image"]) for step in sorted(steps, key=lambda step: step["index"])]
    return [{"index": step.index, **card_of(step, name)} for step, name in zip(trajectory.steps, names, strict=True)]
