"""tools/pack_browser.sh: the folder it makes holds everything that the browser needs."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "pack_browser.sh"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not Path("/usr/lib/chromium/chromium-headless-shell").exists(), reason="packs Debian's browser"),
]


def _there(folder: Path, command: str) -> str:
    """What a command says in a shell that knows nothing but the folder."""
    script = f". {folder}/environment.sh && {command}"
    run = ["env", "-i", f"HOME={folder}", "PATH=/usr/bin:/bin", "bash", "-euc", script]
    return subprocess.run(run, check=True, capture_output=True, text=True, timeout=60).stdout


def test_the_packed_browser_runs_from_its_folder_alone(tmp_path: Path) -> None:
    made, folder = tmp_path / "made", tmp_path / "elsewhere"
    subprocess.run([SCRIPT, made], check=True, capture_output=True)
    shutil.move(made, folder)
    libraries = [
        line.split("=>")[1].split()[0] for line in _there(folder, "ldd $HOLOTRON_CHROMIUM").splitlines() if "=>" in line
    ]
    ours = [name for name in libraries if name.startswith(str(folder))]
    assert len(ours) > 20
    assert {Path(name).name.split(".")[0] for name in set(libraries) - set(ours)} <= {
        "libc", "libm", "libdl", "librt", "libpthread", "libresolv", "libgcc_s", "libstdc++"
    }  # fmt: skip
    page = "data:text/html,<p id=p></p><script>p.textContent=6*7</script>"
    shown = _there(folder, f"$HOLOTRON_CHROMIUM --no-sandbox --disable-gpu --dump-dom '{page}'")
    assert '<p id="p">42</p>' in shown
    if shutil.which("fc-list"):
        fonts = _there(folder, "fc-list : file").split()
        assert fonts and all(font.startswith(str(folder)) for font in fonts)


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    run = subprocess.run([SCRIPT, tmp_path], capture_output=True, text=True, check=False)
    assert run.returncode == 1 and "exists already" in run.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
