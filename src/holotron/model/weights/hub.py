"""Checkpoints from the Hugging Face hub: the local cache first, the network when there is one, the licence always."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from holotron.errors import CheckpointError, MissingDependency
from holotron.model.weights.shards import shard_files

# Code is never fetched: the network is defined here, not in the checkpoint's repository.
WANTED = ["*.json", "*.safetensors", "*.jinja", "*.md", "LICENSE*", "NOTICE*"]


def looks_like_hub_id(text: str) -> bool:
    """owner/name, and owner/name@revision for a branch, a tag or a commit. No part begins with a dot: ./name and
    ../name are folders."""
    return re.fullmatch(r"\w[\w.-]*/\w[\w.-]*(@\w[\w./-]*)?", text) is not None


def snapshot(source: str, wanted: Sequence[str] = WANTED) -> Path:
    """The folder of a repository's snapshot (its newest, or of the revision that is named), the wanted files downloaded
    if need be. A download that was interrupted goes on where it stopped."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import LocalEntryNotFoundError
    except ImportError:
        raise MissingDependency.extra("huggingface_hub", "hub") from None
    repository, _, named = source.partition("@")
    revision = named or None
    patterns, missing = list(wanted), list[str]()
    try:
        folder = Path(snapshot_download(repository, revision=revision, allow_patterns=patterns, local_files_only=True))
        # The cache may hold less than is wanted now: the configuration alone, or some of the weights.
        if not (missing := _missing(folder, wanted)):
            return folder
    except LocalEntryNotFoundError:
        pass
    try:
        folder = Path(snapshot_download(repository, revision=revision, allow_patterns=patterns))
        problem = "the hub could not be reached, or does not have them"
    except Exception as error:  # the hub client raises its own, requests' and httpx's errors
        problem = _first_line(error)
    else:
        # Without a network the client hands out what it has, whole or not.
        if not (missing := _missing(folder, wanted)):
            return folder
    lacking = f" (missing: {', '.join(missing[:3])}{' ...' if len(missing) > 3 else ''})"
    command = f"hf download {repository}{f' --revision {named}' if named else ''}"
    raise CheckpointError(
        f"cannot download {source}{lacking if missing else ', and there is no folder of that name'}: "
        f"{problem.rstrip('.')}. If the machine has no network, download it elsewhere ({command}) and pass the folder"
    )


def _missing(folder: Path, wanted: Sequence[str]) -> list[str]:
    """Of what cannot be done without: the configuration, and every file of the weights."""
    files = [folder / "config.json"]
    if "*.safetensors" in wanted:
        files += shard_files(folder) or [folder / "model.safetensors"]
    return [file.name for file in files if not file.exists()]


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def licence_notice(folder: Path) -> str:
    """One line about a checkpoint's licence, from its model card."""
    card = folder / "README.md"
    if not card.exists():
        return "no model card: check the licence before you use or share it"
    head = card.read_text(encoding="utf-8", errors="replace").split("---")
    fields = dict(re.findall(r"^(license\w*):\s*(.+?)\s*$", head[1] if len(head) > 2 else "", re.MULTILINE))
    name = fields.get("license_name") or fields.get("license")
    if not name:
        return "the model card names no licence: check before you use or share it"
    link = fields.get("license_link")
    return f"licence: {name}" + (f" ({link})" if link else "")
