"""Requests that bring the last few pictures of a history resume where the picture was that they have dropped."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from holotron.bench.workload import Workload
from holotron.engine.core import Core
from holotron.engine.log import Log, Picture
from tests.engine.support import GREEDY, Asked, assert_greedy, image_log, make_tile, micro_model, settings
from tests.engine.test_prefix import joined, request
from tests.engine.test_sessions import words

SHOT, TEXT, REPLY, SYSTEM = 6, 9, GREEDY.max_tokens, 70


def picture(number: int) -> Log:
    """A picture between its tags, known by its key as the processor's pictures are."""
    log = image_log(make_tile(number))
    return Log(log.ids, log.tiles, [Picture(1, 5, (16, 16), None, None, b"screen %d" % number)])


@dataclass
class Client:
    """Sends everything each time, but only the last `window` pictures."""

    core: Core
    number: int = 0
    window: int = 3
    instead: list[int] = field(default_factory=list)  # what stands in the place of a dropped picture
    texts: list[Log] = field(default_factory=list)
    replies: list[Log] = field(default_factory=list)

    def prompt(self) -> Log:
        whole, step = words(SYSTEM), len(self.texts) - 1
        for n, text in enumerate(self.texts):
            whole = joined(whole, picture(100 * self.number + n) if n > step - self.window else Log(self.instead), text)
            if n < len(self.replies):
                whole = joined(whole, self.replies[n])
        return whole

    def ask(self) -> Asked:
        self.texts.append(words(TEXT, 7 * len(self.texts) + 50 * self.number + 3))
        return request(self.core, self.prompt())

    def step(self) -> int:
        """How many prompt tokens were computed."""
        asked = self.ask()
        return self.heard(asked)

    def heard(self, asked: Asked) -> int:
        result = asked.finished(self.core)
        assert_greedy(self.core.model, joined(self.prompt(), Log(result.tokens)), REPLY)
        self.replies.append(Log(result.tokens))
        return result.computed_tokens


def ideal(steps: int, window: int = 3) -> int:
    work = Workload(1, steps, SYSTEM, SHOT, TEXT, REPLY, history="window", window=window)
    return work.ideal_computed()


@pytest.mark.parametrize("kind", ["hybrid", "attention", "mamba", "delta"])
def test_eight_steps_compute_no_token_twice_that_need_not_be(kind: str) -> None:
    core = Core(micro_model(kind), settings(kv_tokens=4096, state_rows=40))
    client = Client(core)
    computed = [client.step() for _ in range(8)]
    assert sum(computed[1:]) <= 1.01 * (ideal(8) - ideal(1))
    assert len(set(computed[3:])) == 1  # the same at every step, however long the history
    core.check_integrity()


def test_eight_steps_of_many_clients_at_once() -> None:
    """All share a system prompt; device and host hold what they leave behind."""
    core = Core(micro_model(), settings(kv_tokens=2048, state_rows=24, token_budget=64))
    clients = [Client(core, number) for number in range(6)]
    computed = 0
    for step in range(8):
        asked = [client.ask() for client in clients]
        counts = [client.heard(one) for client, one in zip(clients, asked, strict=True)]
        computed += sum(counts) if step else 0
    assert computed <= 1.01 * 6 * (ideal(8) - ideal(1))
    core.check_integrity()


def test_what_stands_in_a_dropped_pictures_place_does_not_matter() -> None:
    core = Core(micro_model(), settings(kv_tokens=4096, state_rows=40))
    client = Client(core, instead=[39, 38, 37])
    computed = [client.step() for _ in range(6)]
    turn, kept = 3 + TEXT + REPLY, 2 * (SHOT + TEXT + REPLY) + SHOT + TEXT
    assert computed[3:] == [turn + kept] * 3


def test_tokens_that_change_with_the_picture_cost_one_step() -> None:
    """A tokenizer may join the last letters before a picture with what follows it, once the picture is gone."""

    class Joining(Client):
        def prompt(self) -> Log:
            whole, step = words(SYSTEM), len(self.texts) - 1
            for n, text in enumerate(self.texts):
                shown = n > step - self.window
                lead = Log([30, 31]) if shown else Log([30, 32])
                whole = joined(whole, lead, picture(n) if shown else Log(), text)
                whole = joined(whole, self.replies[n]) if n < len(self.replies) else whole
            return whole

    core = Core(micro_model(), settings(kv_tokens=4096, state_rows=40))
    client = Joining(core)
    computed = [client.step() for _ in range(8)]
    assert computed[5] == computed[6] == computed[7] < 4 * (SHOT + TEXT + REPLY + 2) + 2
    assert computed[5] == TEXT + REPLY + 2 + 2 * (SHOT + TEXT + REPLY + 2) + SHOT + TEXT + 2 - 1


def test_what_a_client_has_moved_on_from_is_dropped_first() -> None:
    core = Core(micro_model(), settings(kv_tokens=4096, state_rows=12, host_bytes=0))
    client = Client(core)
    first = request(core, words(100, 9))
    first.finished(core)
    for _ in range(12):
        client.step()
    # With no host to move anything to, twelve requests fit because each makes the last one's states worthless.
    assert request(core, joined(words(100, 9), words(3, 4))).finished(core).cached_tokens >= 100
    core.check_integrity()


def test_a_second_request_may_part_at_the_same_place() -> None:
    core = Core(micro_model(), settings(kv_tokens=4096, state_rows=40))
    client = Client(core)
    for _ in range(5):
        client.step()
    again = Client(core, texts=list(client.texts[:4]), replies=list(client.replies[:4]))
    again.texts.append(words(TEXT, 99))
    result = request(core, again.prompt()).finished(core)
    assert result.computed_tokens < 4 * (SHOT + TEXT + REPLY)
    assert_greedy(core.model, joined(again.prompt(), Log(result.tokens)), REPLY)
