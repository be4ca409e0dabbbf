"""`holotron plan --agents`: figures that are on record, arithmetic that can be followed, input that can be wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holotron.bench import measured
from holotron.bench.measured import Measured
from holotron.bench.scale import Assumptions, Scale, choose_rate, context_of
from tests.cli.calling import call, refused

SCALE = Path(__file__).parents[2] / "docs" / "scale.md"
LEDGER = Path(__file__).parents[2] / "docs" / "lab" / "ledger.md"
RATES = [rate for rates in measured.RATES.values() for rate in rates]
FIGURES = [*(rate.measured for rate in RATES), *measured.ALL]


def scale(**said: float) -> Scale:
    given = Assumptions().but({name: str(value) for name, value in said.items()})
    return Scale.of("holotron-12b", "bf16", lambda tokens: 150_000_000 + tokens * 24_576, 100 << 30, given)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: f"{figure.value:g} {figure.unit} {figure.commit}")
def test_every_figure_is_in_the_ledger(figure: Measured) -> None:
    """Below a heading of its date with its commit: the number, and the benchmark that gave it."""
    sections = re.split(r"^## ", LEDGER.read_text(), flags=re.MULTILINE)
    number = re.compile(rf"(?<![\d.]){re.escape(f'{figure.value:g}')}(?![\d]|\.\d)")
    program = re.search(r"[\w./]+\.py|nemotron\S+|/proc/PID/stat", figure.command)
    assert program is not None
    found = [
        section
        for section in sections
        if section.startswith(figure.date) and figure.commit in section and number.search(section)
    ]
    assert any(program[0] in section for section in found)


def test_the_arithmetic_in_full() -> None:
    """12B in bf16, tasks of 12 steps: 7.26 steps/s with 100 sessions; the tower takes 26.6 ms of each."""
    one = scale()
    per_second = 1 / (1 / 7.26 + 0.0266)
    assert one.steps_per_second == pytest.approx(per_second)
    assert one.agents_per_gpu == pytest.approx(100 + per_second * 1.0)
    assert one.step_seconds == pytest.approx((100 + per_second) / per_second)
    need = one.need(10_000)
    steps = 10_000 / one.step_seconds
    assert need.gpus == 104  # 10,000 / 106.1 agents, and a tenth more
    assert need.browser_cores == pytest.approx(steps * 0.060 * 3 / 0.7)
    assert need.server_cores == pytest.approx(104 + steps * (0.0582 + 0.0261) / 0.7)
    assert need.gbit == pytest.approx(steps * 0.58 * 4 / 3 * 8 / 1000)
    assert need.entrances == 4
    assert need.cost["GPUs"] == pytest.approx(1e6 / steps / 3600 * 104 * 3.5)
    assert need.cost["recordings, a month"] == pytest.approx(0.58 * 20)
    assert context_of(12) == 1024 + 12 * 2528


def test_the_tower_added_is_near_the_tower_measured() -> None:
    """agent-100 with pictures was measured: 6.42 steps/s, over two steps (ledger, 88eca11)."""
    with_tower = scale(task_steps=6, sessions_per_gpu=100).steps_per_second
    assert with_tower == pytest.approx(6.42, rel=0.05)
    assert scale(task_steps=6, tower=0, sessions_per_gpu=100).steps_per_second == pytest.approx(8.07)


@given(agents=st.integers(1, 5_000_000), more=st.integers(1, 1000), pages=st.floats(0.5, 20))
def test_more_agents_never_need_less(agents: int, more: int, pages: float) -> None:
    one = scale(page_weight=pages)
    few, many = one.need(agents), one.need(agents + more)
    for name in ("gpus", "cores", "host_gib", "gbit", "entrances", "tb_per_day", "browser_machines"):
        assert getattr(many, name) >= getattr(few, name)
    assert few.gpus * one.agents_per_gpu >= agents
    for limit in one.limits():
        assert limit.agents >= 1
    assert one.need(max(1, next(x.agents for x in one.limits() if x.what == "one entrance"))).entrances == 1


def test_what_memory_cannot_hold_lies_on_the_host() -> None:
    roomy, tight = scale(), scale()
    tight = Scale(tight.rate, tight.given, tight.session_bytes, 10 << 30)
    assert roomy.overflow_bytes == 0
    assert tight.need(1000).server_gib - roomy.need(1000).server_gib == pytest.approx(
        tight.overflow_bytes / 2**30 * 1000 / tight.agents_per_gpu
    )


def test_longer_tasks_take_the_next_longer_measurement() -> None:
    chosen = [choose_rate("holotron-12b", "bf16", Assumptions(task_steps=n)) for n in (0, 5, 7, 24)]
    assert [(rate.steps, rate.sessions) for rate in chosen] == [(12, 100), (6, 100), (12, 100), (24, 50)]
    assert choose_rate("nemotron-3-nano-30b-a3b", "fp8", Assumptions()).measured.value == 22.5
    own = choose_rate("mine", "bf16", Assumptions(steps_per_second=3.0, sessions_per_gpu=20))
    assert (own.measured.value, own.sessions) == (3.0, 20)
    fast = Scale(own, Assumptions(environment_seconds=0, sessions_per_gpu=0.5), 1, 1)
    assert fast.need(1).gpus == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--agents", "0"), "at least 1"),
        (("--agents", "10", "--assume", "gpu_hour"), "write NAME=VALUE"),
        (("--agents", "10", "--assume", "gpu_our=2"), "did you mean gpu_hour"),
        (("--agents", "10", "--assume", "gpu_hour=two"), "say a number from 0"),
        (("--agents", "10", "--assume", "utilisation=0"), "from 0.01 to 1"),
        (("--agents", "10", "--assume", "page_weight=0"), "from 0.01"),
        (("--agents", "10", "--assume", "gpu_hour=nan"), "say a number"),
        (("--agents", "10", "--sessions", "5"), "sessions_per_gpu=N"),
        (("holotron-12b", "holo2-8b", "--agents", "10"), "one model at a time"),
        (("--agents", "10", "--assume", "task_steps=100"), "was measured up to 24"),
        (("--agents", "10", "--assume", "sessions_per_gpu=33"), "25 or 50 or 100 or 200"),
        (("--agents", "10", "--gpu", "H100"), "measured on an H200 only"),
        (("holo2-8b", "--agents", "10"), "nobody has measured"),
        (("--assume", "gpu_hour=2"), "belongs to --agents"),
        (("--agents", "10", "--plot", "needs.xls"), ".png, .svg or .pdf"),
    ],
)
def test_wrong_input_is_one_line(words: tuple[str, ...], says: str) -> None:
    assert says in refused("plan", *words)


def test_the_command_prints_measurements_and_assumptions(tmp_path: Path) -> None:
    plot = tmp_path / "needs.svg"
    told = json.loads(call("plan", "--agents", 10_000, "--assume", "gpu-hour=2", "--json", "--plot", plot).out)
    assert told["need"]["gpus"] == 104 and told["one_gpu"]["task_steps"] == 12
    assert {"gpu_hour": 2.0}.items() <= {one["name"]: one["value"] for one in told["assumed"]}.items()
    assert all(one["hardware"] and one["command"] for one in told["measured"])
    assert told["need"]["cost_total"] == pytest.approx(sum(told["need"]["cost"].values()))
    assert [one["agents"] for one in told["limits"]] == sorted(one["agents"] for one in told["limits"])
    assert plot.read_text().lstrip().startswith("<?xml")
    shown = call("plan", "--agents", "10000").out
    for words in (
        "10,000 agents",
        "What breaks first",
        "one entrance",
        "Measured",
        "0876bb9",
        "Assumed",
        "page_weight=3",
    ):
        assert words in shown


@pytest.mark.parametrize("agents", [1_000, 10_000, 1_000_000])
def test_the_docs_say_what_the_model_says(agents: int) -> None:
    need = json.loads(call("plan", "--agents", agents, "--json").out)["need"]
    shapes = {
        "steps_per_second": ",.0f",
        "gpus": ",",
        "cores": ",.0f",
        "host_gib": ",.0f",
        "entrances": ",",
        "gbit": ",.2f",
    }
    shapes |= {"tb_per_day": ",.1f", "stops_per_day": ".2f", "cost_total": ".0f"}
    row = " | ".join([f"| {agents:,}", *(format(need[name], shape) for name, shape in shapes.items())]) + " |"
    assert row in SCALE.read_text().splitlines()
