"""The parts of `make release-check` that take seconds: licences, the SBOM, and what an extra is called."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))
licences = importlib.import_module("licences")
release_extras = importlib.import_module("release_extras")


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        ("MIT", True),
        ("MIT AND PSF-2.0", True),
        ("GPL-3.0-only OR MIT", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("MIT AND GPL-3.0-only", False),
        ("AGPL-3.0-only", False),
        ("unknown", False),
    ],
)
def test_which_licences_are_allowed(licence: str, allowed: bool) -> None:
    assert licences.Package("x", "1", licence, ()).allowed is allowed


def test_every_dependency_has_an_allowed_licence_and_is_in_the_sbom(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "tools" / "licences.py", "--sbom", tmp_path / "sbom.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    bom = json.loads((tmp_path / "sbom.json").read_text())
    assert (bom["bomFormat"], bom["metadata"]["component"]["name"]) == ("CycloneDX", "holotron")
    names = {component["name"] for component in bom["components"]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    direct = {line.partition(">")[0].lower().replace("_", "-") for line in project["dependencies"]}
    assert direct <= names and "pytest" not in names
    refs = {component["bom-ref"] for component in bom["components"]} | {bom["metadata"]["component"]["bom-ref"]}
    assert all({entry["ref"], *entry["dependsOn"]} <= refs for entry in bom["dependencies"])
    assert all(component["licenses"] for component in bom["components"])


def test_every_extra_is_tried_before_a_release_and_described() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for_users = set(project["optional-dependencies"]) - {"dev", "docs"}
    assert set(release_extras.EXTRAS) - {"none"} == for_users
    page = (ROOT / "docs" / "start" / "install.md").read_text()
    assert all(f"| `{extra}` |" in page for extra in for_users)
