"""What holotron depends on, under which licences, and the same as an SBOM.

    python tools/licences.py                      # a table; exit status 1 if a licence is not on the list
    python tools/licences.py --sbom sbom.json     # CycloneDX 1.6

Looked at is what is installed here of `holotron[all]`, with everything that it needs in turn; the tools for
development are not part of what users get. Facts come from the packages' own metadata (the licence expression, else
classifiers, else the free text).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# Licences that let users pass holotron on, in products too. LGPL is fine for a library that is imported as it is.
ALLOWED = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "CNRI-Python", "HPND", "ISC",
    "LGPL-2.1-or-later", "LicenseRef-BSD", "LLVM-exception", "MIT", "MIT-0", "MIT-CMU", "MPL-2.0", "PSF-2.0",
    "Python-2.0", "Unlicense", "Zlib",
}  # fmt: skip
# What people write instead of an SPDX identifier.
SPELLINGS = {
    "apache": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache 2.0 license": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "apache software license 2.0": "Apache-2.0",
    "apache-2.0 license": "Apache-2.0",
    "3-clause bsd license": "BSD-3-Clause",
    "bsd": "LicenseRef-BSD",  # two clauses or three: not said
    "bsd license": "LicenseRef-BSD",
    "bsd-3-clause license": "BSD-3-Clause",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "the mit license (mit)": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
    "psfl": "PSF-2.0",
    "the unlicense (unlicense)": "Unlicense",
    "historical permission notice and disclaimer (hpnd)": "HPND",
}


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    licence: str  # an SPDX expression, or what the metadata say
    needs: tuple[str, ...]

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"

    @property
    def allowed(self) -> bool:
        """Whether every licence of an `AND`, or one of an `OR`, is on the list."""
        options = re.split(r"\s+OR\s+", self.licence.replace("(", " ").replace(")", " "))
        return any(all(term in ALLOWED for term in re.split(r"\s+(?:AND|WITH)\s+", one.strip())) for one in options)


def packages(root: str = "holotron[all]") -> list[Package]:
    """Everything that is installed here because of `root`, itself included."""
    found: dict[str, Package] = {}
    waiting = [Requirement(root)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if (name, frozenset(wanted.extras)) in seen:
            continue
        seen.add((name, frozenset(wanted.extras)))
        try:
            there = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            print(f"not installed here, so not looked at: {name}", file=sys.stderr)
            continue
        needed = [need for line in there.requires or () if _applies(need := Requirement(line), wanted.extras)]
        waiting += needed
        needs = tuple(sorted({canonicalize_name(need.name) for need in needed} - {name}))
        before = found[name].needs if name in found else ()
        found[name] = Package(name, there.version, licence_of(there), tuple(sorted({*before, *needs})))
    return sorted(found.values(), key=lambda package: package.name)


def _applies(need: Requirement, extras: set[str]) -> bool:
    if need.marker is None:
        return True
    here = {key: str(value) for key, value in default_environment().items()}
    return any(need.marker.evaluate({**here, "extra": extra}) for extra in {"", *extras})


def licence_of(there: metadata.Distribution) -> str:
    facts = there.metadata
    if expression := facts.get("License-Expression"):
        return str(expression)
    classified = [
        line.rpartition(" :: ")[2] for line in facts.get_all("Classifier") or () if line.startswith("License")
    ]
    told = [line for line in classified if line != "OSI Approved"]
    text = str(facts.get("License") or "").strip()
    for one in [text] if text in ALLOWED else told or [text.partition("\n")[0]]:
        return SPELLINGS.get(one.lower(), one) or "unknown"
    return "unknown"


def sbom(found: list[Package]) -> dict[str, Any]:
    """CycloneDX 1.6: what there is, under which licence, and who needs whom."""
    own = next(package for package in found if package.name == "holotron")

    def component(package: Package, kind: str) -> dict[str, Any]:
        licence: dict[str, Any] = {"expression": package.licence}
        if " " not in package.licence or not package.allowed:
            known = package.licence in ALLOWED and not package.licence.startswith("LicenseRef-")
            licence = {"license": {"id" if known else "name": package.licence}}
        return {
            "type": kind,
            "bom-ref": package.purl,
            "name": package.name,
            "version": package.version,
            "purl": package.purl,
            "licenses": [licence],
        }

    by_name = {package.name: package.purl for package in found}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid4()}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
            "component": component(own, "application"),
        },
        "components": [component(package, "library") for package in found if package is not own],
        "dependencies": [
            {"ref": package.purl, "dependsOn": [by_name[name] for name in package.needs if name in by_name]}
            for package in found
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sbom", type=Path, help="also write an SBOM here")
    wanted = parser.parse_args()
    found = packages()
    for package in found:
        print(f"{'ok     ' if package.allowed else 'REFUSED'} {package.name:28} {package.version:18} {package.licence}")
    if wanted.sbom is not None:
        wanted.sbom.write_text(json.dumps(sbom(found), indent=2) + "\n")
    refused = [package.name for package in found if not package.allowed]
    if refused:
        sys.exit(f"not on the list of allowed licences (tools/licences.py): {', '.join(refused)}")


if __name__ == "__main__":
    main()
