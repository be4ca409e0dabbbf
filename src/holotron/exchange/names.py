"""Names of ours as folders, packages and classes: whatever a task is called, the result is safe and tells apart.

folder_name("shop-wish", 3)             'shop-wish-3'
folder_name("../Füße & Co", 3)          'fusse-co-9c1f2a-3'      what was lost is in the hash
"""

from __future__ import annotations

import hashlib
import keyword
import re
import unicodedata

from holotron.errors import ConfigError

LONGEST = 60


def slug(name: str) -> str:
    """Lower-case letters, digits and single dashes. Names that differ stay different."""
    plain = unicodedata.normalize("NFKD", name.casefold()).encode("ascii", "ignore").decode()
    made = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:LONGEST].strip("-")
    if made and made == name:
        return made
    return f"{made or 'task'}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def folder_name(task: str, seed: int) -> str:
    return f"{slug(task)}-{seed}"


def package_name(wanted: str) -> str:
    """What Python can import and verifiers finds: dashes outside are underscores inside."""
    name = wanted.lower().replace("-", "_")
    if not name.isascii() or not name.isidentifier() or keyword.iskeyword(name):
        raise ConfigError(f"{wanted!r} cannot be the name of a package; use letters, digits and dashes, with --name")
    return name


def class_prefix(package: str) -> str:
    return "".join(part.capitalize() for part in package.split("_") if part)
