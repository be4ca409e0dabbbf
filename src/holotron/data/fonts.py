"""Which fonts there are, which languages they can write, and which of them are never trained on."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from holotron.data.pages.words import LANGUAGES
from holotron.errors import InputError, MissingDependency

# Reserved for the held-out set, wherever they are installed. The first two come with the packages that every Debian
# desktop has (fonts-dejavu-core, fonts-liberation).
HELD_OUT = frozenset({"DejaVu Serif", "Liberation Sans Narrow", "Lato", "PT Serif", "B612", "Go", "Cantarell"})

# What browsers on Linux use where a page asks for Arial or Helvetica: most pages.
USUAL = frozenset({"Liberation Sans", "Arimo", "Arial", "Helvetica"})

# Families that are no text fonts.
_UNSUITABLE = ("Emoji", "Math", "Symbol", "Initials", "Keyboard", "Smallcaps", "Icons", "Dingbats", "Hairline")


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    languages: tuple[str, ...]  # of `words.LANGUAGES`

    @property
    def held_out(self) -> bool:
        return self.name in HELD_OUT

    @property
    def weight(self) -> float:
        """How often to use it."""
        return 5.0 if self.name in USUAL else 1.0


@cache
def installed_families() -> tuple[Family, ...]:
    """The text fonts that browsers on this machine can use, by name."""
    if shutil.which("fc-list") is None:
        raise MissingDependency("fc-list is missing. Install fontconfig (Debian/Ubuntu: apt-get install fontconfig).")
    listing = subprocess.run(
        ["fc-list", "--format", "%{family[0]}\t%{lang}\n"], capture_output=True, text=True, check=True
    ).stdout
    languages: dict[str, set[str]] = {}
    for line in listing.splitlines():
        name, _, spoken = line.partition("\t")
        if name and not name.startswith(".") and not any(word in name for word in _UNSUITABLE):
            languages.setdefault(name, set()).update(spoken.split("|"))
    families = [
        Family(name, tuple(language for language in LANGUAGES if language in spoken))
        for name, spoken in sorted(languages.items())
        if "en" in spoken
    ]
    if not families:
        raise MissingDependency(
            "No fonts are installed. Debian/Ubuntu: apt-get install fonts-liberation fonts-dejavu-core"
        )
    return tuple(families)


def families_for(*, held_out: bool) -> tuple[Family, ...]:
    """The families of one side of the split."""
    chosen = tuple(family for family in installed_families() if family.held_out == held_out)
    if not chosen:
        side = "held-out" if held_out else "training"
        raise MissingDependency(
            f"No {side} font is installed. Debian/Ubuntu: apt-get install fonts-liberation fonts-dejavu-core"
        )
    return chosen


# ------------------------------------------------------------------------------------------------ files, for Pillow

_FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts", "/Library/Fonts",
            "/System/Library/Fonts", "C:/Windows/Fonts")  # fmt: skip


def font_files(folders: Iterable[Path] | None = None) -> list[Path]:
    """TrueType and OpenType files under the folders (by default where systems keep them), by file name."""
    roots = [Path(os.path.expanduser(folder)) for folder in (folders if folders is not None else _FOLDERS)]
    found = {path.name: path for root in roots for kind in ("*.ttf", "*.otf") for path in sorted(root.rglob(kind))}
    suitable = [path for name, path in sorted(found.items()) if not any(word in name for word in _UNSUITABLE)]
    if not suitable:
        looked = ", ".join(str(root) for root in roots)
        raise InputError(f"no .ttf or .otf file under {looked}; name a folder of fonts")
    return suitable
