"""Every command with input of every wrong kind: one line that says what to do, a status, and never a traceback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from holotron.bench import command as bench
from holotron.cli.machine import EXTRAS
from tests.cli.calling import call, refused


@pytest.fixture(autouse=True)
def things(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with one of each kind of thing that is not what was meant."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").write_text("")
    for name in ("binary", "binary.toml", "binary.jsonl"):
        (tmp_path / name).write_bytes(bytes(range(256)) * 8)
    (tmp_path / "broken.json").write_text('{"a": ')
    (tmp_path / "broken.jsonl").write_text('{"url": "http://x", "goal": "y"}\n{"url": \n')
    (tmp_path / "list.json").write_text("[1, 2, 3]")
    for name, text in (("fake", "{}"), ("torn", "not json")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(text)
        (tmp_path / name / "manifest.json").write_text(text)
    (tmp_path / "code.py").write_text("def three(request): return 3\ndef fails(request): raise ValueError('no')\n")
    (tmp_path / "typo.py").write_text("def x(:\n")
    return tmp_path


PATHS = ("missing", "folder", "empty", "binary", "broken.json", "list.json", "fake", "torn", "/proc/nothing")


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_is_not_what_was_meant(path: str):
    for words in (
        ("report", path),
        ("export", path, "out.jsonl"),
        ("export", path, "out.zip"),
        ("model", "show", path),
        ("data", "verify", path),
        ("data", "hash", path),
        ("data", "sheet", path, "sheet.html"),
        ("eval", "compare", path, path),
        ("eval", "localisation", path, "--policy", "random"),
        ("judge", "calibrate", path, path),
        ("train", "sft", path + ".toml"),
        ("train", "show", path + ".toml"),
        ("plan", path),
        ("serve", path),
        ("bench", "sessions", path),
        ("data", "annotate", path, "labels", "--policy", "tiny", "--instruction", "x"),
    ):
        refused(*words)
    assert call("model", "check", path).status == 1  # what it says is its output


@pytest.mark.parametrize("path", ["folder", "empty", "binary.toml", "broken.json", "/proc/nothing"])
def test_a_recipe_that_is_none(path: str):
    for kind in ("sft", "rl"):
        called = call("train", kind, path, "--dry-run")
        assert called.status == 2
        assert called.err.startswith("holotron: ") and "Traceback" not in called.err


@pytest.mark.parametrize(
    "words",
    [
        ("rollout", "--policy", "random", "--tasks", "click-test", "--out", "empty"),
        ("rollout", "--policy", "random", "--tasks", "click-test", "--out", "/proc/run"),
        ("run", "x", "--url", "http://127.0.0.1:1", "--policy", "random", "--out", "empty"),
        ("model", "init", "tiny", "empty"),
        ("model", "init", "tiny", "/proc/model"),
        ("plan", "tiny", "--plot", "/proc/plan"),
        ("data", "synth", "empty", "--pages", "1"),
        ("data", "drawn", "empty", "--pages", "1"),
        ("train", "sft", "holotron-mini/0-reading", "--out", "empty"),
    ],
)
def test_a_place_that_cannot_be_written_to(words: tuple[str, ...]):
    refused(*words)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        # commands and options
        (("rollot",), "Did you mean 'rollout'?"),
        (("train", "stf", "x"), "Did you mean 'sft'?"),
        (("rollout", "--polcy", "x"), "Did you mean --policy?"),
        (("run", "x"), "missing option '--url'. See: holotron run --help"),
        (("run", "x", "--url", "y", "--steps", "0"), "'--steps': at least 1"),
        (("run", "x", "--url", "y", "--confirm", "alway"), "'never', 'critical', 'always'"),
        (("plan", "--memory", "-3"), "'--memory': at least"),
        (("plan", "--fraction", "7"), "'--fraction': at most 1"),
        (("plan", "--context", "-5"), "write 16384, 16k"),
        (("plan", "--sessions", "0"), "'--sessions': at least 1"),
        (("sites", "serve", "shop", "--port", "99999"), "'--port': at most 65535"),
        # names
        (("plan", "holotron-12c"), "did you mean holotron-12b"),
        (("plan", "--gpu", "H20"), "did you mean H200"),
        (("plan", "--gpu", "2xH100"), "a model runs on one GPU: plan for H100, and start 2 servers"),
        (("serve", "tinny"), "did you mean tiny?"),
        (("serve", "tiny", "--server.prt", "1"), "did you mean server.port?"),
        (("model", "init", "preset:tinny", "x"), "did you mean tiny?"),
        (("bench", "sessions", "tinny"), "did you mean tiny?"),
        (("bench", "sessions", "tiny", "--engine", "tken_budget=1"), "did you mean token_budget?"),
        (("rollout", "--policy", "rndom", "--out", "r"), "did you mean random?"),
        (("rollout", "--policy", "random", "--out", "r", "--suite", "miniwbo"), "did you mean miniwob?"),
        (("rollout", "--policy", "random", "--out", "r", "--tasks", "click-tset"), "did you mean click-test"),
        (("export", "folder", "o.jsonl", "--dialect", "surfr"), "did you mean surfer?"),
        (("export", "folder", "o.jsonl", "--frame", "pixel"), "did you mean pixels?"),
        (("export", "folder", "o.jsonl", "--history", "last:3"), "append, epoch:TURNS,KEEP or window:IMAGES"),
        (("sites", "serve", "shp"), "did you mean shop"),
        (("sites", "serve", "shop", "--viewport", "tablet"), "laptop or phone"),
        (("train", "rl", "holotron-mini/4-r"), "did you mean holotron-mini/4-rl"),
        (("train", "sft", "holotron-mini/4-rl"), "for `holotron train rl`"),
        (("train", "rl", "holotron-mini/0-reading"), "for `holotron train sft`"),
        (("train", "sft", "holotron-mini/0-reading", "optimizer.lr=1"), "did you mean optimiser?"),
        (("train", "sft", "holotron-mini/0-reading", "optimiser.lr=-1"), "optimiser.lr: "),
        # models and policies
        (("rollout", "--policy", "", "--out", "r"), "name a policy"),
        (("rollout", "--policy", "code.py:three", "--out", "r", "--tasks", "click-test"), "gave a int, not a policy"),
        (("rollout", "--policy", "code.py:fails", "--out", "r"), "raised ValueError: no ("),
        (("rollout", "--policy", "code.py:nobody", "--out", "r"), "code.py has no 'nobody'"),
        (("rollout", "--policy", "typo.py:x", "--out", "r"), "SyntaxError"),
        (("rollout", "--policy", "random", "--suite", "code.py:fails", "--out", "r"), "raised ValueError: no ("),
        (("rollout", "--policy", "random", "--suite", "code.py:three", "--out", "r"), "gave a int, not a Suite"),
        (("rollout", "--policy", "http://127.0.0.1:1/v1", "--out", "r"), "Is a server running there?"),
        (("rollout", "--policy", "http://localhost:99999/v1", "--out", "r"), "not the address of a server"),
        (("rollout", "--policy", "http://[::1/v1", "--out", "r"), "not the address of a server"),
        (("rollout", "--policy", "tiny", "--device", "cuad", "--out", "r", "--tasks", "click-test"), "is no device"),
        # a GPU that is not there
        (("serve", "tiny", "--device", "cuda:7"), "cuda:7 was asked for"),
        (("bench", "sessions", "tiny", "--device", "cuda:7"), "--device cpu"),
        (("train", "sft", "holotron-mini/0-reading", "--device", "cuda:7"), "--device cpu"),
        (("rollout", "--policy", "tiny", "--device", "cuda:7", "--out", "r", "--tasks", "click-test"), "--device cpu"),
        # files of tasks, and where they may go
        (("rollout", "--policy", "random", "--suite", "missing.jsonl", "--out", "r"), "No such file"),
        (("rollout", "--policy", "random", "--suite", "binary.jsonl", "--out", "r"), "is not a text file"),
        (("rollout", "--policy", "random", "--suite", "broken.jsonl", "--out", "r"), "broken.jsonl, line 2"),
        (("rollout", "--policy", "random", "--allow", "x.com", "--out", "r"), "brings its own pages"),
        (("rollout", "--policy", "random", "--suite", "x.jsonl", "--allow", "http://x", "--out", "r"), "host pattern"),
        (("rollout", "--policy", "random", "--seeds", "3:1", "--out", "r"), "A below B"),
        # one task
        (("run", "x", "--url", "", "--policy", "random", "--out", "r"), "where the agent starts"),
        (("run", " ", "--url", "x.com", "--policy", "random", "--out", "r"), "what the agent is to do"),
        (("run", "x", "--url", "file:///etc/passwd", "--policy", "random", "--out", "r"), "only http and https"),
        (("run", "x", "--url", "x.com", "--policy", "random", "--secret", "pw", "--out", "r"), "NAME=VARIABLE@HOST"),
        (("run", "x", "--url", "x.com", "--policy", "scripted", "--out", "r"), "no scripted solver"),
        # measuring
        (("bench", "sessions", "tiny", "--sweep", "a,b"), "such as 1,10,100"),
        (("bench", "sessions", "tiny", "--picture", "3"), "such as 1920x1080"),
        (("bench", "sessions", "tiny", "--unchanged", "7"), "from 0 to 1"),
        (("bench", "sessions", "tiny", "--steps", "-1"), "at least 1"),
        (("bench", "sessions", "--url", "nonsense"), "not the address of a server"),
        (("bench", "sessions", "--url", "http://127.0.0.1:1/v1"), "Is a server running?"),
        (("bench", "sessions", "--url", "http://127.0.0.1:1/v1", "--picture", "8x8"), "needs --api chat"),
        (("bench", "sessions", "--url", "http://127.0.0.1:1/v1", "--vocabulary", "x"), "LOW:HIGH"),
        (("data", "synth", "pages", "--size", "wide"), "160x160@2"),
    ],
)
def test_what_is_wrong_and_what_to_do(words: tuple[str, ...], says: str):
    assert says in refused(*words)


def test_a_port_that_is_taken():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert "Address already in use; choose another with --port" in refused("serve", "tiny", "--port", port)
        assert "choose another with --port" in refused("sites", "serve", "shop", "--port", port)


MISSING = [
    ("playwright", ("run", "x", "--url", "http://127.0.0.1:1", "--policy", "random", "--out", "r1")),
    ("playwright", ("rollout", "--policy", "random", "--tasks", "click-test", "--out", "r2")),
    ("playwright", ("eval", "miniwob", "--policy", "random", "--tasks", "click-test", "--out", "r3")),
    ("playwright", ("demo", "--out", "r4", "--seeds", "1")),
    ("pyarrow", ("rollout", "--policy", "random", "--suite", "painted", "--tasks", "boxes-1", "--out", "r5")),
    ("openai", ("rollout", "--policy", "http://127.0.0.1:1/v1", "--out", "r6")),
    ("uvicorn", ("serve", "tiny")),
    ("fastapi", ("serve", "tiny")),
    ("matplotlib", ("plan", "tiny", "--plot", "plan.png")),
    ("huggingface_hub", ("model", "show", "someone/something")),
]
# Modules that are imported already do not fail, so every case has a process of its own; torch is imported only once.
EACH = """
import json, os, sys, torch
from holotron.cli.main import main
for number, (package, words) in enumerate(json.loads(sys.argv[1])):
    if os.fork() == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open(f"err{number}", os.O_WRONLY | os.O_CREAT), 2)
        sys.modules[package] = None
        main(words)
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


def test_a_package_that_is_not_installed(tmp_path: Path):
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    script = [sys.executable, "-c", EACH, json.dumps(MISSING)]
    done = subprocess.run(script, stdout=subprocess.PIPE, text=True, env=environment, check=True, timeout=300)
    for number, (package, words) in enumerate(MISSING):
        said = (tmp_path / f"err{number}").read_text()
        assert said.startswith(f"holotron: {package} is not installed. Install it with: pip install"), words
        assert len(said.splitlines()) == 1 and EXTRAS[package] in said
    assert done.stdout.split() == ["8"] * len(MISSING)


def test_ctrl_c_is_one_line(monkeypatch: pytest.MonkeyPatch):
    def interrupted(args: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "run", interrupted)
    called = call("bench", "sessions", "tiny")
    assert (called.status, called.err) == (130, "holotron: interrupted\n")


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (MemoryError(), 5, "not enough memory"),
        (OSError(28, "No space left on device"), 9, "the disk is full"),
        (PermissionError(13, "Permission denied", "x.json"), 9, "permission is denied (x.json)"),
        (FileNotFoundError(2, "No such file or directory", "folder/x.json"), 9, "folder/x.json: No such file"),
        (ModuleNotFoundError("No module named 'peft'", name="peft"), 8, "pip install 'holotron[train]'"),
    ],
)
def test_the_machine_is_not_a_bug(error: Exception, status: int, says: str, monkeypatch: pytest.MonkeyPatch):
    def fails(args: object) -> int:
        raise error

    monkeypatch.setattr(bench, "run", fails)
    called = call("bench", "sessions", "tiny", "--json", "folder")
    assert called.status == status
    assert says in called.err and len(called.err.splitlines()) == 1


def test_a_bug_keeps_its_traceback_and_says_so(monkeypatch: pytest.MonkeyPatch):
    def fails(args: object) -> int:
        raise FileNotFoundError(2, "No such file or directory", "elsewhere")

    monkeypatch.setattr(bench, "run", fails)
    called = call("bench", "sessions", "tiny")
    assert called.status == 1
    assert "Traceback" in called.err and "this is a bug of holotron" in called.err.splitlines()[-1]
