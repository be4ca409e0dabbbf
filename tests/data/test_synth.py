"""Synthesis: survives kill -9, adds pages, refuses to mix, and what it stores can be read without a browser."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from holotron.data.contact import write_contact_sheet
from holotron.data.describing import DescribedScreen
from holotron.data.heldout import MEDIAN_AREA, make_heldout
from holotron.data.labels import Page
from holotron.data.pages.make import Recipe, Size
from holotron.data.shards import content_hash, iter_pages, iter_rows, shard_files
from holotron.data.synth import synthesise
from holotron.data.targets import mistakable
from holotron.errors import ConfigError, InputError
from tests.data.killable import RECIPE

pytestmark = pytest.mark.browser
PAGES = 20


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same pages, made without interruption by two processes."""
    folder = tmp_path_factory.mktemp("whole")
    report = synthesise(folder, RECIPE, seed=5, pages=PAGES, processes=2, shard_pages=4)
    assert report.pages == PAGES
    return folder


def members(session: int) -> list[str]:
    """The processes of a session that still run."""
    stats = [read_quietly(path) for path in Path("/proc").glob("[0-9]*/stat")]
    fields = [stat.rpartition(") ")[2].split() for stat in stats if stat]
    return [one[0] for one in fields if int(one[3]) == session and one[0] != "Z"]


def read_quietly(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it has just ended
        return ""


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end, "it did not happen within 30 seconds"
        time.sleep(0.1)


def test_killed_and_resumed_gives_the_same_pages(whole: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.data.killable", str(tmp_path), str(PAGES)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "4\n"  # the first shard is in place, others are under way
    assert len(members(process.pid)) > 2
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: members(process.pid) == [])  # its workers have ended too
    there = len(list((tmp_path / "pages").glob("*.parquet")))
    assert 1 <= there < 5
    report = synthesise(tmp_path, RECIPE, seed=5, pages=PAGES, processes=1, shard_pages=4)
    assert report.kept == 4 * there
    assert report.pages == PAGES - 4 * there
    assert content_hash(tmp_path) == content_hash(whole)
    again = synthesise(tmp_path, RECIPE, seed=5, pages=PAGES, processes=1, shard_pages=4)
    assert (again.pages, again.kept) == (0, PAGES)


def test_more_pages_are_added_and_a_short_shard_grows(tmp_path: Path) -> None:
    synthesise(tmp_path, RECIPE, seed=5, pages=5, processes=1, shard_pages=4)
    first = [row["id"] for row in iter_rows(tmp_path, ["id"])]
    report = synthesise(tmp_path, RECIPE, seed=5, pages=8, processes=1, shard_pages=4)
    assert (report.kept, report.pages) == (4, 4)
    ids = [row["id"] for row in iter_rows(tmp_path, ["id"])]
    assert ids[: len(first)] == first
    assert len({id.split("/")[0] for id in ids}) == 8


def test_a_folder_holds_one_recipe(whole: Path, tmp_path: Path) -> None:
    other = Recipe(sizes=(Size(320, 320, 1),))
    with pytest.raises(ConfigError, match=r"recipe\.sizes: 1 new \(320x320@1\)"):
        synthesise(whole, other, seed=5, pages=PAGES, shard_pages=4)
    with pytest.raises(ConfigError, match="seed was 5, is 6"):
        synthesise(whole, RECIPE, seed=6, pages=PAGES, shard_pages=4)
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(ConfigError, match="not empty"):
        synthesise(tmp_path, RECIPE, seed=5, pages=1)


def test_rows_are_plain_parquet(whole: Path) -> None:
    table = pq.read_table(shard_files(whole)[0])
    assert {"id", "image", "elements", "characters", "boxes", "lines", "samples", "goal", "action"} <= set(
        table.column_names
    )
    row = table.to_pylist()[0]
    assert len(row["boxes"]) == 4 * len(row["characters"])
    assert row["image"][8:12] == b"WEBP"
    assert json.loads(row["origin"])["maker"] == "chromium"


def test_pages_come_back_as_they_were(whole: Path) -> None:
    pages = list(iter_pages(whole))
    assert len({page.id.split("/")[0] for page in pages}) == PAGES
    for page in pages:
        assert page.image.shape == (160, 160, 3)
        assert len(page.text.characters) == len(page.text.boxes)
        assert all(line.text for line in page.text)
    assert sum(len(page.samples) for page in pages) > 3 * PAGES
    episodes: dict[str, list[Page]] = {}
    for page in pages:
        if page.steps:
            episodes.setdefault(page.id.split("/")[0], []).append(page)
    assert episodes
    for episode in episodes.values():  # the steps of an episode are neighbouring rows, in order
        assert [page.step for page in episode] == list(range(episode[0].steps))
        assert all(page.action and page.goal == episode[0].goal for page in episode)


def test_reading_needs_no_browser_and_no_pydantic(whole: Path) -> None:
    script = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in ('playwright', 'pydantic', 'torch', 'typer', 'rich', 'jinja2'):
            raise ImportError(f'{name} must not be needed here')
sys.meta_path.insert(0, Refuse())
import random
from pathlib import Path
from holotron.data.shards import iter_pages
from holotron.data.samples import make_samples
from holotron.data.drawn import Painter
page = next(iter_pages(Path(sys.argv[1])))
print(page.image.shape, len(make_samples(page.elements, page.text, random.Random(1))) > 0)
print(Painter().paint(1, 2).image.shape)
"""
    done = subprocess.run([sys.executable, "-c", script, str(whole)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "(160, 160, 3) True\n(320, 320, 3)\n"


def test_what_holds_no_pages_is_said_clearly(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no pages"):
        list(iter_pages(tmp_path))


def test_contact_sheet_shows_pages_and_samples(whole: Path, tmp_path: Path) -> None:
    assert write_contact_sheet(whole, tmp_path / "sheet.html", count=5) == 5
    html = (tmp_path / "sheet.html").read_text()
    page = next(iter_pages(whole))
    assert html.count("<figure") == 5
    assert html.count("data:image/webp;base64,") == 5
    assert page.id in html


def test_the_held_out_set_is_hard_and_frozen(tmp_path: Path) -> None:
    made = make_heldout(tmp_path / "one", pages=6, processes=1)
    assert made.samples >= 6
    assert made.median_area <= MEDIAN_AREA
    for page in iter_pages(tmp_path / "one"):
        assert page.origin["held_out"]
        screen = DescribedScreen(page.elements, page.text)
        for sample in page.samples:
            target = next(e for e in page.elements if e.box == pytest.approx(sample.box, abs=0.01))
            assert mistakable(screen, target)
    card = json.loads((tmp_path / "one" / "heldout.json").read_text())
    assert card["hash"] == made.hash == content_hash(tmp_path / "one")
    again = make_heldout(tmp_path / "two", pages=6, processes=1)
    assert again == made
    with pytest.raises(InputError, match="larger pages"):
        make_heldout(tmp_path / "small", pages=4, sizes=(Size(96, 96, 1),), processes=1)
