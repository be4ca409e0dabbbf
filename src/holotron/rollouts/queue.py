"""Which episode is next, who has it, and since when.

Every episode is in exactly one place: pending, leased to a worker, or done. A lease that is not honoured comes back. An
attempt that the environment spoiled goes to the end of the queue, a little later each time, until its attempts are used
up. An episode whose worker was lost is the next one to be played, and that is no attempt: it is nobody's doing. Only if
it happens again and again is the episode itself suspected.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace

from holotron.rollouts.messages import Assignment
from holotron.rollouts.rules import Attempts
from holotron.types import Task

MOST_LOST = 5  # workers, while playing the same episode


@dataclass(slots=True)
class Lease:
    assignment: Assignment
    worker: str
    since: float
    cut_at: float | None = None  # when the worker was told to break off
    still_since: float | None = None  # a person holds it; the time does not count

    def stand(self, still: bool, now: float) -> None:
        if still and self.still_since is None:
            self.still_since = now
        elif not still and self.still_since is not None:
            self.since += now - self.still_since
            self.still_since = None


@dataclass(frozen=True, slots=True)
class _Pending:
    assignment: Assignment
    not_before: float = 0.0


class TaskQueue:
    def __init__(self, episodes: Iterable[tuple[str, Task]], *, attempts: Attempts = Attempts()) -> None:
        self._attempts = attempts
        self._pending = deque(_Pending(Assignment(episode, task, 0)) for episode, task in episodes)
        self.leases: dict[str, Lease] = {}  # by worker

    @property
    def pending(self) -> int:
        return len(self._pending)

    @property
    def unfinished(self) -> int:
        return len(self._pending) + len(self.leases)

    def lease(self, worker: str, now: float) -> Assignment | None:
        """The next episode that is due, if any."""
        for _ in range(len(self._pending)):
            item = self._pending.popleft()
            if item.not_before <= now:
                self.leases[worker] = Lease(item.assignment, worker, now)
                return item.assignment
            self._pending.append(item)
        return None

    def next_due(self, now: float) -> float | None:
        """Seconds until a pending episode is due; None if nothing is pending."""
        if not self._pending:
            return None
        return max(min(item.not_before for item in self._pending) - now, 0.0)

    def end(self, worker: str, episode: str) -> Lease | None:
        """The worker's lease on this episode is over; None if it holds no such lease (a late or doubled report)."""
        lease = self.leases.get(worker)
        if lease is None or lease.assignment.episode != episode:
            return None
        return self.leases.pop(worker)

    def drop(self, worker: str) -> Lease | None:
        """The worker is gone, and with it the lease it had."""
        return self.leases.pop(worker, None)

    def play_next(self, assignment: Assignment) -> bool:
        """Put an episode back whose worker was lost; False when that has happened too often."""
        if assignment.lost + 1 >= MOST_LOST:
            return False
        self._pending.appendleft(_Pending(replace(assignment, lost=assignment.lost + 1)))
        return True

    def try_again(self, assignment: Assignment, now: float) -> bool:
        """Put an episode back after a spoiled attempt; False when its attempts are used up."""
        wait = self._attempts.again_after(assignment.attempt)
        if wait is None:
            return False
        self._pending.append(_Pending(replace(assignment, attempt=assignment.attempt + 1), now + wait))
        return True
