"""What one key may use: requests and tokens per minute, requests at once, bytes being held, sessions and their memory.

    with quotas.admitted(owner):           # 429 if there is no room, with the time when there will be
        ...
    quotas.used(owner, tokens)             # that it brought and got

Rates are buckets that fill steadily and may be emptied at once. Tokens are known only afterwards, so a bucket may go
below zero; then nothing passes until it has filled up again. Where a limit is not set and there are several keys, one
of them may take half of what there is: never all.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from holotron.server.errors import ApiError
from holotron.server.settings import QuotaSettings


class Bucket:
    """So much per minute."""

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        self.size = per_minute
        self._rate = per_minute / 60
        self._clock = clock
        self._level, self._at = float(per_minute), clock()

    @property
    def level(self) -> float:
        now = self._clock()
        self._level = min(self.size, self._level + (now - self._at) * self._rate)
        self._at = now
        return self._level

    def take(self, count: float) -> None:
        self._level = self.level - count

    def seconds_until(self, level: float) -> float:
        return max(0.0, (min(level, self.size) - self.level) / self._rate)


@dataclass
class _Account:
    requests: Bucket | None
    tokens: Bucket | None
    running: int = 0
    held_bytes: int = 0
    refused: int = 0  # requests that were answered with 429


class Quotas:
    def __init__(
        self,
        settings: QuotaSettings,
        *,
        keys: int = 1,
        buffered_bytes: int = 2**62,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`keys`: how many there are. `buffered_bytes`: of all bodies that are being worked on, whoever sent them."""
        self._settings = settings
        self._several = keys > 1
        self._buffered_bytes = buffered_bytes
        self._clock = clock
        self._accounts: dict[str, _Account] = {}
        self._capacity = 2**62

    def size(self, capacity: int) -> None:
        """How many requests can run and wait at all; known when the engine is."""
        self._capacity = capacity

    def _account(self, owner: str) -> _Account:
        account = self._accounts.get(owner)
        if account is None:
            rates = self._settings.requests_per_minute, self._settings.tokens_per_minute
            buckets = [None if rate is None else Bucket(rate, self._clock) for rate in rates]
            account = self._accounts[owner] = _Account(buckets[0], buckets[1])
        return account

    def _share(self, wanted: int | None, all: int) -> int:
        if wanted is not None:
            return wanted
        return max(1, all // 2) if self._several else all

    def share(self, all: int) -> int:
        """Of what there is, how much one key may have."""
        return self._share(None, all)

    # ------------------------------------------------------------------------------------------------------- rates

    def count_request(self, owner: str) -> None:
        """A request came, whatever becomes of it."""
        bucket = self._account(owner).requests
        if bucket is None:
            return
        if bucket.level < 1:
            raise exceeded(f"more than {bucket.size:,} requests per minute", bucket.seconds_until(1))
        bucket.take(1)

    @contextlib.contextmanager
    def admitted(self, owner: str) -> Iterator[None]:
        """Around a generation."""
        account = self._account(owner)
        limit = self._share(self._settings.concurrent, self._capacity)
        if account.running >= limit:
            # Without a limit of its own, what a key ran into is the server's size, not its quota.
            code = "overloaded" if self._settings.concurrent is None else "rate_limit_exceeded"
            raise exceeded(f"{account.running:,} requests of this key are being answered already", 1.0, code)
        if account.tokens is not None and account.tokens.level <= 0:
            raise exceeded(f"more than {account.tokens.size:,} tokens per minute", account.tokens.seconds_until(1))
        account.running += 1
        try:
            yield
        finally:
            account.running -= 1

    def used(self, owner: str, tokens: int) -> None:
        bucket = self._account(owner).tokens
        if bucket is not None:
            bucket.take(tokens)

    def headers(self, owner: str) -> dict[str, str]:
        """As OpenAI's API says it: how much there is, how much is left, when it is full again."""
        account, headers = self._account(owner), {}
        for name, bucket in (("requests", account.requests), ("tokens", account.tokens)):
            if bucket is not None:
                headers[f"x-ratelimit-limit-{name}"] = str(bucket.size)
                headers[f"x-ratelimit-remaining-{name}"] = str(max(0, int(bucket.level)))
                headers[f"x-ratelimit-reset-{name}"] = f"{bucket.seconds_until(bucket.size):.3f}s"
        return headers

    def count_refusal(self, owner: str) -> None:
        self._account(owner).refused += 1

    def refusals(self) -> dict[str, int]:
        """How many requests were answered with 429, by key."""
        return {owner: account.refused for owner, account in self._accounts.items()}

    # ------------------------------------------------------------------------------------------------ bytes in work

    def hold_bytes(self, owner: str, count: int) -> None:
        """A body grew by so much; `release_bytes` when its request is over."""
        account = self._account(owner)
        together = sum(other.held_bytes for other in self._accounts.values()) + count
        if together > self._buffered_bytes or account.held_bytes + count > self._share(None, self._buffered_bytes):
            raise ApiError(
                429,
                "the requests being answered hold as many bytes as they may; try again in a moment",
                type="rate_limit_error",
                code="overloaded",
                retry_after=1.0,
            )
        account.held_bytes += count

    def release_bytes(self, owner: str, count: int) -> None:
        self._account(owner).held_bytes -= count

    # ----------------------------------------------------------------------------------------------------- sessions

    def check_sessions(self, owner: str, open_now: int, more: int, all: int) -> None:
        limit = self._share(self._settings.sessions, all)
        if open_now + more > limit:
            message = f"{open_now:,} sessions of this key are open and {limit:,} allowed; close some first"
            raise exceeded(message, 10.0, "too_many_sessions")

    @property
    def memory_bytes(self) -> int | None:
        return self._settings.memory_bytes

    def check_memory(self, held: int) -> None:
        limit = self._settings.memory_bytes
        if limit is not None and held > limit:
            message = f"the sessions of this key hold {held:,} bytes and {limit:,} are allowed; close some first"
            raise exceeded(message, 10.0, "memory_quota_exceeded")


def exceeded(message: str, retry_after: float, code: str = "rate_limit_exceeded") -> ApiError:
    return ApiError(429, message, type="rate_limit_error", code=code, retry_after=retry_after)
