"""The table goes on where it stopped, and its parts count what really happened."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from holotron.bench import agreement, iterations
from holotron.model.loading import load_model

STRETCHES = ("0-2", "2-4", "4-8")
FOLDER = Path(__file__).parents[2] / "benchmarks"
SOURCES = {**os.environ, "PYTHONPATH": str(FOLDER.parent / "src")}


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))  # as for every script: what it is split into lies beside it
        spec.loader.exec_module(module)
    return module


def run(module: ModuleType, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.setattr(sys, "argv", [module.__name__, *words])
    module.main()


def test_rows_are_measured_once_and_failures_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = script("core_table")
    out = tmp_path / "core.json"
    words = ["--model", "tiny", "--sessions", "2", "--steps", "1", "--context", "128", "--tokens", "3"]
    words += ["--token-budget", "64", "--rows", "decode-bf16,agent-bf16", "--out", str(out)]
    run(table, monkeypatch, words)
    first = json.loads(out.read_text())
    assert first["decode-bf16"]["generated_tokens_per_second"] > 0
    assert first["agent-bf16"]["agent_steps_per_second"] > 0

    def explode(*_: Any) -> dict[str, Any]:
        raise RuntimeError("measured again")

    rows = {name: table.Row("a row", explode, "x", "") for name in ("decode-bf16", "agent-bf16", "tiles")}
    monkeypatch.setattr(table, "ROWS", rows)
    run(table, monkeypatch, words)
    assert json.loads(out.read_text()) == first
    run(table, monkeypatch, [*words, "--rows", "decode-bf16,tiles"])
    assert json.loads(out.read_text()) == {**first, "tiles": json.loads(out.read_text())["tiles"]}
    assert "failed: RuntimeError: measured again" in capsys.readouterr().out


def test_the_grid_goes_on_and_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = script("grid")
    out, picture = tmp_path / "grid.json", tmp_path / "curve.png"
    words = ["--model", "tiny", "--against", "tiny-transformer", "--counts", "1,2", "--sessions", "2", "--small"]
    words += ["--steps", "2,4,8", "--token-budget", "64", "--out", str(out)]
    run(grid, monkeypatch, [*words, "--minutes", "0"])
    assert not out.exists()  # no time, no stretch
    run(grid, monkeypatch, [*words, "--only", "curve", "--plot", str(picture)])
    found = json.loads(out.read_text())
    assert set(found) == {f"{model}/{n}/0-2" for model in ("tiny", "tiny-transformer") for n in (1, 2)}
    assert picture.stat().st_size > 1000
    run(grid, monkeypatch, [*words, "--each", "1"])  # the curve's are there already
    more = json.loads(out.read_text())
    assert {key: more[key] for key in found} == found
    assert set(more) - set(found) == {"tiny/2/2-4", "tiny/2/4-8"}
    assert all(one["session_bytes"] == one["planned_session_bytes"] for one in more.values())
    measured = [(more[f"tiny/2/{steps}"]["workload"]["begun"], more[f"tiny/2/{steps}"]["steps"]) for steps in STRETCHES]
    assert measured == [(0, 4), (2, 2), (5, 2)]


def test_rows_of_speed_share_a_process_and_a_failed_one_costs_only_itself() -> None:
    rows = script("speed_rows")
    names = ["1-bf16", "7-fp8", "7-fp8-tower", "1-fp8", "4-bf16", "9"]
    assert rows.groups(names) == [["1-bf16", "7-fp8", "7-fp8-tower"], ["1-fp8"], ["4-bf16"], ["9"]]

    def run(*words: str) -> list[dict[str, Any]]:
        command = [sys.executable, str(FOLDER / "speed_rows.py"), "--small", *words]
        done = subprocess.run(command, capture_output=True, text=True, env=SOURCES)
        assert (done.returncode != 0) == ("error" in done.stdout), done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    first, second, third = run("--rows", "1-bf16,2-bf16,12")
    assert (first["row"], second["row"], third["row"]) == ("1-bf16", "2-bf16", "12")
    assert first["load_seconds"] == second["load_seconds"] and second["over_ideal"] == 1.0
    assert (first["steps"], second["steps"], third["figure"]) == (6, 12, third["p50"])
    broken, late = run("--rows", "1-bf16,11", "--minutes", "0.3", "--engine", "page_size=0")
    assert "page_size" in broken["error"]
    assert "page_size" in late["error"] or "not end in time" in late["error"]


LIBRARY = """
import asyncio, http.server, json, sys, types

class SamplingParams(types.SimpleNamespace):
    def __init__(self, **values):
        super().__init__(**values)

class AsyncEngineArgs(SamplingParams): pass
class TokensPrompt(SamplingParams): pass

class AsyncLLM:
    seen = set()

    @classmethod
    def from_engine_args(cls, args):
        shape = json.load(open(args.model + "/config.json"))
        assert args.load_format == "dummy" and args.mamba_ssm_cache_dtype == "float32" and shape["hidden_size"]
        return cls()

    async def generate(self, prompt, sampling, request_id):
        assert request_id not in self.seen
        self.seen.add(request_id)
        await asyncio.sleep(0.005)
        tokens = [types.SimpleNamespace(token_ids=list(range(sampling.max_tokens)))]
        yield types.SimpleNamespace(outputs=tokens, num_cached_tokens=len(prompt.prompt_token_ids) // 2)

    def shutdown(self): pass

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.say({"data": [{"id": "model"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        count = sum(len(str(message["content"]).split()) for message in body["messages"])
        usage = {"prompt_tokens": count, "completion_tokens": body["max_tokens"], "total_tokens": 0}
        message = {"role": "assistant", "content": "yes"}
        self.say({"id": "1", "object": "chat.completion", "created": 0, "model": "model", "usage": usage,
                  "choices": [{"index": 0, "message": message, "finish_reason": "length"}]})

    def say(self, what):
        data = json.dumps(what).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words): pass

def serve():
    port = sys.argv[sys.argv.index("--port") + 1]
    assert json.load(open(sys.argv[sys.argv.index("--model") + 1] + "/config.json"))
    assert sys.argv[sys.argv.index("--quantization") + 1] == "fp8"
    http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Answer).serve_forever()
"""


def test_rows_on_vllm_are_told_beside_ours_with_their_ratio(tmp_path: Path) -> None:
    """Against something that only answers as vLLM does: what is started, shared and compared."""
    parts = {
        "__init__": LIBRARY,
        "engine/arg_utils": "from vllm import AsyncEngineArgs",
        "v1/engine/async_llm": "from vllm import AsyncLLM",
        "inputs": "from vllm import TokensPrompt",
        "entrypoints/openai/api_server": "from vllm import serve\nserve()",
    }
    for name, text in parts.items():
        file = tmp_path / "site" / "vllm" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    out = tmp_path / "rows.jsonl"

    def run(rows: str) -> list[dict[str, Any]]:
        command = [sys.executable, str(FOLDER / "speed_rows.py"), "--small", "--rows", rows]
        command += ["--vllm", str(tmp_path / "site"), "--out", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, env=SOURCES)
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    first, second, served, one = run("1-bf16-vllm,2-bf16-vllm,9-tower-vllm,12-tower-vllm")
    assert (first["steps"], second["steps"], served["steps"], one["steps"]) == (6, 12, 6, 6)
    assert first["start_seconds"] == second["start_seconds"] and served["start_seconds"] == one["start_seconds"]
    assert first["cached_share"] == pytest.approx(0.5, abs=0.1)
    ours, compared = run("1-bf16")
    assert compared["ratio"] == "1-bf16"
    assert compared["figure"] == pytest.approx(ours["figure"] / first["figure"], abs=1e-3)
    assert compared["met"] == (compared["figure"] >= 1.38)
    assert len(out.read_text().splitlines()) == 6


def test_growth_is_put_together_from_stretches() -> None:
    grid = script("grid")
    done = {"m/10/0-6": 10.0, "m/10/6-12": 5.0, "m/10/12-24": 2.5, "m/20/0-6": 8.0}
    rows = {key: {"agent_steps_per_second": rate} for key, rate in done.items()}
    args = argparse.Namespace(model="m", sessions="10,20", steps="6,12,24")
    _, _, ten, twenty = grid.growth(rows, args).splitlines()
    # 6 x 0.1 s, 6 x 0.2 s, 12 x 0.4 s; a step costs 0.2 s around step 9 and 0.4 s around 18, so 0.6 s around 27.
    assert ten.startswith(f"| 10 | 10 | {12 / 1.8:.3g} | {24 / 6.6:.3g} | {3600 / (6.6 + 6 * 0.6):,.0f} (")
    assert twenty == "| 20 | 8 | - | - |  |"


@pytest.mark.parametrize("overlap", [False, True])
def test_iterations_generate_one_token_for_each_session(overlap: bool) -> None:
    model = load_model("tiny").model
    options = {"overlap": overlap, "graphs": True, "token_budget": 64}
    timed = iterations.decode(model, 3, 100, 5, options, profile=False)
    assert (timed.iterations, timed.generated_tokens, timed.prompt_tokens) == (5, 15, 0)
    assert 0 < timed.host_seconds <= timed.seconds
    mixed = iterations.mixed(model, 4, 60, 2000, 6, options, profile=False)
    assert mixed.generated_tokens == 2 * 6
    assert 0 < mixed.prompt_tokens <= 6 * (64 - 2)  # what the decodes leave of the budget, cut at the scan's grid


def test_agreement_is_perfect_with_oneself_and_ranks_the_options() -> None:
    found = agreement.measure(load_model("tiny").model, sequences=2, prompt=40, count=20)
    assert found["the same again"] == {"logit_error": 0.0, "kl": 0.0, "same_favourite": 1.0}
    assert found["replay"]["logit_error"] < 1e-5 < found["8-bit keys and values"]["logit_error"]
    assert found["8-bit keys and values"]["logit_error"] < found["8-bit projections"]["logit_error"] < 0.5
