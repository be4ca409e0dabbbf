"""Files that hold a model in another form than is read here, told apart so that an error can say what to do."""

from __future__ import annotations

import json
from pathlib import Path

GGUF = "GGUF is the format of llama.cpp and is not read here; take the safetensors checkpoint that it was made from"
LFS_POINTER = "it is a pointer of Git LFS, not the file: run git lfs pull, or download it with hf download"

_SHOWN = 3  # checkpoints named in one error

_PIECES = (
    "it holds what a trainer saves for itself, in pieces (DeepSpeed, FSDP or Megatron), not a model; put it together "
    "with the trainer's own tool first, as safetensors"
)
# What a folder holds: the first pattern that fits says what it is.
_FORMS = (
    (("*.gguf",), GGUF),
    (("*.distcp", "*/*.distcp", "*/mp_rank_*", "*/zero_pp_rank_*"), _PIECES),
    (
        ("*.bin", "*.pt", "*.pth"),
        "weights in pickled files are not read here; store them again with save_pretrained of transformers",
    ),
    (
        ("*.onnx", "onnx/*.onnx"),
        "ONNX is an export for other programs and is not read here; take the safetensors checkpoint that it was made "
        "from",
    ),
    (
        ("*.h5", "*.msgpack", "*.npz"),
        "weights for TensorFlow, JAX or MLX are not read here; take the safetensors checkpoint that they were made "
        "from",
    ),
)


def is_lfs_pointer(file: Path) -> bool:
    """What a clone without Git LFS has in the place of a large file."""
    try:
        with file.open("rb") as opened:
            return opened.read(19) == b"version https://git"
    except OSError:
        return False


def other_form(folder: Path) -> str:
    """What a folder holds that has no config.json or no .safetensors of a whole model, or what to do; empty if nothing
    is known."""
    if (folder / "adapter_config.json").is_file():
        return f"it holds an adapter for {_base(folder)}, not a model; {_merge(folder)}"
    found = next((form for patterns, form in _FORMS if any(any(folder.glob(p)) for p in patterns)), "")
    return found or _inside(folder)


def adapter_beside(folder: Path) -> str:
    """What to do about a folder that holds an adapter beside a whole model; empty if it does not. Other tools would
    compute with both."""
    if not (folder / "adapter_config.json").is_file() or not any(folder.glob("adapter_model.*")):
        return ""
    return (
        f"{folder} holds an adapter for {_base(folder)}, not a model; {_merge(folder)}. To load the model beside it "
        "without it, take adapter_config.json away"
    )


def _merge(folder: Path) -> str:
    return (
        "merge the two first, in Python with peft: "
        f'PeftModel.from_pretrained(base, "{folder}").merge_and_unload().save_pretrained("merged")'
    )


def _base(folder: Path) -> str:
    try:
        said = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
        return str(said["base_model_name_or_path"])
    except (OSError, ValueError, KeyError, TypeError):
        return "some other model"


def _inside(folder: Path) -> str:
    """Checkpoints in a folder that is none: those of a trainer's run, or of a hub cache; the newest first."""
    places = [file.parent for pattern in ("*/config.json", "snapshots/*/config.json") for file in folder.glob(pattern)]
    places.sort(key=lambda place: place.stat().st_mtime, reverse=True)
    names = ", ".join(str(place) for place in places[:_SHOWN])
    return f"name one of the checkpoints in it: {names}{' ...' if len(places) > _SHOWN else ''}" if places else ""


def other_tokenizer(folder: Path) -> str:
    """Why there is no tokenizer.json, and how to get one."""
    found = [name for name in ("vocab.json", "merges.txt", "tokenizer.model") if (folder / name).is_file()]
    if not found:
        return f"{folder} holds no tokenizer.json; a checkpoint folder needs one"
    return (
        f"{folder} holds no tokenizer.json but {' and '.join(found)}, the older form of a tokenizer; write the newer "
        f'one with transformers: AutoTokenizer.from_pretrained("{folder}").save_pretrained("{folder}")'
    )
