"""`holotron data`: the commands, called as a user calls them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from holotron.cli.data import app
from holotron.data.shards import content_hash, iter_pages
from holotron.errors import InputError

call = CliRunner()


def test_drawn_sheet_and_hash(tmp_path: Path) -> None:
    done = call.invoke(app, ["drawn", str(tmp_path / "d"), "--pages", "6", "--size", "160x160@2", "--sheet", "4"])
    assert done.exit_code == 0, done.output
    assert len(list(iter_pages(tmp_path / "d"))) == 6
    assert (tmp_path / "d" / "index.html").read_text().count("<figure") == 4
    assert call.invoke(app, ["hash", str(tmp_path / "d")]).output.strip() == content_hash(tmp_path / "d")
    done = call.invoke(app, ["sheet", str(tmp_path / "d"), str(tmp_path / "s.html"), "--count", "2"])
    assert "2 screenshots" in done.output


def test_damaged_pages_are_moved_aside_and_painted_again(tmp_path: Path) -> None:
    paint = ["drawn", str(tmp_path), "--pages", "4", "--size", "160x160@1", "--sheet", "0"]
    call.invoke(app, paint)
    whole = content_hash(tmp_path)
    assert "all of 4 pages are sound" in call.invoke(app, ["verify", str(tmp_path)]).output
    shard = tmp_path / "pages" / "000000.parquet"
    shard.write_bytes(shard.read_bytes()[:-100])
    for words in (["hash", str(tmp_path)], paint, ["verify", str(tmp_path)]):
        failed = call.invoke(app, words)
        assert isinstance(failed.exception, InputError) and "--quarantine" in str(failed.exception), words
    assert "0 pages are sound" in call.invoke(app, ["verify", str(tmp_path), "--quarantine"]).output
    call.invoke(app, paint)
    assert content_hash(tmp_path) == whole


@pytest.mark.browser
def test_synth_says_what_it_made(tmp_path: Path) -> None:
    arguments = ["synth", str(tmp_path / "s"), "--pages", "4", "--size", "160x160@1", "--processes", "1"]
    done = call.invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "4 pages, 4 of them new" in done.output
    assert "pages/s" in done.output
    assert "4 pages, 0 of them new" in call.invoke(app, arguments).output
