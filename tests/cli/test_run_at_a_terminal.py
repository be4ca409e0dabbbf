"""`holotron run` at a terminal: what it asks, what no answer means, and Ctrl-C while it waits for one."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holotron.rollouts.store import RunReader
from tests.envs.site import Site

pytestmark = pytest.mark.browser

POLICY = """
from holotron.types import Answer, Click, Completion, Reply
from holotron.agent.policies.function import FunctionPolicy

def make(request):
    seen = []
    def act(task, observation):
        seen.append(observation)
        action = Click(150, 100) if len(seen) == 1 else Answer("bought")
        return Reply(Completion(text=""), thought=f"thought {len(seen)}", action=action)
    return FunctionPolicy(act)
"""


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    site.pages["/"] = """<form method=post action=/order><button style="position:fixed;left:0;top:0;width:300px;
        height:200px">Buy now</button></form>"""
    yield site
    site.close()


class Terminal:
    """A command behind a real terminal."""

    def __init__(self, words: list[str], folder: Path) -> None:
        self._own, theirs = pty.openpty()
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src"), "COLUMNS": "200"}
        command = [sys.executable, "-m", "holotron", *words]
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environment, start_new_session=True
        )
        os.close(theirs)
        self.said = ""

    def until(self, text: str, seconds: float = 120.0) -> str:
        end = time.monotonic() + seconds
        while text not in self.said:
            assert time.monotonic() < end, self.said
            if select.select([self._own], [], [], 0.2)[0]:
                try:
                    self.said += os.read(self._own, 65536).decode()
                except OSError:  # it has ended
                    assert text in self.said, self.said
        return self.said

    def write(self, text: str) -> None:
        os.write(self._own, text.encode())

    def end(self) -> int:
        while True:
            try:
                if not (more := os.read(self._own, 65536)):
                    break
                self.said += more.decode()
            except OSError:
                break
        os.close(self._own)
        return self.process.wait(60)


@pytest.mark.parametrize(("answer", "orders", "status"), [("\n", 0, 13), ("y\n", 1, 0)])
def test_a_question_comes_after_the_thought_and_means_no(
    site: Site, tmp_path: Path, answer: str, orders: int, status: int
):
    (tmp_path / "mine.py").write_text(POLICY)
    words = ["run", "Buy it.", "--url", site.url("/"), "--private", "--policy", "mine.py:make", "--out", "run"]
    terminal = Terminal(words, tmp_path)
    asked = terminal.until("Allow it?")
    assert asked.index("thought 1") < asked.index("The agent asks") and "Buy now" in asked
    terminal.write(answer)
    assert terminal.end() == status, terminal.said
    assert site.seen.count("/order") == orders
    assert ("REFUSED" in terminal.said) is not bool(orders)


def test_ctrl_c_at_a_question_ends_at_once(site: Site, tmp_path: Path):
    (tmp_path / "mine.py").write_text(POLICY)
    words = ["run", "Buy it.", "--url", site.url("/"), "--private", "--policy", "mine.py:make", "--out", "run"]
    terminal = Terminal(words, tmp_path)
    terminal.until("Allow it?")
    time.sleep(0.3)
    terminal.process.send_signal(signal.SIGINT)
    terminal.until("report: run/report.html", seconds=60)
    assert terminal.end() == 130
    (trajectory,) = RunReader(tmp_path / "run").trajectories()
    assert trajectory.error == "interrupted" and site.seen.count("/order") == 0
