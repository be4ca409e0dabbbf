"""The code blocks of README and docs/, and what each of them is marked as.

    for block in blocks(Path("README.md")):
        block.mark, block.language, block.text

A mark is an HTML comment on the line above the fence, so that readers do not see it:

    <!-- run -->                                       executed by a test, in order, in one folder for the page
    <!-- run, with "--pages 1000" as "--pages 2" -->    the same with a smaller budget; quotes as in the text
    <!-- run in background -->                         a server: started, waited for, ended with the page
    <!-- file my_suite.py -->                          written to that file, for the blocks that follow
    <!-- tested in tests/a/test_b.py -->               executed by that test, from the page itself
    <!-- parse -->                                     too long for a test: only its arguments or imports are checked
    <!-- gpu -->, <!-- network -->, <!-- gpu, network -->     needs that; arguments and imports are checked as well

Blocks in bash, python and sql must have a mark. JSON and TOML must parse. Text (no language) needs none, but may not
hold commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = ("bash", "python", "sql")
KNOWN = re.compile(r"run|run in background|file \S+|tested in \S+|parse|gpu|network|gpu, network")
COMMAND = re.compile(r"^\s*(\$ )?(holotron|python|pip|make|pytest|curl|uv) [-\w]", re.M)
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\S*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$", re.M | re.S)
_MARK = re.compile(r"<!-- (.*?) -->\n\Z")
_CHANGE = re.compile(r'"([^"]+)" as "([^"]*)"')


def _text_of(test: str) -> str:
    path = ROOT / test
    return path.read_text() if path.is_file() else ""


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    text: str
    mark: str  # "" if there is none
    changes: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def wrong(self) -> str:
        """What is wrong with its mark, or nothing."""
        if self.language in CODE and not self.mark:
            return "has no mark (see tests/docs/snippets.py)"
        if self.mark and not KNOWN.fullmatch(self.mark):
            return f"has an unknown mark: {self.mark}"
        if self.mark.startswith("tested in ") and self.page.name not in _text_of(self.mark.split()[-1]):
            return f"is not {self.mark}"
        if self.language not in CODE and COMMAND.search(self.text) and not self.mark.startswith("file"):
            return f"holds a command and is not called bash, but {self.language or 'nothing'}"
        missing = [old for old, _ in self.changes if old not in self.text]
        return f"does not hold {missing[0]!r}, which its mark changes" if missing else ""

    @property
    def small(self) -> str:
        """The text with the budgets of a test."""
        text = self.text
        for old, new in self.changes:
            text = text.replace(old, new)
        return text


def pages() -> list[Path]:
    """All that strangers read. The lab quotes commands of the past, which need not work today."""
    docs = (path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "lab")
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(docs)]


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for fence in _FENCE.finditer(text):
        before = text[: fence.start()]
        comment = _MARK.search(before)
        mark, _, changes = (comment[1] if comment else "").partition(", with ")
        indent = len(fence["indent"])
        lines = [line[indent:] for line in fence["text"].splitlines(keepends=True)]
        yield Block(
            page,
            before.count("\n") + 1,
            fence["language"],
            "".join(lines),
            mark,
            tuple((old, new) for old, new in _CHANGE.findall(changes)),
        )


def indented_commands(page: Path) -> list[str]:
    """Commands in a block that is made by indenting: they could not be marked."""
    text = _FENCE.sub("", page.read_text())
    return re.findall(r"(?:^|\n)\n    ((?:holotron|python|pip|make|pytest) [^\n]*)", text)
