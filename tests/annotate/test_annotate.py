"""Labels by real models, in process and over HTTP: resumable, honest about what could not be read, reviewable."""

from __future__ import annotations

import asyncio
import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

from holotron.agent.dialects import make_dialect
from holotron.annotate.agreement import Rule, iou, normal, settle, support
from holotron.annotate.annotator import AnnotationSettings, annotate, count_items
from holotron.annotate.items import Wishes, items_of_picture, read_wishes
from holotron.annotate.questions import Question
from holotron.annotate.review import write_review
from holotron.annotate.store import LabelWriter, iter_labels
from holotron.cli.data import app
from holotron.engine.engine import Engine
from holotron.errors import ConfigError, InputError, PolicyError
from holotron.rollouts.store import RunWriter
from holotron.types import Answer, Click, Completion, Observation, Outcome, Reply, Step, Task, Trajectory
from tests.annotate.annotating import WISHES, draw_pictures, labeller, tiny_engine

RULE = Rule(radius=10, overlap=0.5)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with tiny_engine() as running:
        yield running


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    draw_pictures(tmp_path / "shots", 3)
    return tmp_path / "shots"


# ------------------------------------------------------------------------------------------------------ agreement


def test_points_agree_within_the_radius_and_the_largest_group_wins() -> None:
    near = [(10.0, 10.0), (14.0, 10.0), (12.0, 13.0)]
    label, confidence = settle([(90.0, 90.0), *near, None], RULE)
    assert label == (12.0, 10.0)
    assert confidence == 3 / 5
    assert settle([None, None], RULE) == (None, 0.0)
    assert support((12.0, 10.0), [(13.0, 10.0), (50.0, 50.0), None], RULE) == 1 / 3


def test_boxes_agree_by_overlap_and_texts_by_what_they_say() -> None:
    label, confidence = settle([(0.0, 0.0, 10.0, 10.0), (1.0, 0.0, 11.0, 10.0), (40.0, 40.0, 50.0, 50.0)], RULE)
    assert label == (0.5, 0.0, 10.5, 10.0)
    assert confidence == 2 / 3
    assert settle(["It opens.", "it  OPENS", "no"], RULE) == ("It opens.", 2 / 3)
    assert settle([True, False, False], RULE) == (False, 2 / 3)


points = st.lists(st.one_of(st.none(), st.tuples(st.floats(0, 200), st.floats(0, 200))), min_size=1, max_size=8)


@given(points)
def test_confidence_is_a_share_of_all_answers(values: list[tuple[float, float] | None]) -> None:
    label, confidence = settle(values, RULE)
    assert (label is None) == all(value is None for value in values)
    assert confidence * len(values) == pytest.approx(round(confidence * len(values)))
    assert 0 <= confidence <= sum(value is not None for value in values) / len(values)


boxes = st.tuples(*[st.integers(0, 30)] * 4).map(lambda b: (b[0], b[1], b[0] + b[2] + 1, b[1] + b[3] + 1))


@given(boxes, boxes)
def test_overlap_is_symmetric_and_one_for_equals(a: tuple[float, ...], b: tuple[float, ...]) -> None:
    assert iou(a, b) == iou(b, a)
    assert 0 <= iou(a, b) <= 1
    assert iou(a, a) == 1
    assert normal(" A  b.") == "a b"


def test_saying_that_it_is_not_there_is_an_answer() -> None:
    (item,) = items_of_picture(Path("/shots"), Path("/shots/a.png"), "point", ["Click the moon."])
    look = Observation(png(10), "image/png", (80, 60), (160, 120))
    question = Question(item, [look], make_dialect("compact", actions=["click", "answer"]))
    assert question.read(Completion("answer no moon")) == ("not found", "no moon")
    assert question.read(Completion("click 500 500")) == ((80.1, 60.1), "")
    assert question.read(Completion("dance"))[0] is None
    values = [question.read(Completion(text))[0] for text in ("answer no moon", "answer none", "click 100 100")]
    assert settle(values, RULE) == ("not found", 2 / 3)


# ----------------------------------------------------------------------------------------------------- in process


def test_a_folder_is_labelled_once_and_broken_pictures_are_told(engine: Engine, shots: Path, tmp_path: Path) -> None:
    (shots / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    (shots / "notes.txt").write_text("not a picture")
    out, settings = tmp_path / "labels", AnnotationSettings(samples=3, rule=RULE)
    report = asyncio.run(annotate(shots, "point", [labeller(engine)], out, settings, WISHES))
    assert (report.labelled, report.kept) == (6, 0)
    assert list(report.broken) == ["broken.png"]
    assert json.loads((out / "broken.json").read_text()) == report.broken
    rows = list(iter_labels(out))
    assert {row["instruction"] for row in rows} == set(WISHES.everywhere)
    for row in rows:
        answers = [answer["value"] for answer in json.loads(row["answers"])[0]]
        label, confidence = settle([tuple(a) if isinstance(a, list) else a for a in answers], RULE)
        assert row["confidence"] == pytest.approx(confidence)
        assert row["point"] == (list(label) if isinstance(label, tuple) else None)
        assert row["text"] == (label if isinstance(label, str) else None)
        assert (row["width"], row["height"]) == (160, 120)
        if row["point"]:
            assert 0 <= row["point"][0] <= 160
            assert 0 <= row["point"][1] <= 120
    assert any(row["point"] for row in rows)
    again = asyncio.run(annotate(shots, "point", [labeller(engine)], out, settings, WISHES))
    assert (again.labelled, again.kept) == (0, 6)
    more = Wishes((*WISHES.everywhere, "Close it."))
    grown = asyncio.run(annotate(shots, "point", [labeller(engine)], out, settings, more))
    assert (grown.labelled, grown.kept) == (3, 6)
    assert pq.read_table(out / "labels").num_rows == 9


def test_the_same_seed_gives_the_same_labels(engine: Engine, shots: Path, tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        settings = AnnotationSettings(samples=2, seed=3, parallel=4 if name == "one" else 1)
        asyncio.run(annotate(shots, "point", [labeller(engine)], tmp_path / name, settings, WISHES))
        made.append({row["id"]: row["answers"] for row in iter_labels(tmp_path / name)})
    assert made[0] == made[1]


def test_boxes_and_generated_instructions(engine: Engine, shots: Path, tmp_path: Path) -> None:
    out, settings = tmp_path / "boxes", AnnotationSettings(samples=2, generate=1)
    policy = labeller(engine, max_tokens=200)
    report = asyncio.run(annotate(shots, "box", [policy], out, settings))
    kept = [json.loads(path.read_text()) for path in (out / "instructions").iterdir()]
    assert {entry["image"] for entry in kept} == {"shot0.png", "shot1.png", "shot2.png"}
    assert report.labelled == sum(len(entry["instructions"]) for entry in kept)
    for row in iter_labels(out):
        if row["box"]:
            left, top, right, bottom = row["box"]
            assert 0 <= left < right <= 160
            assert 0 <= top < bottom <= 120
        else:
            assert row["remark"]
    before = {path.name: path.stat().st_mtime_ns for path in (out / "instructions").iterdir()}
    again = asyncio.run(annotate(shots, "box", [policy], out, settings))
    assert (again.labelled, again.kept) == (0, report.labelled)
    assert {path.name: path.stat().st_mtime_ns for path in (out / "instructions").iterdir()} == before


def test_two_models_agree_with_themselves(engine: Engine, shots: Path, tmp_path: Path) -> None:
    """The same model twice, greedy: the second says what the first said."""
    both = [labeller(engine), labeller(engine)]
    asyncio.run(annotate(shots, "point", both, tmp_path / "out", AnnotationSettings(samples=1), Wishes(("Press it.",))))
    rows = list(iter_labels(tmp_path / "out"))
    assert len(rows) == 3
    assert all(
        row["confidence"] == (1.0 if row["point"] or row["text"] else 0.0) and row["second"] == "tiny" for row in rows
    )
    asyncio.run(
        annotate(shots, "point", both[:1], tmp_path / "one", AnnotationSettings(samples=1), Wishes(("Press it.",)))
    )
    assert all(row["confidence"] is None for row in iter_labels(tmp_path / "one") if row["point"])


def png(shade: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (80, 60), (shade, shade, 200)).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    look = [Observation(png(40 * n), "image/png", (80, 60), (160, 120)) for n in range(4)]
    steps = (
        Step(0, look[0], Reply(Completion(""), action=Click(10, 20))),
        Step(1, look[1], Reply(Completion(""), action=Click(30, 20))),
        Step(2, look[2], Reply(Completion(""), action=Answer("7"))),
    )
    with RunWriter(tmp_path / "run", {"kind": "test", "config": {}}) as writer:
        for n in range(2):
            task = Task("toy", "press", "Press it twice", n)
            writer.append(Trajectory(f"toy/press/{n}", task, steps, Outcome.SUCCESS, 1.0, "7", final=look[3]))
    return tmp_path / "run"


def test_recorded_episodes_get_captions_and_judgements(engine: Engine, recorded: Path, tmp_path: Path) -> None:
    policy = labeller(engine, max_tokens=500)
    report = asyncio.run(annotate(recorded, "caption", [policy], tmp_path / "captions"))
    captions = list(iter_labels(tmp_path / "captions"))
    assert report.labelled == len(captions) == 6
    assert [len(row["images"]) for row in captions] == [2] * 6
    first = next(row for row in captions if row["id"] == "toy/press/0/0:caption")
    assert first["context"] == ["Task: Press it twice", "Action: click (10, 20)"]
    assert all(row["text"] or row["remark"] for row in captions)
    asyncio.run(annotate(recorded, "judgement", [policy], tmp_path / "verdicts", AnnotationSettings(samples=2)))
    verdicts = list(iter_labels(tmp_path / "verdicts"))
    assert {row["id"] for row in verdicts} == {"toy/press/0:judgement", "toy/press/1:judgement"}
    assert all(len(row["images"]) == 3 and "Answer: 7" in row["context"] for row in verdicts)
    assert all((row["success"] is None) == (row["confidence"] == 0) for row in verdicts)
    asyncio.run(annotate(recorded, "point", [policy], tmp_path / "points"))
    rows = list(iter_labels(tmp_path / "points"))
    assert {row["instruction"] for row in rows} == {"Press it twice"}
    assert {(row["width"], row["height"]) for row in rows} == {(160, 120)}  # CSS pixels of the page, not of the picture


def test_killed_and_resumed_nothing_is_lost_or_asked_twice(engine: Engine, shots: Path, tmp_path: Path) -> None:
    out = tmp_path / "labels"
    command = [sys.executable, "-m", "tests.annotate.annotating", str(shots), str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "1\n"
    assert process.stdout.readline() == "2\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    (segment,) = (out / "journal").iterdir()
    finished = segment.read_bytes().count(b"\n")
    assert 2 <= finished <= 6
    with segment.open("ab") as file:
        file.write(b'{"episode": {"id": "torn')  # as a kill in the middle of a write leaves it
    report = asyncio.run(
        annotate(shots, "point", [labeller(engine)], out, AnnotationSettings(samples=2, parallel=1), WISHES)
    )
    assert (report.kept, report.labelled) == (finished, 6 - finished)
    ids = [row["id"] for row in iter_labels(out)]
    assert len(ids) == len(set(ids)) == 6
    assert not list((out / "journal").iterdir())


# ------------------------------------------------------------------------------------------------- over HTTP, commands


def test_any_server_labels_too(shots: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.server.process import running

    monkeypatch.setattr("openai._base_client.MAX_RETRY_DELAY", 0.01)  # how often it is tried matters, not how slowly

    out = tmp_path / "labels"
    words = ["annotate", str(shots), str(out), "--instruction", "Click the button.", "--samples", "2", "--review", "2"]
    with running("tiny", "--memory.sessions", "8", "--memory.context", "2048") as server:
        words += ["--policy", f"{server.url}/v1", "--dialect", "compact", "--max-tokens", "64"]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, (done.output, done.exception)
        assert "3 labels, 3 of them new" in done.output
        assert "labels/s" in done.output
        assert "2 labels, the least certain first" in done.output
        rows = list(iter_labels(out))
        assert len(rows) == 3
        assert all(row["confidence"] in (0, 0.5, 1) for row in rows)
    gone = CliRunner().invoke(app, [*words[:2], str(tmp_path / "other"), *words[3:], "--model", "tiny"])
    assert isinstance(gone.exception, PolicyError)
    assert "is it running?" in str(gone.exception)


def test_a_dry_run_asks_nobody(shots: Path, tmp_path: Path) -> None:
    words = ["annotate", str(shots), str(tmp_path / "out"), "--policy", "http://nowhere.invalid/v1", "--dry-run"]
    done = CliRunner().invoke(app, [*words, "--instruction", "Click it."])
    assert done.exit_code == 0, done.output
    assert "3 pictures, 3 point labels" in done.output
    assert not (tmp_path / "out").exists()
    nothing = CliRunner().invoke(app, words)
    assert "nothing to ask" in str(nothing.exception)


def test_what_is_wrong_is_said(shots: Path, tmp_path: Path, engine: Engine) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no pictures"):
        count_items(tmp_path / "empty", "point", WISHES, AnnotationSettings())
    (tmp_path / "bad.jsonl").write_text('{"image": "a.png"}\n')
    with pytest.raises(InputError, match="line 1"):
        read_wishes(tmp_path / "bad.jsonl")
    (tmp_path / "good.jsonl").write_text('{"image": "shot1.png", "instruction": "Go."}\nFor all.\n')
    wishes = read_wishes(tmp_path / "good.jsonl")
    assert wishes.of("deep/shot1.png") == ("For all.", "Go.")
    assert wishes.of("shot0.png") == ("For all.",)
    asyncio.run(annotate(shots, "point", [labeller(engine)], tmp_path / "out", AnnotationSettings(), Wishes(("Go.",))))
    with pytest.raises(ConfigError, match="another configuration"):
        asyncio.run(
            annotate(shots, "box", [labeller(engine)], tmp_path / "out", AnnotationSettings(), Wishes(("Go.",)))
        )
    wrong = CliRunner().invoke(app, ["annotate", str(shots), "x", "--policy", "tiny", "--label", "circle"])
    assert "there is no kind of label 'circle'" in str(wrong.exception)
    random = CliRunner().invoke(app, ["annotate", str(shots), "x", "--policy", "random", "--instruction", "Go."])
    assert "is no model" in str(random.exception)


# --------------------------------------------------------------------------------------------------------- review


@pytest.mark.browser
def test_the_review_page_in_a_real_browser(shots: Path, tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    from holotron.annotate.store import make_row
    from holotron.envs.chromium import find_chromium

    out = tmp_path / "labels"
    with LabelWriter(out, {"test": True}) as writer:
        for n, sure in enumerate((1.0, 0.25, 0.5)):
            wish = "Click </script><b>it</b>" if n == 1 else f"Click {n}"
            (item,) = items_of_picture(shots, shots / f"shot{n}.png", "point", [wish])
            answers = json.dumps([[{"value": [80, 60], "remark": ""}, {"value": [40, 30], "remark": ""}]])
            writer.add(make_row(item, (160, 120), (40.0, 30.0), confidence=sure, answers=answers, remark="", model="m"))
    path, shown = write_review(out)
    assert shown == 3
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        page = browser.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.goto(path.as_uri())
        assert [item.inner_text().split("\n")[0] for item in page.locator("#list li").all()] == [
            "25 %",
            "50 %",
            "100 %",
        ]
        assert "Click </script><b>it</b>" in page.inner_text("#question")  # text, not markup
        image, ring = page.locator(".screen img").bounding_box(), page.locator(".ring").bounding_box()
        assert image is not None
        assert ring is not None
        assert ring["x"] + ring["width"] / 2 == pytest.approx(image["x"] + image["width"] / 4, abs=2)
        assert ring["y"] + ring["height"] / 2 == pytest.approx(image["y"] + image["height"] / 4, abs=2)
        assert page.locator(".other").count() == 2
        page.keyboard.press("r")
        page.keyboard.press("a")
        assert "1 accepted, 1 rejected" in page.inner_text("#count")
        page.evaluate("low.value = 60; low.dispatchEvent(new Event('input'))")
        assert page.locator("#list li").count() == 1
        page.evaluate("low.value = 0; low.dispatchEvent(new Event('input'))")
        page.reload()  # decisions survive
        with page.expect_download() as download:
            page.click("#export")
        decisions = json.loads(Path(download.value.path()).read_text())
        by_confidence = {row["confidence"]: decisions.get(row["id"]) for row in iter_labels(out)}
        assert by_confidence == {1.0: None, 0.25: "reject", 0.5: "accept"}
        page.screenshot(path=tmp_path / "review.png")
        browser.close()
    assert problems == []
