"""What a release must pass. `make release-check`, or some of it:

    python tools/release_check.py                          # everything; minutes, and a package index is needed
    python tools/release_check.py --only build,licences    # build, docs, licences, extras
    python tools/release_check.py --extras serve,agent     # of the extras these; "none" is the bare wheel

build     wheel and source archive; their metadata (twine); what must be in them is in them
docs      the site, without a warning
licences  of all dependencies, against the list in tools/licences.py; an SBOM (CycloneDX) beside the wheel
extras    the wheel with each extra in an empty environment does what the extra is for, and without it says so; with all
          of them a script that uses the API passes mypy --strict

Everything lands in dist/.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
sys.path.insert(0, str(ROOT / "tools"))

IN_WHEEL = (
    "holotron/py.typed",
    "holotron/assets/holotron-mini/model.safetensors",
    "holotron/kernels/native/decoder.cpp",
    "holotron/recipes/holotron-mini/4-rl.toml",
    "holotron/sites/",
)
IN_SOURCES = ("pyproject.toml", "LICENSE", "NOTICE", "tests/test_package.py", "docs/start/install.md", "mkdocs.yml")


def say(text: str) -> None:
    print(f"release-check: {text}", flush=True)


def call(*command: str | Path, **environment: str) -> None:
    done = subprocess.run(
        list(map(str, command)), cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}\nrelease-check: FAILED")


def build() -> None:
    shutil.rmtree(DIST, ignore_errors=True)
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", DIST)
    call(sys.executable, "-m", "twine", "check", "--strict", *DIST.glob("holotron-*"))
    with zipfile.ZipFile(wheel()) as archive:
        names = archive.namelist()
    (sources,) = DIST.glob("holotron-*.tar.gz")
    with tarfile.open(sources) as archive_of_sources:
        in_sources = [name.partition("/")[2] for name in archive_of_sources.getnames()]
    missing = [name for name in IN_WHEEL if not any(found.startswith(name) for found in names)]
    missing += [name for name in IN_SOURCES if name not in in_sources]
    stray = [name for name in [*names, *in_sources] if "__pycache__" in name or name.startswith(("runs/", ".venv/"))]
    if missing or stray:
        sys.exit(f"release-check: missing {missing}, not wanted {stray[:5]}")
    sizes = ", ".join(f"{path.name} {path.stat().st_size / 1e6:.1f} MB" for path in sorted(DIST.iterdir()))
    say(f"build: {sizes}")


def wheel() -> Path:
    found = list(DIST.glob("holotron-*.whl"))
    if not found:
        sys.exit("release-check: there is no wheel in dist/; run `--only build` first")
    return found[0]


def docs() -> None:
    with tempfile.TemporaryDirectory() as folder:
        call(sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder, NO_MKDOCS_2_WARNING="1")
    say("docs: no warnings")


def licences() -> None:
    import json

    from licences import packages, sbom

    found = packages()
    refused = [f"{package.name}: {package.licence}" for package in found if not package.allowed]
    if refused:
        sys.exit(f"release-check: licences that are not on the list: {'; '.join(refused)}")
    DIST.mkdir(exist_ok=True)
    (DIST / "licences.txt").write_text("".join(f"{p.name} {p.version}: {p.licence}\n" for p in found))
    (DIST / "sbom.cdx.json").write_text(json.dumps(sbom(found), indent=2) + "\n")
    say(f"licences: {len(found)} packages, all on the list; dist/licences.txt, dist/sbom.cdx.json")


STEPS: dict[str, Callable[[], None]] = {"build": build, "docs": docs, "licences": licences}


def main() -> None:
    from release_extras import EXTRAS, bare_environment, check_extra

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join([*STEPS, "extras"]), help="steps, with commas")
    parser.add_argument("--extras", default=",".join(EXTRAS), help="with commas")
    wanted = parser.parse_args()
    steps, extras = wanted.only.split(","), wanted.extras.split(",")
    if unknown := [name for name in steps if name not in (*STEPS, "extras")]:
        parser.error(f"there is no step {unknown[0]}; there are {', '.join(STEPS)}, extras")
    if unknown := [name for name in extras if name not in EXTRAS]:
        parser.error(f"there is no extra {unknown[0]}; there are {', '.join(EXTRAS)}")
    for name, step in STEPS.items():
        if name in steps:
            step()
    if "extras" in steps:
        with tempfile.TemporaryDirectory(prefix="holotron-release-") as folder:
            bare = bare_environment(wheel(), Path(folder))
            for extra in extras:
                start = time.monotonic()
                check_extra(extra, wheel(), bare, Path(folder))
                say(f"extra {extra}: works ({time.monotonic() - start:.0f} s)")
    say("passed")


if __name__ == "__main__":
    main()
