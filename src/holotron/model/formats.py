"""Files that hold a model in another form than is read here, told apart so that an error can say what to do."""

from __future__ import annotations

import json
from pathlib import Path

GGUF = "GGUF is the format of llama.cpp and is not read here; take the safetensors checkpoint that it was made from"
LFS_POINTER = "it is a pointer of Git LFS, not the file: run git lfs pull, or download it with hf download"


def is_lfs_pointer(file: Path) -> bool:
    """What a clone without Git LFS has in the place of a large file."""
    try:
        with file.open("rb") as opened:
            return opened.read(19) == b"version https://git"
    except OSError:
        return False


def other_form(folder: Path) -> str:
    """What a folder holds that has no config.json or no .safetensors of a whole model; empty if nothing is known."""
    if (folder / "adapter_config.json").is_file():
        base = _base(folder / "adapter_config.json")
        return (
            f"it holds an adapter for {base}, not a model; merge the two first, in Python with peft: "
            f'PeftModel.from_pretrained(base, "{folder}").merge_and_unload().save_pretrained("merged")'
        )
    if any(folder.glob("*.gguf")):
        return GGUF
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt")) or any(folder.glob("*.pth")):
        return "weights in pickled files are not read here; store them again with save_pretrained of transformers"
    return ""


def _base(file: Path) -> str:
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["base_model_name_or_path"])
    except (OSError, ValueError, KeyError, TypeError):
        return "some other model"


def other_tokenizer(folder: Path) -> str:
    """Why there is no tokenizer.json, and how to get one."""
    found = [name for name in ("vocab.json", "merges.txt", "tokenizer.model") if (folder / name).is_file()]
    if not found:
        return f"{folder} holds no tokenizer.json; a checkpoint folder needs one"
    return (
        f"{folder} holds no tokenizer.json but {' and '.join(found)}, the older form of a tokenizer; write the newer "
        f'one with transformers: AutoTokenizer.from_pretrained("{folder}").save_pretrained("{folder}")'
    )
