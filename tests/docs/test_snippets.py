"""Every command and snippet of README and docs/ works: run where it can be, else its arguments and imports checked."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from tests.docs import parsing
from tests.docs.running import opened
from tests.docs.snippets import ROOT, Block, blocks, indented_commands, pages

BLOCKS = [block for page in pages() for block in blocks(page)]
RUNNABLE = [page for page in pages() if any(block.mark.startswith("run") for block in blocks(page))]


def test_every_block_is_marked() -> None:
    assert len(BLOCKS) > 50  # the collector finds them
    assert [f"{block} {block.wrong}" for block in BLOCKS if block.wrong] == []
    assert [f"{page.relative_to(ROOT)}: {line}" for page in pages() for line in indented_commands(page)] == []


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language in ("json", "toml")], ids=str)
def test_data_in_the_docs_parses(block: Block) -> None:
    if block.language == "toml":
        assert tomllib.loads(block.text)
    else:
        assert json.loads(block.text)


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "bash"], ids=str)
def test_commands_have_arguments_that_exist(block: Block) -> None:
    assert parsing.wrong_in_script(block.small) == []


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "python"], ids=str)
def test_python_in_the_docs_compiles_and_imports_what_exists(block: Block) -> None:
    assert parsing.wrong_in_python(block.text) == []


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_can_be_run_runs(page: Path, tmp_path: Path) -> None:
    with opened(tmp_path) as here:
        for block in blocks(page):
            if block.mark.startswith(("run", "file ")):
                here.run(block)


def test_the_check_can_fail(tmp_path: Path) -> None:
    assert parsing.wrong_in_script("holotron eval miniwob --polciy scripted")
    assert parsing.wrong_in_script("holotron serve tiny --server.prot 8001")
    assert parsing.wrong_in_script("holotron bench sessions tiny --stepz 3")
    assert parsing.wrong_in_script("make no-such-target")
    assert parsing.wrong_in_script("python benchmarks/no_such_file.py")
    assert not parsing.wrong_in_script("holotron eval miniwob --policy scripted --seeds 0:2  # a comment")
    assert parsing.wrong_in_python("from holotron import nothing_like_it")
    assert parsing.wrong_in_python("holotron.no_such_name()")
    assert not parsing.wrong_in_python("import holotron\nawait holotron.run_async('x', url='y')")
    page = tmp_path / "page.md"
    page.write_text("```bash\nholotron doctor\n```\n\n    holotron doctor\n\n<!-- run -->\n```bash\ntrue\n```\n")
    first, second = blocks(page)
    assert first.wrong and not second.wrong
    assert indented_commands(page) == ["holotron doctor"]


def test_a_snippet_that_fails_is_seen(tmp_path: Path) -> None:
    def block(language: str, text: str) -> Block:
        return Block(ROOT / "README.md", 1, language, text, "run", ())

    with opened(tmp_path) as here:
        here.run(block("bash", "holotron --version\nls page.png\n"))
        with pytest.raises(AssertionError, match="README"):
            here.run(block("bash", "false\ntrue\n"))
        here.run(block("python", "x = 1\nimport asyncio\nawait asyncio.sleep(0)"))
        with pytest.raises(ZeroDivisionError):
            here.run(block("python", "x / 0"))
        here.run(block("sql", "select 1"))
