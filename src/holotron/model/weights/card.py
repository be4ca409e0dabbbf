"""The model card of a derivative: what it came from, under which licence, and how it was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holotron.model.bundled import BUNDLED, bundled_folder

NVIDIA_LICENSE = "https://www.nvidia.com/en-us/agreements/enterprise-software/nvidia-open-model-license/"


@dataclass(frozen=True)
class ModelCard:
    """`base_model` decides the licence: whatever is derived from Nemotron or Holotron keeps NVIDIA's. A folder says
    so in its own card, and so does what ships with the package."""

    name: str
    base_model: str | None = None
    recipe: str = ""  # what was done to it, in the words of the person who did it
    figures: Mapping[str, str] = field(default_factory=dict)  # measured, with how
    body: str = ""  # further Markdown

    @property
    def derived_from_nemotron(self) -> bool:
        base = self.base_model or ""
        folder = bundled_folder() if base == BUNDLED else Path(base)
        if base and (card := folder / "README.md").is_file():
            return "nvidia-open-model-license" in card.read_text(encoding="utf-8")
        return any(word in base.lower() for word in ("nemotron", "holotron"))

    def render(self) -> str:
        head = ["---", "library_name: holotron", "pipeline_tag: image-text-to-text"]
        if self.base_model:
            head.append(f"base_model: {self.base_model}")
        if self.derived_from_nemotron:
            head += ["license: other", "license_name: nvidia-open-model-license", f"license_link: {NVIDIA_LICENSE}"]
        else:
            head.append("license: apache-2.0")
        head += ["tags: [computer-use, gui-agent, mamba2, hybrid]", "---", ""]
        parts = ["\n".join(head), f"# {self.name}\n"]
        if self.base_model:
            parts.append(f"Derived from `{self.base_model}`.\n")
        if self.derived_from_nemotron:
            parts.append(
                "## Licence\n\nLicensed by NVIDIA Corporation under the NVIDIA Open Model License. This is a modified "
                f"model; the licence text ({NVIDIA_LICENSE}) must accompany every copy, and its terms, including those "
                "on guardrails and attribution, hold for everything derived from it.\n"
            )
        if self.recipe:
            parts.append(f"## Recipe\n\n{self.recipe}\n")
        if self.figures:
            rows = "\n".join(f"| {name} | {value} |" for name, value in self.figures.items())
            parts.append(f"## Figures\n\n| what | measured |\n|---|---|\n{rows}\n")
        if self.body:
            parts.append(self.body.rstrip() + "\n")
        return "\n".join(parts)
