"""What each extra is for, tried in an empty environment. Used by `tools/release_check.py`.

    bare = bare_environment(Path("dist/holotron-0.1.0-py3-none-any.whl"), folder)
    check_extra("serve", wheel, bare, folder)

An environment has pip and what it makes of `holotron[EXTRA]`. The wheel without extras is installed once and
the environment copied, because torch is most of it; torch is held to the version that is installed here, so that no
machine without a GPU downloads another one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

SERVE = """
import json, re, subprocess, sys, time, urllib.request
command = [sys.executable, "-m", "holotron", "serve", "tiny", "--port", "0"]
server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
try:
    port = next(found[1] for line in server.stderr if (found := re.search(r"127\\.0\\.0\\.1:(\\d+)", line)))
    address = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            urllib.request.urlopen(address + "/health/ready")
            break
        except OSError:
            time.sleep(0.1)
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4,
            "response_format": {"type": "regex", "regex": "[ab]+"}}
    plain = {"content-type": "application/json"}
    request = urllib.request.Request(address + "/v1/chat/completions", json.dumps(body).encode(), plain)
    print(json.load(urllib.request.urlopen(request))["choices"][0]["message"])
finally:
    server.terminate()
    sys.exit(server.wait(60))
"""

TRAIN = """
import json
from pathlib import Path
from PIL import Image
Image.new("RGB", (64, 64), "white").save("white.png")
said = [{"role": "user", "content": [{"type": "text", "text": "Click."}, {"type": "image"}]},
        {"role": "assistant", "content": "click 500 500"}]
Path("demos.jsonl").write_text(json.dumps({"messages": said, "images": ["white.png"]}) + "\\n")
Path("mine.toml").write_text('''
name = "mine"
[model]
source = "preset:tiny"
[lora]
rank = 2
[[data]]
kind = "conversations"
files = ["demos.jsonl"]
[schedule]
steps = 1
warmup = 0
''')
"""

MODEL = """
import holotron, torch
model, processor = holotron.load_model("tiny", device="cpu")
ids = processor.render([{"role": "user", "content": "hi"}]).ids
assert model(torch.tensor(ids)).shape[-1] == 320
"""

HUB = """
import os
os.environ["HF_HUB_OFFLINE"] = "1"
import holotron
try:
    holotron.load_model("nobody/no-such-model")
except holotron.errors.MissingDependency:
    raise
except holotron.errors.HolotronError as error:
    print(error)
"""

GPU = """
import platform
if platform.system() == "Linux":
    import triton
    import holotron.kernels.norm.triton
"""

RAY = """
from holotron.fleet.ray_place import connect
assert connect("local").cluster_resources()["CPU"] >= 1
"""

S3 = """
import os
from pathlib import Path
os.environ |= {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
from holotron.errors import StorageError
from holotron.storage.objects import Objects
try:
    Objects(Path("s3://bucket/run")).read()
except StorageError as error:  # nobody is there; what is needed to ask is
    print(error)
"""

# What somebody writes who checks types strictly: nothing of ours may be Any, or without stubs.
CONSUMER = """
import holotron
from holotron import EngineConfig, Model, RunResult, SamplingParams
from holotron.types import Outcome


def play() -> str:
    result: RunResult = holotron.run(
        "Press the button",
        url="https://example.com",
        policy="holotron-mini",
        secrets={"password": "x"},
        allow=["example.com"],
        confirm=lambda question: False,
    )
    outcome: Outcome = result.outcome
    seconds: float = result.cost.seconds
    return f"{outcome} {result.answer} {len(result.steps)} {seconds}"


async def play_async() -> str:
    return (await holotron.run_async("Press the button", url="https://example.com")).answer


def chat() -> str:
    with Model("tiny", config=EngineConfig(max_sessions=4)) as model, model.session() as session:
        for part in session.stream([{"role": "user", "content": "hi"}]):
            print(part.content)
        sampling: SamplingParams = model.sampling(max_tokens=4)
        return model.chat([{"role": "user", "content": "hi"}], sampling=sampling).content
"""

# extra -> what it is for, as Python or as words of the command line
EXTRAS: dict[str, list[str | list[str]]] = {
    "none": [MODEL, ["--help"], ["model", "show", "tiny"], ["plan", "holotron-12b", "--context", "16k"]],
    "hub": [HUB],
    "gpu": [GPU],
    "serve": [SERVE],
    "agent": [["eval", "miniwob", "--policy", "scripted", "--tasks", "click-test-2", "--seeds", "0:1", "--out", "run"]],
    "train": [TRAIN, ["train", "sft", "mine.toml", "--out", "trained", "--device", "cpu"]],
    "plot": [["plan", "holotron-12b", "--context", "4k,16k", "--plot", "fit.png"]],
}
EXTRAS["all"] = [use for uses in list(EXTRAS.values())[1:] for use in uses]
EXTRAS |= {"ray": [RAY], "s3": [S3]}

# Without the extra: the command that wants it, and the extra that its one line must name.
MISSING = {
    "serve": ["serve", "tiny"],
    "agent": ["eval", "miniwob", "--policy", "scripted", "--tasks", "click-test-2", "--seeds", "0:1", "--out", "run"],
    "plot": ["plan", "holotron-12b", "--plot", "fit.png"],
}


def bare_environment(wheel: Path, folder: Path) -> Path:
    """An empty environment with the wheel and no extra."""
    bare = folder / "bare"
    venv.create(bare, with_pip=True)
    torch = metadata.version("torch").partition("+")[0]
    called([bare / "bin" / "python", "-m", "pip", "install", "-q", f"torch=={torch}", wheel], folder)
    return bare


def check_extra(extra: str, wheel: Path, bare: Path, folder: Path) -> None:
    place = folder / extra
    shutil.copytree(bare, place, symlinks=True, copy_function=os.link)
    python = place / "bin" / "python"
    if extra != "none":
        called([python, "-m", "pip", "install", "-q", f"{wheel}[{extra}]"], folder)
    called([python, "-m", "pip", "check"], folder)
    work = folder / f"{extra}-work"
    work.mkdir()
    for use in EXTRAS[extra]:
        called([python, "-c", use] if isinstance(use, str) else [python, "-m", "holotron", *use], work)
    if extra == "all":
        check_types(python, work)
    if extra == "none":
        for name, words in MISSING.items():
            said = called([python, "-m", "holotron", *words], work, status=8)
            if f"holotron[{name}]" not in said or "Traceback" in said:
                sys.exit(f"release-check: `holotron {' '.join(words)}` without the extra {name} says:\n{said}")
    shutil.rmtree(place)


def check_types(python: Path, work: Path) -> None:
    called([python, "-m", "pip", "install", "-q", f"mypy=={metadata.version('mypy')}"], work)
    (work / "consumer.py").write_text(CONSUMER)
    called([python, "-m", "mypy", "--strict", "consumer.py"], work)


def called(command: list[str | Path], folder: Path, status: int = 0) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    words = list(map(str, command))
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != status:
        shown = " ".join(words)[:400]
        sys.exit(f"release-check: {shown}\nexit status {done.returncode}, not {status}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr
