"""What a suite is, what it needs and how long it takes: read off the documentation of its factory.

    def coins(request: SuiteRequest) -> Suite:
        \"\"\"Coins to be sorted, in no browser.

        Needs: nothing.
        Takes: a minute for 1,000 episodes of a scripted policy.
        \"\"\"

`holotron eval --list` shows it, for the suites of other packages too.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

from holotron.errors import HolotronError
from holotron.suites.base import suites


@dataclass(frozen=True, slots=True)
class SuiteAbout:
    summary: str
    needs: str = ""
    takes: str = ""


def about_suite(name: str) -> SuiteAbout:
    """A suite whose package is broken or half installed is described by what is wrong with it."""
    try:
        factory = suites.get(name)
    except (HolotronError, ImportError) as error:
        return SuiteAbout(f"cannot be loaded: {error}")
    text = inspect.getdoc(factory) or ""
    return SuiteAbout(text.partition("\n")[0], _section(text, "Needs"), _section(text, "Takes"))


def _section(text: str, name: str) -> str:
    found = re.search(rf"^{name}: *(.+?)(?=\n\s*\n|\n[A-Z]\w+: |\Z)", text, re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()) if found else ""
