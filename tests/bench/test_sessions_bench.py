"""The benchmark counts what really happened: checked against the engine's own counters and arithmetic."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from holotron.bench import command, inprocess, remote
from holotron.bench.command import engine_settings, main
from holotron.bench.presets import PRESETS
from holotron.bench.report import BenchReport, Step, percentile, table
from holotron.bench.workload import Agent, Workload, system_prompt
from holotron.errors import ConfigError
from holotron.model.presets import preset
from tests.server.process import ServerProcess, running

SMALL = Workload(
    sessions=3,
    steps=4,
    system_tokens=40,
    screenshot_tokens=30,
    text_tokens=6,
    generate_tokens=5,
    window=2,
    epoch_steps=2,
    summary_tokens=7,
)


def small(**changes: object) -> Workload:
    return replace(SMALL, **changes)


def test_agent_100_is_the_default() -> None:
    w = Workload()
    assert (w.sessions, w.steps, w.system_tokens, w.step_tokens, w.generate_tokens) == (100, 6, 1024, 2400, 128)
    assert w.ideal_cached_share() == pytest.approx(0.753, abs=0.002)
    assert w.longest_context == 1024 + 6 * (2400 + 128)


def test_histories_send_what_they_say() -> None:
    def sent(history: str) -> list[tuple[bool, int]]:
        agent = Agent(small(history=history), 0, range(300))
        lengths = []
        for _ in range(4):
            step = agent.next()
            lengths.append((step.anew, len(step.tokens)))
            agent.replied([1] * 5)
        return lengths

    assert sent("append") == [(False, 36)] * 4
    # All texts and replies, the last two screenshots.
    assert sent("window") == [(False, 36), (True, 36 * 2 + 5), (True, 36 * 2 + 6 + 10), (True, 36 * 2 + 12 + 15)]
    # Every second step starts over: a summary, two steps with their replies, the new one.
    assert sent("epoch") == [(False, 36), (False, 36), (True, 7 + 2 * 41 + 36), (False, 36)]


def test_deltas_send_what_has_changed() -> None:
    w = Workload(unchanged=0.42, deltas=True)
    # 58 % of the tokens, the mark, and 36 addresses of three signs.
    assert [w.shown_tokens(step) for step in (0, 1, 5)] == [2304, 1336 + 1 + 108, 1336 + 1 + 108]
    assert w.longest_context == 1024 + 6 * (96 + 128) + 2304 + 5 * 1445
    assert 0 < w.ideal_cached_share() < 1
    assert Workload(unchanged=1.0, deltas=True).shown_tokens(1) == 1
    assert Workload(unchanged=0.0, deltas=True).shown_tokens(1) == 2304
    assert Workload(unchanged=0.42).shown_tokens(1) == 2304  # nothing is saved without them
    with pytest.raises(ConfigError, match="history append"):
        Workload(deltas=True, history="window")
    with pytest.raises(ConfigError, match="between 0 and 1"):
        Workload(unchanged=42)


def test_deltas_in_process_with_tokens_and_with_pictures() -> None:
    tokens = inprocess.measure("tiny", small(unchanged=0.5, deltas=True), device="cpu", engine={"page_size": 16})
    sizes = {step.number: step.prompt_tokens for step in tokens.steps}
    assert sizes[0] == 40 + 36
    assert sizes[1] - sizes[0] == 5 + 6 + (15 + 1 + 3)
    pictures = small(sessions=1, steps=3, screenshot_tokens=82, picture=(128, 128), unchanged=0.5)
    whole = inprocess.measure("tiny", pictures, device="cpu", engine={"page_size": 16})
    told = inprocess.measure("tiny", replace(pictures, deltas=True), device="cpu", engine={"page_size": 16})
    assert told.steps[0].prompt_tokens == whole.steps[0].prompt_tokens
    saved = whole.steps[2].prompt_tokens - told.steps[2].prompt_tokens
    assert 2 * 10 < saved < 2 * 40  # of 80 tokens a screen about half, less the addresses


def test_sessions_differ_and_repeat() -> None:
    def first(seed: int, number: int) -> list[int]:
        return Agent(small(seed=seed), number, range(10_000)).next().tokens

    assert first(0, 0) == first(0, 0)
    assert first(0, 0) != first(0, 1)
    assert first(0, 0) != first(1, 0)
    assert system_prompt(SMALL, range(500)) == system_prompt(SMALL, range(500))


@pytest.mark.parametrize("history", ["append", "window", "epoch"])
def test_in_process(history: str) -> None:
    workload = small(history=history)
    report = inprocess.measure("tiny", workload, device="cpu", engine={"page_size": 16})
    assert len(report.steps) == 12
    assert report.generated_tokens == 12 * 5
    steps = {(step.session, step.number): step for step in report.steps}
    agent = Agent(workload, 0, range(100))
    context = 0
    for number in range(4):
        sent = agent.next()
        agent.replied([0] * 5)
        context = (40 if sent.anew or number == 0 else context) + len(sent.tokens)
        assert steps[0, number].prompt_tokens == context
        if history != "window":
            # New tokens, and the last one sampled before them.
            new = len(sent.tokens) + (0 if sent.anew or number == 0 else 1)
            assert steps[0, number].prompt_tokens - steps[0, number].cached_tokens == new
        context += 5
    assert report.host_bytes > 0
    assert report.device_bytes is None


def test_the_numbers_add_up() -> None:
    steps = tuple(Step(0, n, float(n + 1), 100, 60, 10) for n in range(10))
    report = BenchReport("here", "m", small(sessions=1, steps=10), 20.0, steps, device_bytes=2**30, host_bytes=2**31)
    d = report.as_dict()
    assert d["agent_steps_per_second"] == 0.5
    assert d["computed_tokens_per_second"] == 20
    assert d["cached_tokens_per_second"] == 30
    assert d["generated_tokens_per_second"] == 5
    assert d["total_tokens_per_second"] == 55
    assert d["cached_share"] == 0.6
    assert d["step_seconds"]["p50"] == 5.5
    assert "1.00, 2.00" in table([report])
    unknown = BenchReport("here", "m", SMALL, 1.0, (Step(0, 0, 1.0, 10, None, 1),)).as_dict()
    assert unknown["computed_tokens_per_second"] is None
    json.dumps(unknown)


def test_percentiles() -> None:
    assert percentile([3, 1, 2], 0.5) == 2
    assert percentile([1, 2], 0.95) == pytest.approx(1.95)
    assert percentile([7], 0.99) == 7
    assert math.isnan(percentile([], 0.5))


def test_engine_settings() -> None:
    assert engine_settings(["page_size=32", "kv_dtype=float16", "prefetch=true"]) == {
        "page_size": 32,
        "kv_dtype": "float16",
        "prefetch": True,
    }
    for wrong in ("pages=3", "page_size", "page_size=x"):
        with pytest.raises(ConfigError):
            engine_settings([wrong])


@pytest.fixture(scope="module")
def server() -> ServerProcess:
    with running("tiny", "--memory.sessions", "8", "--memory.context", "1024") as process:
        yield process


@pytest.mark.parametrize(
    ("api", "history"),
    [
        ("completions", "append"),
        ("sessions", "append"),
        ("sessions", "epoch"),
        ("chat", "window"),
        ("chat-sessions", "append"),
    ],
)
def test_against_a_server(server: ServerProcess, api: str, history: str) -> None:
    picture = (64, 64) if api.startswith("chat") else None
    target = remote.Remote(f"{server.url}/v1", "tiny", api, range(0, 200))
    before = server.settled()
    report = remote.measure(target, small(history=history, sessions=2, steps=3, picture=picture))
    after = server.settled()
    assert report.failures == 0
    assert len(report.steps) == 6
    assert report.generated_tokens == 6 * 5
    generated = after["holotron_generated_tokens_total"] - before["holotron_generated_tokens_total"]
    # Before them the first of all (of a chat two, to learn how long a word is), and a step of each session.
    assert generated == report.generated_tokens + (2 if picture else 1) + 2 * 5
    later = [step for step in report.steps if step.number == 1]
    computed = [step.prompt_tokens - step.cached_tokens for step in later]
    if api == "chat-sessions":
        first = min(step.prompt_tokens for step in report.steps if step.number == 0)
        assert all(10 < tokens < first for tokens in computed)  # the new message alone
    if api == "sessions":
        assert computed == [36 + 1] * 2
    if api.endswith("sessions"):
        assert after["holotron_sessions_open"] == before["holotron_sessions_open"]


def test_a_server_says_which_tokens_it_has(server: ServerProcess) -> None:
    target = remote.connect(f"{server.url}/v1", None, "completions")
    assert target.model == "tiny" and target.vocabulary == preset("tiny").text_tokens
    assert remote.connect(f"{server.url}/v1", None, "completions", vocabulary=range(5)).vocabulary == range(5)
    assert remote.measure(target, small(sessions=1, steps=1)).failures == 0


def test_failures_stand_beside_the_figures(server: ServerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    """Every third token or so is none of this model's: most sessions break off."""
    words = ["sessions", "--url", f"{server.url}/v1", "--vocabulary", "0:330", "--sessions", "6", "--steps", "2"]
    status = main([*words, "--system", "1", "--screenshot", "4", "--text", "4", "--generate", "1"])
    out = capsys.readouterr().out
    assert status == 1
    assert re.search(r"FAILED: \d of 6 sessions of tiny broke off, \d+ of 12 steps were made", out)
    assert "is not a token id" in out


def test_pictures_in_this_process_are_seen() -> None:
    sizes = ["--sessions", "1", "--steps", "1", "--system", "8", "--screenshot", "8", "--generate", "1"]
    plain, seen = (
        command.measure(args, "tiny", command.workload_of(args))
        for args in (command.parse(["sessions", "tiny", *sizes, *more]) for more in ([], ["--picture", "64x64"]))
    )
    assert seen.prompt_tokens != plain.prompt_tokens


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = [
        "--steps",
        "1",
        "--system",
        "16",
        "--screenshot",
        "16",
        "--text",
        "4",
        "--generate",
        "2",
        "--device",
        "cpu",
    ]
    files = ["--json", str(tmp_path / "out.json"), "--plot", str(tmp_path / "curve.png")]
    assert main(["sessions", "tiny", "--against", "tiny-transformer", "--sweep", "1,2", *sizes, *files]) == 0
    reports = json.loads((tmp_path / "out.json").read_text())
    assert [(r["model"], r["workload"]["sessions"]) for r in reports] == [
        ("tiny", 1),
        ("tiny", 2),
        ("tiny-transformer", 1),
        ("tiny-transformer", 2),
    ]
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert "agent-steps/s" in capsys.readouterr().out


def test_it_needs_nothing_but_the_model() -> None:
    """It has to run on a GPU machine that has neither a server nor a client installed."""
    code = """
import sys
from holotron.bench import command, inprocess
assert not {"fastapi", "pydantic", "httpx", "httpcore", "openai", "typer", "uvicorn", "matplotlib"} & set(sys.modules)
"""
    source = str(Path(__file__).parents[2] / "src")
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": source})


def test_late_steps_without_the_early_ones() -> None:
    """Two steps after two that were made up: prompts as long, and as much of them cached, as in a whole run."""
    for engine in ({}, {"state_rows": 3, "kv_tokens": 400, "host_bytes": 1 << 30}):  # the second: not all fit at once
        whole = inprocess.measure("tiny", small(), device="cpu", engine={"page_size": 16, **engine})
        late = inprocess.measure("tiny", small(begun=2, steps=2), device="cpu", engine={"page_size": 16, **engine})

        def sizes(report: BenchReport) -> dict[tuple[int, int], tuple[int, int | None]]:
            return {(s.session, s.number): (s.prompt_tokens, s.cached_tokens) for s in report.steps if s.number >= 2}

        assert len(late.steps) == 6
        assert sizes(late) == sizes(whole)
        assert late.workload.longest_context == whole.workload.longest_context
    window = inprocess.measure("tiny", small(begun=3, steps=1, history="window"), device="cpu")
    assert {step.prompt_tokens for step in window.steps} == {40 + 36 * 2 + 12 + 15}
    with pytest.raises(ConfigError, match="skipped"):
        small(begun=1, history="epoch")


def test_a_window_of_three_screenshots_is_computed_from_where_it_changed() -> None:
    """Eight steps, as the ledger counts them: at most one token in a hundred more than a perfect memory."""
    work = Workload(3, 8, 64, 96, 16, 8, history="window")
    assert Workload(steps=4, history="window").ideal_computed() == 2400 + 2 * 2401 + 7680
    report = inprocess.measure("tiny", work, device="cpu", dtype=torch.float32)
    assert report.computed_over_ideal is not None
    assert 1.0 <= report.computed_over_ideal <= 1.01
    assert report.as_dict()["engine"]["integrity_failures"] == 0


def test_presets_stand_in_for_what_is_not_said() -> None:
    args = command.parse(["sessions", "tiny", "--preset", "window-3", "--sessions", "4"])
    assert (args.history, args.steps, args.sessions) == ("window", 8, 4)
    for name in PRESETS:
        words = ["sessions", "tiny", "--preset", name]
        words += ["--url", "http://127.0.0.1:1/v1"] if name.startswith("http") else []
        command.workload_of(command.parse(words))  # all of them are workloads
