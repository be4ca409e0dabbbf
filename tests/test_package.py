"""The package as a user meets it: import cost, public names, exit codes, and a wheel in an empty environment."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import holotron
from holotron import errors
from holotron.cli.overview import COMMANDS

ROOT = Path(__file__).parent.parent
SOURCES = Path(holotron.__file__).parents[1]


def run(*args: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(  # type: ignore[call-overload]
        args, capture_output=True, text=True, timeout=300, env=environment, **options
    )


def test_import_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import holotron; print(sorted(set(sys.modules) - before))"
    assert run(sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {str(SOURCES)!r}); {code}").stdout == (
        "['holotron']\n"
    )


def test_the_overview_needs_no_parser() -> None:
    """`holotron --help` is what people type first; typer and rich alone take a quarter of a second."""
    code = f"""if True:
        import sys
        sys.path.insert(0, {str(SOURCES)!r})
        sys.argv = ["holotron", "--help"]
        from holotron.cli.overview import main
        try:
            main()
        finally:
            print([name for name in ("typer", "rich", "pydantic", "torch", "asyncio") if name in sys.modules])
    """
    done = run(sys.executable, "-c", code)
    assert done.returncode == 0 and done.stdout.endswith("[]\n")
    assert all(f"  {name}" in done.stdout for name in COMMANDS)


def test_every_public_name_exists() -> None:
    for name in holotron.__all__:
        assert getattr(holotron, name) is not None
        assert name in dir(holotron)
    with pytest.raises(AttributeError):
        _ = holotron.nothing_of_this_name


def test_exit_codes_are_stable() -> None:
    expected = {
        "HolotronError": 1,
        "ConfigError": 2,
        "CheckpointError": 3,
        "InputError": 4,
        "CapacityError": 5,
        "EnvironmentFault": 6,
        "PolicyError": 7,
        "MissingDependency": 8,
        "StorageError": 9,
    }
    assert {name: getattr(errors, name).exit_code for name in expected} == expected


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--version"], 0, holotron.__version__),
        (["model", "show", "no-such-model"], 2, "neither a folder"),
        (["model", "init", "tiny"], 2, "out"),
        (["no-such-command"], 2, "no-such-command"),
    ],
)
def test_command_line_errors(arguments: list[str], code: int, says: str) -> None:
    done = run(sys.executable, "-m", "holotron", *arguments)
    assert done.returncode == code
    assert says in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_wheel_installs_and_imports_in_an_empty_environment(tmp_path: Path) -> None:
    """Built as a user would get it: only the wheel, no extras, nothing of the source tree. Heavy dependencies are taken
    from this environment (behind the fresh one's own packages) instead of being downloaded again."""
    done = run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", tmp_path, ROOT)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("holotron-*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    assert run(python, "-c", "import holotron").returncode != 0
    done = run(python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel)
    assert done.returncode == 0, done.stderr
    code = "import holotron; print(holotron.__version__, holotron.__file__)"
    done = run(python, "-c", code, cwd=tmp_path)
    assert done.stdout.startswith(f"{holotron.__version__} {tmp_path}"), done.stderr

    site = next(Path(p) for p in sys.path if p.endswith("site-packages"))
    own = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    assert (own / "holotron" / "kernels" / "native" / "decoder.cpp").exists()  # compiled where it runs
    assert (own / "holotron" / "recipes" / "holotron-mini" / "4-rl.toml").exists()
    (own / "dependencies.pth").write_text(f"{site}\n")
    code = (
        "import holotron, torch; m, p = holotron.load_model('tiny', device='cpu');"
        f"assert holotron.__file__.startswith({str(tmp_path)!r}), holotron.__file__;"
        "print(m(torch.tensor(p.render([dict(role='user', content='hi')]).ids)).shape[-1])"
    )
    done = run(python, "-c", code, cwd=tmp_path)
    assert done.stdout.strip() == "320", done.stderr
    done = run(
        python,
        "-m",
        "holotron",
        "train",
        "rl",
        "holotron-mini/4-rl",
        "tasks.names=click-test",
        "--dry-run",
        cwd=tmp_path,
    )
    assert done.returncode == 0 and "1 tasks: click-test" in done.stdout, done.stderr
    shipped = {path.name for path in (own / "holotron" / "recipes").rglob("*.toml")}
    assert shipped == {path.name for path in (ROOT / "recipes").rglob("*.toml")}
