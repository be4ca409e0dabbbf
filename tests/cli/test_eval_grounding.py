"""`holotron eval` on a grounding benchmark, by address: what the terminal says of replies that could not be read."""

from __future__ import annotations

import json
from typing import Any

from tests.agent.strict_server import strict_server
from tests.cli.calling import call
from tests.suites.test_grounding import made


def reply(text: str) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return {"id": "1", "object": "chat.completion", "created": 0, "model": "seer", "choices": [choice]}


def test_figures_an_example_of_what_could_not_be_read_and_the_run(tmp_path):
    folder, _ = made("showdown-clicks", tmp_path / "files")
    out = tmp_path / "run"
    click = {"tool_name": "click", "element": "it", "x": 300, "y": 450}
    with strict_server() as server:
        server.odd = [
            reply(json.dumps({"note": None, "thought": "", "tool_call": click})),
            reply("<point>412 733</point>"),
        ]
        called = call("eval", f"showdown-clicks:{folder}", "--policy", server.url, "--dialect", "holotron",
                      "--sessions", 1, "--out", out, "--no-report")  # fmt: skip
    assert called.status == 0, called.err
    lines = called.out.splitlines()
    assert any(line.startswith("all ") and " 50.0 % of     2 " in line for line in lines), called.out
    assert "mean distance from the middle of the box: 0.0 pixels" in lines
    assert any(line.startswith("1 replies in a wrong format, 0 items without a reply") for line in lines), called.out
    assert f"run: {out}" in lines
    assert any(line.startswith("1 of 2 replies could not be read, such as '<point>412 733</point>'") for line in lines)
