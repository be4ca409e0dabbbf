"""What the store says it holds is what can be reached from it, whatever is kept, continued, deleted or expires."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holotron.engine import SessionInfo
from holotron.server.errors import ApiError
from holotron.server.quotas import Quotas
from holotron.server.responses.items import fingerprint
from holotron.server.responses.store import ResponseStore, Stored
from holotron.server.settings import QuotaSettings, ResponseSettings

Step = tuple[str, int, int]
steps = st.lists(
    st.tuples(st.sampled_from(["keep", "keep", "keep", "delete", "wait"]), st.integers(0, 9), st.integers(0, 300)),
    max_size=40,
)


def made(number: int, size: int, previous: Stored | None) -> Stored:
    said = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "x" * size}],
    }
    reply = {
        "id": f"out_{number}",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "y"}],
    }
    sent = (cast(dict[str, Any], said),)
    return Stored(f"resp_{number}", "me", {"output": [reply]}, sent, tuple(map(fingerprint, sent)), previous)


@given(steps, st.sampled_from([2, 5, 100]), st.sampled_from([700, 3000, 10**6]))
def test_it_counts_what_it_holds(steps: list[Step], most: int, room: int) -> None:
    now = [0.0]
    store = ResponseStore(cast(Any, None), 16, clock=lambda: now[0])
    store.limit(ResponseSettings(ttl_seconds=5, max_stored=most, max_bytes=room), Quotas(QuotaSettings()))
    known: list[Stored] = []
    for number, (what, which, size) in enumerate(steps):
        older = known[-1 - which] if which < len(known) else None
        if what == "wait":
            now[0] += which / 4  # which floats hold exactly: a life ends on the dot
        elif what == "keep":
            try:
                previous = store.previous("me", older.id) if older is not None else None
            except ApiError:
                previous = None
            known.append(made(number, size, previous))
            store.keep(known[-1])
        elif older is not None:
            with contextlib.suppress(ApiError):  # gone already
                store.delete("me", older.id)
        count, held = store.held("me")
        kept = [stored for stored in known if _there(store, stored)]
        reachable = {id(one): one for stored in kept for one in stored.chain()}
        assert count == len(kept) <= most
        assert held == sum(one.size for one in reachable.values()) <= room
        assert all(now[0] - stored.born < 5 for stored in kept)
        for stored in known:  # by its items, by its words: found if and only if it is kept
            assert (store.item("me", f"msg_{stored.id[5:]}") is not None) == (stored in kept)
            again = [*stored.history(), {"type": "message", "role": "user", "content": []}]
            found = store.recognised("me", list(map(fingerprint, again)))
            if stored in kept:
                assert found is not None
                assert found[0].digest == stored.digest
    now[0] += 10
    assert store.held("me") == (0, 0)
    assert store.recognised("me", [fingerprint(item) for stored in known for item in stored.items]) is None


def _there(store: ResponseStore, stored: Stored) -> bool:
    try:
        return store.get("me", stored.id) is stored
    except ApiError:
        return False


class Sessions:
    """Of the engine, each of so many bytes; those that were closed."""

    def __init__(self) -> None:
        self.closed: list[int] = []

    def session(self, number: int, size: int) -> Any:
        async def info() -> SessionInfo:
            return SessionInfo(str(number), 1, 1, 1, size, (), False, 0, 0)

        return SimpleNamespace(number=number, engine_session=SimpleNamespace(closed=False, info=info))

    async def close(self, owner: str, session: Any) -> None:
        self.closed.append(session.number)


@pytest.mark.parametrize(("limit", "closed"), [(60, []), (59, [0]), (50, [0]), (49, [0, 1]), (29, [0, 1, 2])])
def test_the_oldest_sessions_go_until_the_rest_fits_the_quota(limit: int, closed: list[int]) -> None:
    async def main() -> None:
        store.limit(ResponseSettings(), Quotas(QuotaSettings(memory_bytes=limit)))
        for number, size in enumerate((10, 20, 30)):
            store.keep(made(number, 1, None))
            store.get("me", f"resp_{number}").session = sessions.session(number, size)
        await store.make_room("me")

    sessions = Sessions()
    store = ResponseStore(cast(Any, sessions), 16)
    asyncio.run(main())
    assert sessions.closed == closed
