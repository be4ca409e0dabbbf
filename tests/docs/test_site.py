"""The documentation builds without a warning, needs nothing from elsewhere, and names every public name and extra."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import holotron
from holotron.cli.overview import COMMANDS
from tests.docs.snippets import ROOT


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_is_complete(tmp_path: Path) -> None:
    """One test, because tests are spread over processes and each would build it. A missing mkdocs is a failure, not a
    skip: `make setup` installs it."""
    site = built(tmp_path / "site")
    pages_load_nothing_from_elsewhere(site)
    every_public_name_and_command_is_in_the_reference(site)
    front = (site / "index.html").read_text()  # the README
    assert 'href="guides/serving.html"' in front and 'src="images/holotron-mini.png"' in front


def built(folder: Path) -> Path:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stdout + done.stderr
    return folder


def pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        text = page.read_text()
        loaded = re.findall(r"<(?:script|img|iframe|source)[^>]* src=\"?([^\" >]+)", text)
        loaded += re.findall(r"<link[^>]* rel=\"?(?:stylesheet|preconnect)\"?[^>]* href=\"?([^\" >]+)", text)
        loaded += re.findall(r"<link[^>]* href=\"?([^\" >]+)[^>]* rel=\"?(?:stylesheet|preconnect)", text)
        assert loaded, page
        assert [address for address in loaded if re.match(r"(https?:)?//", address)] == [], page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?https?:|@import", sheet.read_text()), sheet


def every_public_name_and_command_is_in_the_reference(site: Path) -> None:
    page = (site / "reference" / "api.html").read_text()
    for name in holotron.__all__:
        if name != "__version__":
            assert f'id="holotron.{name}"' in page, name
    assert "<li><code>profile</code>: a file with saved log-ins" in page  # two columns in the source, a list here
    commands = (site / "reference" / "cli.html").read_text()
    assert all(f'id="holotron-{name}"' in commands for name in COMMANDS)


def test_an_experiment_has_a_heading_of_its_own() -> None:
    """One heading each; a paragraph that begins in bold would be one that hides."""
    log = (ROOT / "docs" / "lab" / "log.md").read_text()
    assert log.count("\n### ") > 40
    assert re.findall(r"\n\n\*\*[^*\n]+\.\*\* ", log) == []
