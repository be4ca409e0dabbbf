"""WebVoyager, Online-Mind2Web and WebGames: files read whole, bad rows named, pages played in a real browser."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.envs.network import NetworkPolicy
from holotron.errors import ConfigError, InputError
from holotron.evals.evaluate import evaluate
from holotron.evals.judging.model import JudgeModel
from holotron.evals.judging.run import Judged, judge
from holotron.evals.judging.sources import read_source
from holotron.evals.judging.webvoyager import WebVoyagerJudge
from holotron.rollouts.runner import RolloutSettings
from holotron.rollouts.store import RunReader
from holotron.suites.base import NAVIGATION, find_suite, suites
from holotron.suites.navigation.files import rows_of
from holotron.suites.navigation.places import Place
from holotron.suites.navigation.webvoyager import SETS, read_references
from holotron.types import Answer, Click
from tests.envs.site import Site
from tests.evals.judge_server import images_of, judge_server, text_of

DATA = Path(os.environ.get("HOLOTRON_BENCHMARKS", Path(__file__).parents[3] / "shared" / "data"))
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="needs published benchmark files (HOLOTRON_BENCHMARKS)")
QUESTIONS = [
    {"web_name": "Tea", "id": "Tea--0", "ques": "What does black tea cost?", "web": "https://tea.example/"},
    {"web_name": "Tea", "id": "Tea--1", "ques": "What does green tea cost?", "web": "https://tea.example/green?a=1"},
    {"web_name": "Bank", "id": "Bank--0", "ques": "When does it open?", "web": "bank.example"},
]


def write_rows(file: Path, rows: list[Any]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(json.dumps(row) for row in rows))
    return file


# -------------------------------------------------------------------------------------------------- published files


@needs_data
def test_every_published_task_is_read_and_its_set_recognised():
    for name, count in (("webvoyager", 643), ("webvoyager-fara", 595)):
        suite = find_suite(f"{name}:{DATA / 'webvoyager'}")
        assert len(suite.tasks) == count == suite.facts["published_items"] == SETS[name].tasks
        assert suite.facts["as_published"] is True
        assert suite.facts["subset"] == SETS[name].hash
        assert not suite.scored
        assert {task.start_url.partition("://")[0] for task in suite.tasks} <= {"http", "https"}
    first = find_suite(f"webvoyager:{DATA / 'webvoyager'}").tasks[0]
    assert (first.name, first.options["site"], first.options["reference_type"]) == (
        "Allrecipes--0",
        "Allrecipes",
        "possible",
    )
    references = read_references(DATA / "webvoyager" / "reference_answer.json")
    kinds = [reference["reference_type"] for reference in references.values()]
    assert (kinds.count("golden"), kinds.count("possible")) == (143, 500)
    one_site = find_suite(f"webvoyager:{DATA / 'webvoyager'}", tasks="Google Map,ESPN--3")
    assert len(one_site.tasks) == 42
    assert one_site.facts["as_published"] is True and one_site.facts["subset"] != SETS["webvoyager"].hash


@needs_data
def test_every_published_game_is_read():
    suite = find_suite(f"webgames:{DATA / 'webgames'}@http://localhost:4173/")
    assert len(suite.tasks) == 150 and suite.scored
    assert len(suite.facts["visible_passwords"]) == 6
    assert suite.facts["need_google"] == ["robo-check", "robo-check-easy", "robo-check-hard"]
    date = next(task for task in suite.tasks if task.name == "date")
    assert date.start_url == "http://localhost:4173/date"
    passwords = [json.loads(line)["password"] for line in (DATA / "webgames" / "webgames_tasks.jsonl").open()]
    said = json.dumps([[task.goal, task.options, task.start_url] for task in suite.tasks])
    assert [word for word in passwords if word in said] == []  # no task carries its answer


@needs_data
@pytest.mark.parametrize("row", [0, 1, 300, 642])
def test_one_corrupted_row_among_the_published_ones_is_named(tmp_path, row):
    lines = (DATA / "webvoyager" / "WebVoyager_data.jsonl").read_text().split("\n")
    lines[row] = lines[row][: len(lines[row]) // 2]
    file = tmp_path / "WebVoyager_data.jsonl"
    file.write_text("\n".join(lines))
    with pytest.raises(InputError, match=rf"WebVoyager_data.jsonl, row {row + 1} is not valid JSON"):
        find_suite(f"webvoyager:{tmp_path}")


# ------------------------------------------------------------------------------------------------------ made-up files


def test_the_same_questions_have_the_same_hash_wherever_they_lie(tmp_path):
    file = write_rows(tmp_path / "deep" / "er" / "WebVoyager_data.jsonl", QUESTIONS)
    shuffled = write_rows(tmp_path / "mine.jsonl", QUESTIONS[::-1])
    by_folder, by_file = find_suite(f"webvoyager:{tmp_path / 'deep'}"), find_suite(f"webvoyager-nemo:{shuffled}")
    local = find_suite(f"webvoyager:{file}@http://127.0.0.1:9000")
    assert by_folder.facts["subset"] == by_file.facts["subset"] == local.facts["subset"]
    assert by_folder.facts["as_published"] is False and by_file.facts["as_published"] is None
    assert (by_folder.facts["base"], local.facts["base"]) == ("live", "http://127.0.0.1:9000")
    assert by_folder.tasks[2].start_url == "https://bank.example"
    assert local.tasks[1].start_url == "http://127.0.0.1:9000/tea.example/green?a=1"
    assert local.tasks[2].start_url == "http://127.0.0.1:9000/bank.example/"
    edited = write_rows(tmp_path / "edited.jsonl", [*QUESTIONS[:2], {**QUESTIONS[2], "ques": "When does it close?"}])
    assert find_suite(f"webvoyager:{edited}").facts["subset"] != by_file.facts["subset"]
    assert [task.name for task in find_suite(f"webvoyager:{file}", tasks="Tea").tasks] == ["Tea--0", "Tea--1"]
    write_rows(tmp_path / "deep" / "patchedTasks.jsonl", QUESTIONS[:1])
    patched = find_suite(f"webvoyager-magnitude:{tmp_path / 'deep'}")
    assert (patched.name, len(patched.tasks), patched.facts["published_items"]) == ("webvoyager-magnitude", 1, 590)


def test_a_copy_can_reach_nothing_but_itself():
    assert Place.parse("x").network.allow == ()
    assert Place.parse("x@http://127.0.0.1:9000").network.allow == ("127.0.0.1:9000",)
    assert Place.parse("x@https://[::1]/wv/").network.allow == ("[::1]:443",)
    assert Place.parse("a@b@http://host").files == "a@b"
    for wrong in ("x@http://", "x@http://host:notaport"):
        with pytest.raises(ConfigError, match="no web address"):
            Place.parse(wrong)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"ques": ""}, "ques is missing or empty"),
        ({"id": 7}, "id is missing"),
        ({"web": "ftp://x"}, "web is no web address"),
        ({"web": "https://[bad"}, "web is no web address"),
        ({"web": "https://shop.example:99999/"}, "web is no web address"),
        ({"web": "javascript:alert(1)"}, "web is no web address"),
        ({"ques": "Find \ud800"}, "ques holds half a character at 5"),
        ({"id": "Tea--0"}, "'Tea--0' occurs twice"),
        (7, "expected an object, found 7"),
    ],
)
def test_a_row_that_is_wrong_is_named(tmp_path, bad, says):
    third = {**QUESTIONS[2], **bad} if isinstance(bad, dict) else bad
    file = write_rows(tmp_path / "WebVoyager_data.jsonl", [*QUESTIONS[:2], third])
    with pytest.raises(InputError, match=says) as error:
        find_suite(f"webvoyager:{tmp_path}")
    assert f"{file}, row 3" in str(error.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[{"a": 1}, {"a": 2]', "row 2 is not valid JSON"),
        ('[{"a": 1} {"a": 2}]', "after row 1: expected a comma"),
        ('[{"a": 1}, 3]', "row 2: expected an object"),
        ('[{"a": 1}', "after row 1"),
        ("[", "row 1 is not valid JSON"),
    ],
)
def test_rows_of_a_list_are_counted_too(tmp_path, text, says):
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(InputError, match=says):
        list(rows_of(file))
    file.write_text(' [ {"a": 1} , {"a": 2} ] \n')
    assert [row["a"] for row, _ in rows_of(file)] == [1, 2]
    file.write_text("[]")
    assert list(rows_of(file)) == []
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        list(rows_of(file))


def test_online_mind2web_in_the_fields_of_its_card_and_of_its_copies(tmp_path):
    rows = [
        {"task_id": "a", "website": "https://www.tea.example/", "task_description": "Buy tea.", "reference_length": 5},
        {"task_id": "b", "website": "bank.example", "confirmed_task": "Open it.", "level": "easy"},
    ]
    (tmp_path / "Online_Mind2Web.json").write_text(json.dumps(rows))
    suite = find_suite(f"online-mind2web:{tmp_path}")
    assert [(task.name, task.goal, task.options["site"]) for task in suite.tasks] == [
        ("a", "Buy tea.", "tea.example"),
        ("b", "Open it.", "bank.example"),
    ]
    assert [task.name for task in find_suite(f"online-mind2web:{tmp_path}", tasks="easy").tasks] == ["b"]
    (tmp_path / "Online_Mind2Web.json").write_text(json.dumps([rows[0], {"task_id": "c", "task": "x"}]))
    with pytest.raises(InputError, match=r"Online_Mind2Web.json, row 2: website or website_url or url is missing"):
        find_suite(f"online-mind2web:{tmp_path}")


def test_tasks_from_the_hubs_cache(tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError, match=r"cannot get Online_Mind2Web\.json of osunlp/Online-Mind2Web from the hub"):
        find_suite("online-mind2web:hub")
    folder = tmp_path / "datasets--osunlp--Online-Mind2Web"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("a" * 40)
    rows = [{"task_id": "a", "website": "tea.example", "task_description": "Buy tea."}]
    (folder / "snapshots" / ("a" * 40)).mkdir(parents=True)
    (folder / "snapshots" / ("a" * 40) / "Online_Mind2Web.json").write_text(json.dumps(rows))
    assert len(find_suite("online-mind2web:hub").tasks) == 1
    with pytest.raises(ConfigError, match="no data set on the hub"):
        find_suite("webvoyager:hub")


@pytest.mark.parametrize("name", NAVIGATION)
def test_without_files_one_sentence_says_where_they_are(name, tmp_path):
    assert suites.get(name).__doc__
    with pytest.raises(ConfigError, match=rf"holotron eval {name}:F"):
        find_suite(name)
    with pytest.raises(ConfigError, match=r"get it from|name the file|has no"):
        find_suite(f"{name}:{tmp_path}")
    with pytest.raises(ConfigError, match="there is no file or folder"):
        find_suite(f"{name}:{tmp_path / 'nowhere'}")


# ----------------------------------------------------------------------------------------------- in a real browser


CORNER = "style='position:absolute; left:0; top:0; width:200px; height:100px'"
TEA = f"<title>Tea</title><a href='/tea.example/black' {CORNER}>Black tea</a>"


@pytest.mark.browser
def test_webvoyager_on_a_copy_of_its_sites_played_and_judged(tmp_path):
    """The whole way: tasks from a file, pages in Chromium, screenshots and answers on record, a judge who looks."""
    site = Site()
    site.pages["/tea.example/"] = TEA
    site.pages["/tea.example/green"] = TEA
    site.pages["/tea.example/black"] = "<title>Black</title><h1>Black tea: 3 euros</h1>"
    file = write_rows(tmp_path / "WebVoyager_data.jsonl", QUESTIONS)  # bank.example is not served: 404, yet a page

    def script(environment: Any, observation: Any, step: int) -> Any:
        return Click(50, 50) if step == 0 else Answer(f"3 euros, says {observation.title}")

    async def main(url: str) -> tuple[Any, Judged]:
        suite = find_suite(f"webvoyager:{file}@http://{site.host}")
        settings = RolloutSettings(sessions=2)
        played = await evaluate(ScriptedPolicy(script), suite, tmp_path / "run", settings=settings)
        async with JudgeModel(url, "m") as model:
            return played, await judge(read_source(tmp_path / "run"), WebVoyagerJudge(2), model)

    try:
        with judge_server(lambda r: "SUCCESS" if "black tea" in text_of(r) else "NOT SUCCESS") as server:
            played, judged = asyncio.run(main(server.url))
    finally:
        site.close()
    assert played.scores.overall.unscored == 3 and played.scores.mean_success is None
    assert judged.verdicts == {"webvoyager/Tea--0/0": True, "webvoyager/Tea--1/0": False, "webvoyager/Bank--0/0": False}
    assert judged.figures.sites["Tea"].decided == 2
    asked = next(request for request in server.requests if "black tea" in text_of(request))
    assert "TASK: What does black tea cost?\nResult Response: 3 euros, says Black\n2 screenshots" in text_of(asked)
    assert len(images_of(asked)) == 2 and images_of(asked)[0].startswith("data:image/jpeg;base64,")
    manifest = RunReader(tmp_path / "run").manifest["config"]["environment"]
    assert manifest["suite"] == "webvoyager" and manifest["items"] == 3 and manifest["base"] == f"http://{site.host}"


@pytest.mark.browser
def test_a_game_is_won_by_its_password_alone(tmp_path):
    site = Site()
    button = (
        "<button style='position:absolute;left:0;top:0;width:200px;height:100px' onclick='document.title=\"PASS_1\"'>go"
    )
    site.pages["/press"] = f"<title>game</title>{button}"
    games = [
        {"id": "press", "path": "press", "title": "Press", "description": "Press the button.", "password": "PASS_1"},
        {"id": "press-hard", "path": "press", "title": "P", "description": "Press it", "password": "PASS_2"},
    ]
    write_rows(tmp_path / "webgames_tasks.jsonl", games)

    def script(environment: Any, observation: Any, step: int) -> Any:
        return Click(50, 50) if step == 0 else Answer(f"The password is {observation.title}.")

    async def main() -> Any:
        suite = find_suite(f"webgames:{tmp_path}@http://{site.host}")
        return await evaluate(ScriptedPolicy(script), suite, tmp_path / "run", settings=RolloutSettings(sessions=1))

    try:
        played = asyncio.run(main())
    finally:
        site.close()
    outcomes = {row["task"]: row["outcome"] for row in RunReader(tmp_path / "run").episodes()}
    assert outcomes == {"press": "success", "press-hard": "failure"}
    assert played.scores.mean_success == 0.5
    assert "PASS_2" not in repr(list(RunReader(tmp_path / "run").rows()))  # nor can anyone read it off the record


def test_where_browsers_may_go() -> None:
    wanted = NetworkPolicy(allow=("www.bbc.com",))
    assert Place.parse("data", wanted).network == wanted
    assert Place.parse("data").network == NetworkPolicy()
    with pytest.raises(ConfigError, match="leave out which sites"):
        Place.parse("data@http://127.0.0.1:8080", wanted)
