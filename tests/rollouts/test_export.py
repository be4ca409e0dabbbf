"""Exported conversations are the live ones: every reply once, images that exist, coordinates that hit."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from PIL import Image as Pillow

from holotron.agent.coordinates import Screen
from holotron.agent.dialects import dialects, make_dialect
from holotron.agent.history import parse_history
from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.rollouts.export import export_sft
from holotron.rollouts.runner import rollout
from holotron.types import Click, Completion, Task
from tests.agent.strict_server import find_colour
from tests.agent.toy import COLOURS, ButtonPool, press_target


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("demos") / "run"
    tasks = [Task("buttons", "press", seed=seed, options={"presses": 5}) for seed in range(4)]

    def sometimes_wrong(environment, observation, step):
        if environment.task.seed == 3:
            return Click(*next(b for b in environment.buttons if b is not environment.target).centre)
        return press_target(environment, observation, step)

    asyncio.run(rollout(tasks, ScriptedPolicy(sometimes_wrong), ButtonPool(), out))
    return out


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name", dialects.names())
@pytest.mark.parametrize(("history", "lines"), [("append", 1), ("epoch:3,1", 2), ("window:2", 4)])
def test_every_reply_is_learnt_once(run, tmp_path, name, history, lines):
    dialect = make_dialect(name)
    report = export_sft(run, tmp_path / "sft.jsonl", dialect, parse_history(history))
    exported = lines_of(tmp_path / "sft.jsonl")
    assert (report.episodes, report.replies, report.lines) == (3, 15, len(exported))
    if name != "surfer":  # which writes every request anew
        assert len(exported) == 3 * lines
    assert sum(len(line["learn"]) for line in exported) == 15
    for line in exported:
        assert all(line["messages"][index]["role"] == "assistant" for index in line["learn"])
        placeholders = sum(part["type"] == "image" for message in line["messages"] for part in message["content"])
        assert placeholders == len(line["images"])
        assert all((tmp_path / image).is_file() for image in line["images"])


@pytest.mark.parametrize("name", ["holotron", "surfer", "compact"])
def test_what_is_learnt_hits_the_button_in_its_image(run, tmp_path, name):
    """Read the line as a trainer would: decode the last image, parse the reply, look where it points."""
    dialect = make_dialect(name)
    export_sft(run, tmp_path / "sft.jsonl", dialect, parse_history("window:1"))
    for line in lines_of(tmp_path / "sft.jsonl"):
        image = Pillow.open(tmp_path / line["images"][-1]).convert("RGB")
        screen = Screen(image.size, (320, 240))
        (said,) = [part["text"] for part in line["messages"][line["learn"][-1]]["content"]]
        action = dialect.parse(Completion(said), screen).action
        text = json.dumps(line["messages"])
        colour = next(name for name in COLOURS if f"Press the {name}" in text)
        x, y = find_colour(image, COLOURS[colour])
        assert (action.x, action.y) == pytest.approx((x * 320 / image.width, y * 240 / image.height), abs=2)
    for picture in (tmp_path / "sft-images").iterdir():
        stored = run / "images" / picture.name[:2] / picture.name
        # surfer's resized pictures are written out; the others are the run's, and take no room of their own
        assert stored.exists() == (name != "surfer")
        assert name == "surfer" or picture.samefile(stored)


def test_an_export_can_be_moved_with_its_pictures(run, tmp_path):
    for folder in ("made", "moved"):
        (tmp_path / folder).mkdir()
    export_sft(run, tmp_path / "made" / "sft.jsonl", make_dialect("compact"), parse_history("append"))
    (tmp_path / "made" / "sft-images").rename(tmp_path / "moved" / "sft-images")
    (tmp_path / "made" / "sft.jsonl").rename(tmp_path / "moved" / "other-name.jsonl")
    lines = lines_of(tmp_path / "moved" / "other-name.jsonl")
    assert lines and all((tmp_path / "moved" / image).is_file() for line in lines for image in line["images"])


def test_selection_and_skips(run, tmp_path):
    everything = export_sft(
        run, tmp_path / "all.jsonl", make_dialect("compact"), parse_history("append"), where=lambda row: True
    )
    assert everything.episodes == 4
    nothing = export_sft(
        run, tmp_path / "none.jsonl", make_dialect("compact", actions=["write"]), parse_history("append")
    )
    assert (nothing.lines, len(nothing.skipped)) == (0, 3)
    assert "click is not among" in next(iter(nothing.skipped.values()))


def test_hugging_face_reads_it(run, tmp_path):
    import datasets

    export_sft(run, tmp_path / "sft.jsonl", make_dialect("holotron"), parse_history("append"))
    data = datasets.load_dataset(
        "json", data_files=str(tmp_path / "sft.jsonl"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert len(data) == 3
    assert data[0]["messages"][0]["role"] == "system"
