"""Which weights were these? A short name for the contents of a checkpoint's files.

    fingerprint(Path("runs/model"))              # "sha256:3f1c9a0b72de4411"

Two runs with the same name under `weights` were played by the same numbers; a folder that was trained on and has kept
its path is told apart. Files beyond a gigabyte are not read whole, which would take a minute for a 12B: of those the
header and evenly spaced blocks are hashed, and the name says "sampled". Training changes every block.

    fingerprint_in_memory(model)                 # the same, of weights that are loaded
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from torch import nn

WHOLE_BYTES = 1 << 30  # files up to this size are read completely
_BLOCK, _BLOCKS = 1 << 16, 256
_NUMBERS = 64  # of each tensor in memory


def fingerprint(folder: Path) -> str | None:
    """None: there are no weights in the folder."""
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.bin"))
    if not files:
        return None
    digest = hashlib.sha256()
    sampled = False
    for file in files:
        size = file.stat().st_size
        digest.update(f"{file.name}\0{size}\0".encode())
        sampled |= size > WHOLE_BYTES
        with file.open("rb") as opened:
            if size <= WHOLE_BYTES:
                while block := opened.read(1 << 22):
                    digest.update(block)
                continue
            for number in range(_BLOCKS):
                opened.seek(number * (size - _BLOCK) // (_BLOCKS - 1))
                digest.update(opened.read(_BLOCK))
    return f"sha256{'-sampled' if sampled else ''}:{digest.hexdigest()[:16]}"


def fingerprint_in_memory(model: nn.Module) -> str:
    """By some numbers of each tensor: the same wherever the same files were read in the same form."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\0".encode())
        flat = tensor.detach().reshape(-1)
        some = flat[:: max(1, flat.numel() // _NUMBERS)].contiguous()
        digest.update(some.view(torch.uint8).cpu().numpy().tobytes())
    return f"sha256-sampled:{digest.hexdigest()[:16]}"
