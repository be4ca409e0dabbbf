"""django-oscar as a transfer set: each task is done once through the shop's own links and forms, near misses fail."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import pytest

from holotron.errors import ConfigError
from holotron.sites.checks import Answered
from holotron.sites.tasks import STEPS
from holotron.sites.transfer.application import HostServer, TransferEpisode, make_transfer_episode, prepared
from holotron.sites.transfer.oscar import OSCAR
from holotron.suites.base import find_suite
from holotron.types import Click, Goto, Task, Write
from tests.sites.conftest import Run, host_server
from tests.sites.forms import StepCounter
from tests.sites.oscar_plans import edit_product, find, note, open_order, plan_of, put, set_status

SEED = 3


@pytest.fixture(scope="module")
def server() -> Iterator[HostServer]:
    yield from host_server(OSCAR)


class Player:
    def __init__(self, server: HostServer, name: str, seed: int) -> None:
        self.episode = TransferEpisode(OSCAR, name, seed)
        self.task = self.episode.assignment
        self.key = server.open(self.episode)
        self.web = StepCounter(f"http://127.0.0.1:{server.port}", server.headers(self.key))
        self.web.get(self.task.start)

    def reason(self, answer: str | None = None) -> str:
        verdict = self.episode.verdict(answer)
        assert not verdict.success
        return verdict.reason


Play = Callable[..., Player]


@pytest.fixture
def play(server: HostServer) -> Iterator[Play]:
    made: list[Player] = []

    def open_one(name: str, seed: int = SEED) -> Player:
        made.append(Player(server, name, seed))
        return made[-1]

    yield open_one
    for player in made:
        server.close_episode(player.key)


@pytest.mark.parametrize("task", list(OSCAR.tasks), ids=lambda task: task.name)
def test_every_task_can_be_done_within_its_length(play: Play, task: object) -> None:
    name, length = task.name, task.length  # type: ignore[attr-defined]
    player = play(name)
    before = player.episode.verdict()
    assert not before.success and not before.final and before.side_effects == ()
    answer = plan_of(name)(player.web, player.task)
    verdict = player.episode.verdict(answer)
    assert verdict.success, verdict.reason
    low, high = STEPS[length]
    assert low <= player.web.steps <= high
    if answer is None:  # anything more is too much
        player.web.submit("/dashboard/partners/create/", "name", name="Stray")
        assert "side effect" in player.reason()
    else:
        assert player.reason("I do not know") and player.reason() == "there is no answer yet"


def test_there_are_enough_tasks_of_three_lengths() -> None:
    lengths = [task.length for task in OSCAR.tasks]
    assert len(lengths) >= 20 and all(lengths.count(length) >= 4 for length in STEPS)
    with pytest.raises(ConfigError, match="buy-three"):
        OSCAR.tasks.find("buy-thre")
    with pytest.raises(ConfigError, match="with 'theme'"):
        make_transfer_episode(OSCAR, Task("oscar", "buy", options={"theme": "dark"}))


def test_what_may_be_impossible_is_both(play: Play) -> None:
    for name in ("basket-maybe", "order-cancel-maybe"):
        wanted = [TransferEpisode(OSCAR, name, seed).assignment.wanted[0] for seed in range(8)]
        assert {isinstance(want, Answered) for want in wanted} == {True, False}
        seed = next(seed for seed, want in enumerate(wanted) if not isinstance(want, Answered))
        possible = play(name, seed)
        assert "wanted" in possible.reason("This is impossible.")  # saying so does not help where it can be done


def test_near_misses_of_a_customer(play: Play) -> None:
    several = play("basket-several")
    put(several.web, several.task.wanted[0].values["product"])  # type: ignore[union-attr]
    assert "basket has quantity 1" in several.reason()

    wrong = play("basket")
    title = wrong.task.wanted[0].values["product"]  # type: ignore[union-attr]
    maker, thing = title.split(" ", 1)
    put(wrong.web, f"{'Birch' if maker != 'Birch' else 'Alder'} {thing}")
    assert "basket has product" in wrong.reason()

    sent = play("buy")
    line = sent.task.wanted[0].values["line1"]  # type: ignore[union-attr]
    other = next(row["line1"] for row in OSCAR.read(prepared(OSCAR))["addresses"].values() if row["line1"] != line)
    sent.task.wanted[0].values["line1"] = other  # type: ignore[union-attr]
    plan_of("buy")(sent.web, sent.task)
    sent.task.wanted[0].values["line1"] = line  # type: ignore[union-attr]
    verdict = sent.episode.verdict()
    assert other in verdict.reason and verdict.final  # an order stays

    stars = play("review")
    values = stars.task.wanted[0].values  # type: ignore[union-attr]
    values["score"] -= 1
    plan_of("review")(stars.web, stars.task)
    values["score"] += 1
    assert f"reviews has score {values['score'] - 1}" in stars.reason() and stars.episode.verdict().final

    both = play("price")
    wanted = both.task.wanted[0]
    assert isinstance(wanted, Answered)
    assert both.reason(f"It is {wanted.value} or {wanted.others[0]}.")
    assert both.episode.verdict(f"It costs £{wanted.value}.").success


def test_near_misses_of_the_staff(play: Play) -> None:
    stock = play("stock")
    find(stock.web, "Alder Kettle")
    stock.web.get("/dashboard/")
    edit_product(stock.web, "Alder Kettle", **{"stockrecords-0-num_in_stock": "241"})
    assert "was changed, not" in stock.reason()

    order = play("order-status")
    open_order(order.web, order.task.goal.split("order ")[1].split()[0])
    set_status(order.web, "Cancelled")
    assert "status 'Cancelled'" in order.reason()

    left = play("order-note")
    open_order(left.web, "100041" if "100041" not in left.task.goal else "100042")
    note(left.web, left.task.wanted[0].values["message"])  # type: ignore[union-attr]
    assert left.episode.verdict().final and "order_id" in left.reason()

    half = play("orders-dispatch")
    open_order(half.web, half.task.goal.split("Order ")[1].split(":")[0])
    set_status(half.web, "Being processed")
    verdict = half.episode.verdict()
    assert not verdict.success and verdict.partial == 0.25 and not verdict.final


def test_episodes_do_not_share_anything(play: Play) -> None:
    one, two = play("basket"), play("basket")
    assert one.episode.goal == two.episode.goal != play("basket", SEED + 1).episode.goal
    plan_of("basket")(one.web, one.task)
    assert one.episode.verdict().success and not two.episode.verdict().success
    assert "Your basket is empty" in two.web.get("/basket/")


def test_no_other_file_can_be_reached(server: HostServer, play: Play) -> None:
    web = play("basket").web
    for path in ("/media/..%2fshop.db", "/media/../shop.db", "/static/..%2f..%2f__init__.py", "/media//etc/passwd"):
        with pytest.raises(OSError, match="404"):
            web.get(f"http://127.0.0.1:{server.port}{path}")
    assert web.get("/media/1.png")


def test_it_starts_and_resets_quickly(server: HostServer) -> None:
    began = time.perf_counter()
    second = HostServer(OSCAR)
    started = time.perf_counter() - began
    second.close()
    episode = TransferEpisode(OSCAR, "buy", 1)
    began = time.perf_counter()
    key = server.open(episode)
    reset = time.perf_counter() - began
    server.close_episode(key)
    assert started < 10 and reset < 1, (started, reset)


@pytest.mark.browser
def test_in_a_browser_a_change_of_stock_ends_the_episode(server: HostServer, run: Run) -> None:
    """Through pixels, as a policy would, and through the page's own scripts: its editor must not change the product."""

    async def go() -> None:
        suite = find_suite("oscar", tasks="stock", seeds=range(SEED, SEED + 1))
        assert suite.held_out and suite.limits.steps == 30
        pool = suite.open(1)
        environment = await pool.acquire()

        async def place(what: str) -> tuple[float, float]:
            x, y = await environment.evaluate(
                f"(() => {{ const e = document.querySelector('{what}'); e.scrollIntoView({{block: 'center'}});"
                " const r = e.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; })()"
            )
            return x, y

        try:
            seen = await environment.reset(suite.tasks[0])
            assert seen.url == "http://quayside.example/dashboard/" and seen.viewport == (1280, 720)
            wanted = environment.episode.assignment.wanted[0]
            title = environment.task.goal.split("of the ")[1].split(" to ")[0]
            await environment.step(Goto("http://quayside.example/dashboard/catalogue/"))
            await environment.step(Write(title, *(await place("#id_title")), press_enter=True))
            await environment.step(Click(*(await place('a[href*="/dashboard/catalogue/products/"][href*="title="]'))))
            await environment.step(Click(*(await place('a[href="#product_stock"]'))))
            count = str(wanted.values["num_in_stock"])
            box = await place("#id_stockrecords-0-num_in_stock")
            await environment.step(Write(count, *box, overwrite=True))
            result = await environment.step(Click(*(await place('button[name="action"][value="save"]'))))
            assert result.done and result.success and result.reward == 1.0, (result.info, result.observation.url)
        finally:
            await pool.release(environment)
            await pool.close()

    run(go())


def test_products_can_be_browsed_and_searched(play: Play) -> None:
    web = play("basket").web

    def titles(url: str) -> list[str]:
        return re.findall(r'alt="([^"]*)" class="img-thumbnail', web.get(url))

    assert len(titles("/catalogue/")) == 20 and len(titles("/catalogue/?page=4")) == 12
    assert set(titles("/catalogue/")).isdisjoint(titles("/catalogue/?page=2"))
    assert titles("/search/?q=kettle+alder") == ["Alder Kettle"] and titles("/search/?q=nonsense") == []
    assert "Alder Towel" in titles("/catalogue/category/bath_2/") and "Alder Kettle" not in web.page
    dearest = titles("/search/?q=kettle&sort_by=price-desc")
    assert len(dearest) == 3 and dearest == titles("/search/?q=kettle&sort_by=price-asc")[::-1]
