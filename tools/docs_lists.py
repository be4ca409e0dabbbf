"""Arguments in docstrings are written in two columns, as they read best in an editor; the site shows them as a list.
mkdocstrings calls this while it reads the sources (mkdocs.yml, `extensions`).

    goal       what the agent is to do
    url        where it starts; a second line of the same
               begins below the first
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_ENTRY = re.compile(r"(\w+)  +(\S.*)")


class Lists(Extension):
    def on_object(self, *, obj: Object, **others: Any) -> None:
        if not obj.is_alias and obj.docstring is not None:
            obj.docstring.value = with_lists(obj.docstring.value)


def with_lists(text: str) -> str:
    return "\n\n".join(_listed(paragraph) for paragraph in re.split(r"\n[ \t]*\n", text))


def _listed(paragraph: str) -> str:
    items: list[str] = []
    for line in paragraph.splitlines():
        if entry := _ENTRY.fullmatch(line):
            items.append(f"- `{entry[1]}`: {entry[2]}")
        elif items and line.startswith("        "):
            items[-1] += f" {line.strip()}"
        else:
            return paragraph
    return "\n".join(items) if len(items) > 1 else paragraph
