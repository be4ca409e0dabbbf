"""In shells as people have them: pipes that close, narrow and colourless terminals, other encodings, a home that
cannot be written to. Real processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HOLOTRON = [sys.executable, "-m", "holotron"]


def shell(*words: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "LC_ALL", "LANG")}
    kept["PYTHONPATH"] = str(Path(__file__).parents[2] / "src")
    return subprocess.run([*HOLOTRON, *words], capture_output=True, env=kept | environment, timeout=120, check=False)


def test_a_reader_who_leaves_is_no_error():
    words = " ".join([*HOLOTRON, "train", "show", "holotron-12b/3-rl"])
    for _ in range(2):
        code = f"set -o pipefail; {words} | head -n 1 >/dev/null; echo ${{PIPESTATUS[0]}}"
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src"), "PYTHONUNBUFFERED": "1"}
        done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, env=environment, check=False)
        assert done.stderr == ""
        assert done.stdout.strip() in ("0", "141")  # all was written before it left, or not


def test_a_pipe_that_is_closed_from_the_beginning():
    read, write = os.pipe()
    os.close(read)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    done = subprocess.run(
        [*HOLOTRON, "--version"], stdout=write, stderr=subprocess.PIPE, env=environment, check=False, timeout=60
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
        {"COLUMNS": "40"},
        {"COLUMNS": "20"},
        {"NO_COLOR": "1", "FORCE_COLOR": "1"},
        {"TERM": "dumb"},
        {"HOME": "/proc/nobody", "XDG_CACHE_HOME": "/proc/nobody", "TMPDIR": "/tmp"},
    ],
    ids=lambda environment: ",".join(environment),
)
def test_help_is_readable_everywhere(environment: dict[str, str]):
    done = shell("report", "--help", **environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    text = done.stdout.decode(errors="replace")
    assert "HTML" in text and "Traceback" not in text
    if "NO_COLOR" in environment:
        assert "\x1b[3" not in text  # no colour; bold is none
    if "COLUMNS" in environment:
        assert max(map(len, text.splitlines())) <= max(int(environment["COLUMNS"]), 40)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_from_the_beginning(closed: str):
    """As services and `nohup` start programs."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    for words, status in (("--help", 0), ("report nowhere", 4)):
        line = f"{' '.join(HOLOTRON)} {words} {closed}"
        done = subprocess.run(["bash", "-c", line], capture_output=True, env=environment, timeout=60, check=False)
        assert done.returncode == status, done.stderr
        assert b"Traceback" not in done.stderr


def test_output_that_cannot_be_written():
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    for words in (["--help"], ["run", "--help"]):
        with open("/dev/full", "w") as full:
            command = [*HOLOTRON, *words]
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=environment, check=False)
        assert done.returncode == 9
        assert done.stderr.startswith(b"holotron: ") and done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("columns", [40, 80])
def test_no_option_is_cut_off(columns: int):
    """In a narrow terminal, too, what can be typed can be read."""
    text = shell("run", "--help", COLUMNS=str(columns)).stdout.decode()
    assert "…" not in text
    for option in ("--url", "--headed", "--temperature", "--sample-seed", "--no-thinking", "--watch-at"):
        assert re.search(rf"{option}\b", text), option
    assert text.count("$ holotron run") >= 4  # each example begins a line of its own


def test_an_error_in_any_encoding():
    for encoding in ("ascii", "latin-1", "utf-8"):
        done = shell("report", "кейс–“x”", PYTHONIOENCODING=encoding)
        assert done.returncode == 4 and done.stderr.startswith(b"holotron: ")
        assert b"Traceback" not in done.stderr


def test_a_home_that_cannot_be_written_to(tmp_path: Path):
    """A model loads and answers; what would be cached is not."""
    code = "import holotron; print(holotron.Model('tiny', device='cpu').chat('x').finish_reason)"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    environment |= {"HOME": "/proc/nobody", "XDG_CACHE_HOME": "/proc/nobody", "TORCH_EXTENSIONS_DIR": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("length", "stop")
