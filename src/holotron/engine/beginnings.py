"""What a new request can take over: the longest part of its log that somebody has computed, or is about to.

Finished requests are continued, forked or waited for (`prefix` finds them); where a client has dropped its oldest
picture, the request goes on from the resume point before it (`window`). Every result says which of these it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holotron.engine.log import BLOCK
from holotron.engine.prefix import Found
from holotron.engine.sequence import Awaited, Junction, Request, Sequence, Snapshot
from holotron.engine.window import MOST_LEAD, slid, window_start

if TYPE_CHECKING:
    from holotron.engine.sessions import Sessions


class Beginnings:
    def __init__(self, all_sessions: Sessions, picture_tag: int | None) -> None:
        self._all = all_sessions
        self._picture_tag = picture_tag

    def resume(self, request: Request) -> bool:
        """Give a request that would have to begin at the beginning what is known of its log. False: somebody is just
        computing that, wait for it."""
        sequence = request.sequence
        if request.resumed or sequence.memory.length > 0:
            return True
        if request.awaits is not None and request.awaits.coming:
            return False
        found = self._all.index.find(sequence.log, self._all.version, sequence.scope)
        marks = (mark.position for mark in sequence.marks.values())
        if found is not None and found.length > min(marks, default=found.length):
            found = None  # the computation has to pass the session's own marks
        known = found.length if found is not None else 0
        junction, others = self._all.index.junction(sequence)
        if request.awaits is None:  # waiting once is enough: what comes may be gone again before it is used
            ahead = [other for other in others if _will_pass(other, junction)]
            request.awaits = _best_ahead(sequence, ahead, junction, known)
            if request.awaits is not None:
                return False
        if junction >= known + BLOCK:
            sequence.junctions.append(Junction(junction))
        request.resumed = True
        self._tell(request, found, others, junction)
        if sequence.cached:
            self._expect_window(sequence, known, found, others, junction)
        if found is not None:
            self._adopt(sequence, found)
            for place in sequence.wanted():
                if place.position == sequence.memory.length:
                    self._all.keep(sequence, place)
        request.cached = min(sequence.memory.length, request.prompt)
        if sequence.cached and sequence.memory.length < request.prompt:
            # The next turn may render this reply differently, or ask for another one.
            sequence.prompt_end = Snapshot(request.prompt)
        return True

    def _adopt(self, sequence: Sequence, found: Found) -> None:
        owner, memory = found.entry.sequence, found.entry.memory
        if memory is owner.memory and memory.length == found.length and owner in self._all.cached and not owner.root:
            # Nobody else wants it: continue it instead of a copy.
            self._all.index.remove(memory)
            sequence.memory, owner.memory = owner.memory, sequence.memory
            sequence.service = max(sequence.service, owner.service)
            self._inherit_window(sequence, owner)
            self._all.close(owner)
            return
        sequence.memory = memory.share()
        if not self._all.pools.has_state:
            sequence.memory.truncate(found.length)
        self._inherit_window(sequence, owner)
        if owner in self._all.cached:  # used again: the last to be dropped
            del self._all.cached[owner]
            self._all.cached[owner] = None
            if slid(owner.log, sequence.log):
                self._outdate(owner)

    def _tell(self, request: Request, found: Found | None, others: list[Sequence], junction: int) -> None:
        """What this request resumes, for those who ask; and whether its client has changed what was said before."""
        sequence = request.sequence
        owner = found.entry.sequence if found is not None else None
        changed = [other for other in others if other.cached and not other.root and slid(other.log, sequence.log)]
        if found is None or owner is None:
            request.resumption = "nothing"
        elif owner.root or (not owner.cached and found.entry.memory is not owner.memory):
            request.resumption = "beginning"
        elif found.entry.memory is owner.memory:
            request.resumption = "everything"
        elif owner.window is not None and found.entry.memory is owner.window.memory:
            request.resumption = "window" if slid(owner.log, sequence.log) else "beginning"
        else:
            request.resumption = "prompt"
        if sequence.cached:
            if owner is not None and request.resumption == "window":
                changed.append(owner)
            sequence.rewritten = max((other.rewritten + 1 for other in changed), default=0)
        self._all.resumptions[request.resumption] += 1

    # ---------------------------------------------------------------------------------- see `window`

    def _expect_window(
        self, sequence: Sequence, known: int, found: Found | None, others: list[Sequence], junction: int
    ) -> None:
        """Plan the resume point of the next request of this conversation."""
        if not self._all.pools.has_state:
            return  # pages can be shared up to any token
        if found is not None:
            sequence.lead = found.entry.sequence.lead
        for other in others:
            if other.window is not None and slid(other.log, sequence.log):
                # Tokens before a picture may be others without it. Then that point was of no use; the next one is.
                short = other.window.position - other.log.common(sequence.log, junction)
                if 0 < short <= MOST_LEAD:
                    sequence.lead = other.lead + short
        place = window_start(sequence.log, self._picture_tag) - sequence.lead
        if place > 0 and place >= known:
            sequence.window = Snapshot(place)

    def _inherit_window(self, sequence: Sequence, owner: Sequence) -> None:
        """A conversation that goes on has its resume point behind it: it is the owner's."""
        place = window_start(sequence.log, self._picture_tag) - sequence.lead
        theirs = owner.window
        if sequence.window is not None or theirs is None or theirs.memory is None or theirs.position != place:
            return
        if sequence.memory.length < place or not owner.log.common(sequence.log) >= place:
            return
        sequence.window = Snapshot(place, theirs.memory.share())
        assert sequence.window.memory is not None
        self._all.index.add(sequence, sequence.window.memory)

    def _outdate(self, owner: Sequence) -> None:
        """Its client has sent the next request, which parts from it at its resume point: that alone is kept, for
        others who may part there, and for as long as there is room to spare."""
        self._all.index.remove(owner.memory)
        owner.memory.release()
        if owner.prompt_end is not None:
            self._all.release(owner.prompt_end)
            owner.prompt_end = None
        self._all.stale[owner] = None


def _will_pass(sequence: Sequence, position: int) -> bool:
    """It is being computed and has not come to this position yet."""
    request = sequence.request
    if request is None or request.background or request.admitted_at is None:
        return False
    return sequence.memory.length < position


def _best_ahead(sequence: Sequence, ahead: list[Sequence], junction: int, known: int) -> Awaited | None:
    """The longest part of this log that others are about to have computed: up to where they pause anyway (the end of an
    equal prompt), or up to the junction, where the first of them is asked to."""
    best: Awaited | None = None
    for other in ahead:
        assert other.request is not None
        same = other.log.common(sequence.log, junction)
        for place in other.wanted():
            least = best.place.position + 1 if best is not None else junction
            if least <= place.position <= same:
                best = Awaited(place, other.request)
    if best is None and ahead and junction >= known + BLOCK:
        place = Junction(junction)
        ahead[0].junctions.append(place)
        assert ahead[0].request is not None
        best = Awaited(place, ahead[0].request)
    return best if best is not None and best.place.position >= known + BLOCK else None
