"""Grounding benchmarks: official verdicts reproduced, formats held to what they say, played as any suite."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import ExifTags, Image

from holotron.agent.coordinates import Frame, Screen, point_to_page
from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.errors import ConfigError, InputError
from holotron.evals.card import model_card
from holotron.evals.evaluate import evaluate
from holotron.evals.grounding import Verdict, grounding_figures, screenspot_pro_tables
from holotron.evals.results import read_result
from holotron.rollouts.store import RunReader
from holotron.suites.base import GROUNDING, find_suite, suites
from holotron.suites.grounding.benchmarks import BENCHMARKS, load
from holotron.suites.grounding.items import Box, Nothing, Polygon, box, numbers_of, polygon
from holotron.suites.grounding.play import GroundingEnvironment
from holotron.types import Answer, Click, Task
from tests.evals.runs import make_run

HERE = Path(__file__).parent
DATA = Path(os.environ.get("HOLOTRON_BENCHMARKS", HERE.parents[2] / "shared" / "data"))  # published files, not in here
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="needs published benchmark files (HOLOTRON_BENCHMARKS)")


def png(size: tuple[int, int]) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, "white").save(buffer, "PNG")
    return buffer.getvalue()


# ------------------------------------------------------------------------------------------------- official verdicts


def test_the_verdicts_of_osworld_gs_own_script():
    golden = json.loads((HERE / "osworld_g_official.json").read_text())
    checked = 0
    for row in golden["rows"]:
        values = row["box_coordinates"]
        match row["box_type"]:
            case "bbox":
                target: Any = box(values, "xywh", tuple(row["image_size"]), row["id"])
            case "polygon":
                target = Polygon(tuple(zip(values[::2], values[1::2], strict=True)))
            case _:
                target = Nothing()
        for x, y, verdict in row["points"]:
            assert target.holds(None if x < 0 else (x, y)) is bool(verdict), (row["id"], x, y)
            checked += 1
    assert checked == 360


@needs_data
def test_every_verdict_and_breakdown_of_screenspot_pros_own_script():
    golden = json.loads((DATA / "screenspot-pro" / "scored_by_official_script.json").read_text())
    verdicts = []
    for number, row in enumerate(golden["details"]):
        point = None if row["pred"] is None else tuple(row["pred"])
        right = Box(*row["bbox"]).holds(point)
        assert {"correct": True}.get(row["correctness"], False) is right, number
        tags = {key: row[key] for key in ("group", "platform", "application", "ui_type")}
        verdicts.append(Verdict(str(number), right, point is not None, tags))
    assert len(verdicts) == 1581
    assert screenspot_pro_tables(verdicts) == golden["metrics"]


@needs_data
@pytest.mark.parametrize("name", ["osworld-g", "osworld-g-refined"])
def test_every_published_row_at_hand_is_read(name):
    items = load(name, DATA / "osworld_g")
    kinds = [type(item.target).__name__ for item in items.values()]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"Box": 8, "Polygon": 4, "Nothing": 3}
    for item in items.values():
        with Image.open(io.BytesIO(item.picture())) as opened:
            assert opened.size == item.size
    assert any("bucket:fine_grained_manipulation" in item.tags for item in items.values())


# ------------------------------------------------------------------------------------------------------------- formats


def test_boxes_are_held_to_their_notation():
    size = (200, 100)
    assert box([10, 20, 110, 70], "xyxy", size, "x") == box([10, 20, 100, 50], "xywh", size, "x")
    assert box([0.05, 0.25, 0.5, 0.75], "unit", size, "x") == Box(10, 25, 100, 75)
    for values, notation, says in (
        ([150, 20, 190, 90], "xywh", "another notation"),
        ([100, 50, 20, 30], "xyxy", "another notation"),
        ([10, 20, 110, 70], "unit", "shares of the picture"),
        ([1, 2, 3], "xyxy", "four numbers"),
        ([1, 2, "3", 4], "xyxy", "four numbers"),
        (7, "xyxy", "four numbers"),
        ([0.05, 0.25, 0.5, 0.75], "xyxy", "less than a pixel; is this file in another notation"),
    ):
        with pytest.raises(InputError, match=says):
            box(values, notation, size, "file.json, row 7")  # type: ignore[arg-type]


def test_the_last_pixel_of_a_box_is_in_it_in_every_frame():
    """Shares of a picture, and pixels that went through shares, come out a rounding away from whole pixels."""
    for width, edge in ((3840, 62), (750, 401), (1920, 1403)):
        target = box([10, 5, edge, 50], "xyxy", (width, 1000), "x")
        screen = Screen((width, 1000), (width, 1000))
        assert target.holds(point_to_page(Frame.PIXELS, screen, edge, 50))
        assert target.holds(point_to_page(Frame.UNIT, screen, edge / width, 0.05))
        assert not target.holds(point_to_page(Frame.PIXELS, screen, edge + 1, 50))
        shares = box([0.0, 0.005, edge / width, 0.05], "unit", (width, 1000), "x")
        assert shares.holds((edge, 50)) and not shares.holds((edge + 0.01, 50))


def made(name: str, folder: Path) -> tuple[Path, str]:
    """A tiny benchmark in the published format with two items, and which file holds its rows."""
    folder.mkdir()
    (folder / "images").mkdir()
    for picture in ("a.png", "b.png"):
        (folder / "images" / picture).write_bytes(png((200, 100)))
    if name.startswith("screenspot") and name != "screenspot-pro":
        suffix = "_v2" if name.endswith("v2") else ""
        row = {"img_filename": "a.png", "bbox": [10, 20, 100, 50], "instruction": "press", "data_type": "text"}
        for platform in ("desktop", "mobile", "web"):
            rows = [row, row | {"data_type": "icon"}] if platform == "web" else []
            (folder / f"screenspot_{platform}{suffix}.json").write_text(json.dumps(rows))
        return folder, f"screenspot_web{suffix}.json"
    if name == "screenspot-pro":
        (folder / "annotations").mkdir()
        row = {
            "id": "a", "img_filename": "a.png", "img_size": [200, 100], "bbox": [10, 20, 110, 70],
            "instruction": "press", "application": "word", "platform": "windows", "group": "Office", "ui_type": "text",
        }  # fmt: skip
        rows = [row, row | {"id": "b", "ui_type": "icon"}]
        (folder / "annotations" / "word_windows.json").write_text(json.dumps(rows))
        return folder, "annotations/word_windows.json"
    if name.startswith("osworld-g"):
        row = {
            "id": "a", "image_path": "a.png", "image_size": [200, 100], "instruction": "press", "box_type": "bbox",
            "box_coordinates": [10, 20, 100, 50], "GUI_types": ["Label"],
        }  # fmt: skip
        rows = [row, row | {"id": "b", "box_type": "refusal", "box_coordinates": [0, 0, 0, 0]}]
        file = "OSWorld-G_refined.json" if name.endswith("refined") else "OSWorld-G.json"
        (folder / file).write_text(json.dumps(rows))
        return folder, file
    if name == "showdown-clicks":
        with (folder / "data.csv").open("w", newline="") as file_:
            writer = csv.writer(file_)
            writer.writerow(["id", "image", "instruction", "x1", "y1", "x2", "y2", "width", "height"])
            for id in "ab":
                writer.writerow([id, f"{id}.png", "press", 10, 20, 110, 70, 200, 100])
        return folder, "data.csv"
    corners = [0.05, 0.2, 0.55, 0.7] if name == "webclick" else [10.0, 20.0, 110.0, 70.0]
    rows = [
        {"image": {"bytes": png((200, 100)), "path": None}, "instruction": "press", "bbox": corners, "bucket": "agent",
         "platform": "web", "source": "x"}
    ] * 2  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), folder / "test.parquet")
    return folder, "test.parquet"


@pytest.mark.parametrize("name", GROUNDING)
def test_every_format_loads_and_is_played(name, tmp_path):
    folder, _ = made(name, tmp_path / "files")
    suite = find_suite(f"{name}:{folder}")
    assert len(suite.tasks) == 2 and suite.describe()["published_items"] == BENCHMARKS[name].items

    def first_right(environment: Any, observation: Any, step: int) -> Any:
        assert observation.viewport == (200, 100)
        return Click(60, 45) if environment.task.name == suite.tasks[0].name else Click(190, 95)

    asyncio.run(evaluate(ScriptedPolicy(first_right), suite, tmp_path / "run"))
    figures = grounding_figures(RunReader(tmp_path / "run"))
    corners = [[10, 20], [110, 20], [110, 70], [10, 70]]  # reports draw them beside the click
    (shown, *_), *_ = (steps for row, steps in RunReader(tmp_path / "run").rows() if row["success"])
    assert [[round(x, 6), round(y, 6)] for x, y in json.loads(shown["info"])["target"]] == corners
    assert (figures.overall.right, figures.overall.items) == (1, 2)
    assert json.loads(json.dumps(figures.to_json()))["overall"]["accuracy"] == 0.5
    if name.startswith("osworld-g"):
        assert figures.by["without refusals"].accuracy == 1.0 and figures.by["box_type=refusal"].accuracy == 0.0
    if name.startswith("screenspot"):
        assert (figures.overall.text, figures.overall.icon) == (1.0, 0.0)


def test_a_refusal_is_right_where_nothing_is_there_and_an_unusable_reply_is_not(tmp_path):
    folder, _ = made("osworld-g", tmp_path / "files")
    suite = find_suite(f"osworld-g:{folder}")
    says_no = ScriptedPolicy(lambda environment, observation, step: Answer("it is not there"))
    asyncio.run(evaluate(says_no, suite, tmp_path / "no"))
    figures = grounding_figures(RunReader(tmp_path / "no"))
    assert figures.by["box_type=refusal"].accuracy == 1.0 and figures.by["box_type=bbox"].accuracy == 0.0


def test_no_reply_is_no_reply_in_a_wrong_format_and_nothing_asked_is_no_accuracy(tmp_path):
    figures = grounding_figures(RunReader(make_run(tmp_path / "late", {"a": "x"}, suite="osworld-g", steps=0)))
    assert (figures.overall.no_reply, figures.overall.wrong_format, figures.overall.accuracy) == (1, 0, 0.0)
    figures = grounding_figures(RunReader(make_run(tmp_path / "down", {"a": "?"}, suite="osworld-g", steps=0)))
    assert (figures.spoiled, figures.overall.accuracy) == (1, None)


def test_where_all_items_are_to_be_refused_there_is_no_accuracy_without_refusals(tmp_path):
    folder, file = made("osworld-g", tmp_path / "files")
    rows = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps([row for row in rows if row["box_type"] == "refusal"]))
    says_no = ScriptedPolicy(lambda environment, observation, step: Answer("it is not there"))
    asyncio.run(evaluate(says_no, find_suite(f"osworld-g:{folder}"), tmp_path / "run"))
    figures = grounding_figures(RunReader(tmp_path / "run"))
    assert figures.overall.accuracy == 1.0 and "without refusals" not in figures.by
    assert "without refusals" not in model_card([read_result(tmp_path / "run")])


def test_polygons_are_held_to_their_picture():
    assert polygon([10, 10, 90, 10, 50, 80], (200, 100), "x") == Polygon(((10, 10), (90, 10), (50, 80)))
    for values, says in (
        ([10, 10, 90, 10, 50, 800], "does not fit"),
        ([0.1, 0.1, 0.9, 0.1, 0.5, 0.8], "less than a pixel"),
        ([10, 10, 90, 10], "three corners"),
        ([10, 10, 90, 10, 50], "three corners"),
        ([[10, 10], [90, 10], [50, 80]], "three corners"),
    ):
        with pytest.raises(InputError, match=f"file.json, row 7: .*{says}"):
            polygon(values, (200, 100), "file.json, row 7")


@pytest.mark.parametrize("name", [name for name in GROUNDING if name not in ("webclick", "groundui-1k")])
def test_a_damaged_row_names_file_and_row(name, tmp_path):
    folder, file = made(name, tmp_path / "files")
    text = (folder / file).read_text()
    damaged = text.replace("press", "", 1) if file.endswith(".json") else text.replace("70,200", "oops,200", 1)
    assert damaged != text
    (folder / file).write_text(damaged)
    with pytest.raises(InputError, match=f"{Path(file).name}, row 1: "):
        load(name, folder)
    if file.endswith(".json"):
        (folder / file).write_text(text[: len(text) // 2])
        with pytest.raises(InputError, match=f"{Path(file).name}.* row"):
            load(name, folder)


ODD = (None, 5, True, "x", "../x.png", "a\x00", [], [1], {}, [float("nan")] * 4, [[1, 2], [3, 4]], [10**400] * 4, [{}])


@pytest.mark.parametrize("name", [name for name in GROUNDING if not name.endswith(("webclick", "1k", "clicks"))])
def test_whatever_stands_in_a_row_the_error_names_it(name, tmp_path):
    folder, file = made(name, tmp_path / "files")
    rows = json.loads((folder / file).read_text())
    for key in ("bbox", "box_coordinates", "img_filename", "image_path", "img_size", "image_size", "instruction"):
        if key not in rows[1]:
            continue
        for value in ODD:
            if key == "instruction" and isinstance(value, str) and value:
                continue
            (folder / file).write_text(json.dumps([rows[0], rows[1] | {key: value}]))
            load.cache_clear()
            if key == "box_coordinates" and numbers_of(value) is not None:
                load(name, folder)  # of a refusal
                continue
            with pytest.raises(InputError, match=f"{Path(file).name}, row 2: "):
                load(name, folder)
    (folder / file).write_text(json.dumps(rows))
    (folder / "images" / "a.png").write_bytes(b"no picture")
    load.cache_clear()
    with pytest.raises(InputError, match=f"{Path(file).name}, row 1: its picture cannot be read"):
        load(name, folder)


@pytest.mark.parametrize("name", ["webclick", "groundui-1k", "showdown-clicks"])
def test_damaged_tables_name_file_and_row(name, tmp_path):
    folder, file = made(name, tmp_path / "files")
    if file.endswith(".csv"):
        (folder / file).write_text((folder / file).read_text().replace("b.png", "c.png"))
        with pytest.raises(InputError, match=r"data.csv, row 2: .*has no file c.png"):
            load(name, folder)
        (folder / file).write_bytes(b"id,image\n\xff\xfe")
    else:
        rows = pq.read_table(folder / file).to_pylist()
        for damage in ({"bbox": 5.0}, {"bbox": [1.0]}, {"image": {"bytes": b"no picture", "path": None}}):
            pq.write_table(pa.Table.from_pylist([row | damage for row in rows]), folder / file)
            load.cache_clear()
            with pytest.raises(InputError, match=r"test.parquet, row 1: "):
                load(name, folder)
        (folder / file).write_bytes(b"PAR1 and no more")
    load.cache_clear()
    with pytest.raises(InputError, match=Path(file).name):
        load(name, folder)


def test_two_pictures_of_one_name_are_not_guessed_between(tmp_path):
    folder, file = made("screenspot-v2", tmp_path / "files")
    (folder / "images" / "more").mkdir()
    (folder / "images" / "more" / "a.png").write_bytes(png((20, 10)))
    with pytest.raises(InputError, match=r"row 1: .*several files a.png"):
        load("screenspot-v2", folder)
    (folder / file).write_text((folder / file).read_text().replace("a.png", "images/a.png"))
    assert {item.size for item in load("screenspot-v2", folder).values()} == {(200, 100)}


def test_what_tools_leave_beside_the_files_and_in_them_is_no_obstacle(tmp_path):
    folder, file = made("screenspot-v2", tmp_path / "files")
    for junk in ("__MACOSX", ".cache"):
        (folder / junk).mkdir()
        (folder / junk / "a.png").write_bytes(b"not a picture")
    text = (folder / file).read_text().replace("a.png", "C:\\\\pictures\\\\a.png")
    (folder / file).write_text(text, encoding="utf-8-sig")
    assert len(load("screenspot-v2", folder)) == 2


def test_files_that_are_not_there_say_where_they_come_from(tmp_path):
    folder, _ = made("screenspot-v2", tmp_path / "files")
    (folder / "images" / "a.png").unlink()
    (folder / "images.zip").write_bytes(b"")
    with pytest.raises(InputError, match=r"row 1: .*no file a.png; unpack images.zip there"):
        load("screenspot-v2", folder)
    other, _ = made("screenspot", tmp_path / "other")
    with pytest.raises(InputError, match="as OS-Copilot/ScreenSpot-v2 publishes it"):
        load("screenspot-v2", other)


def test_a_picture_that_is_stored_on_its_side_is_shown_as_it_is_meant(tmp_path):
    folder, _ = made("groundui-1k", tmp_path / "files")
    noted, lying = Image.Exif(), io.BytesIO()
    noted[ExifTags.Base.Orientation] = 6  # to be turned right by a quarter
    Image.new("RGB", (200, 100)).transpose(Image.Transpose.ROTATE_90).save(lying, "JPEG", exif=noted)
    row = {"image": {"bytes": lying.getvalue(), "path": None}, "instruction": "press", "bbox": [150, 20, 190, 70]}
    pq.write_table(pa.Table.from_pylist([row]), folder / "test.parquet")
    (item,) = load("groundui-1k", folder).values()
    shown = asyncio.run(GroundingEnvironment({"a": item}).reset(Task("groundui-1k", "a")))
    with Image.open(io.BytesIO(shown.image)) as upright:
        assert item.size == shown.image_size == shown.viewport == upright.size == (200, 100)


def test_a_data_set_from_the_hubs_cache(tmp_path, monkeypatch):
    """As the hub's client keeps it: snapshots of links to blobs."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError, match=r"cannot get the files of Hcompany/WebClick from the hub"):
        find_suite("webclick:hub")
    files, file = made("screenspot-pro", tmp_path / "files")
    cache = tmp_path / "hub" / "datasets--likaixin--ScreenSpot-Pro"
    for name in (file, "images/a.png"):
        link, blob = cache / "snapshots" / ("a" * 40) / name, cache / "blobs" / Path(name).stem
        link.parent.mkdir(parents=True), blob.parent.mkdir(exist_ok=True)
        (files / name).rename(blob)
        link.symlink_to(blob)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("a" * 40)
    assert [task.goal for task in find_suite("screenspot-pro:hub").tasks] == ["press", "press"]
    for name in ("screenspot", "osworld-g", "osworld-g-refined"):
        with pytest.raises(ConfigError, match="not published on the hub in the notation"):
            find_suite(f"{name}:hub")


def test_what_is_missing_is_said():
    with pytest.raises(ConfigError, match="name the folder"):
        find_suite("screenspot-pro")
    with pytest.raises(ConfigError, match="there is no folder"):
        find_suite("webclick:nowhere")
    assert set(GROUNDING) == set(BENCHMARKS) and set(GROUNDING) <= set(suites.names())
