"""Tensors into a file that another process maps, and back: as safetensors, but a GPU's contents at the speed of its
bus.

Pageable memory is copied to and from a GPU by one thread of the driver. Here the copies go through two pinned buffers,
and from there all cores copy into the file's memory (and page it in) while the next piece is on the bus. Copies run on
a stream of their own, on a worker's thread: the engine's loop goes on meanwhile.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

PIECE = 64 << 20  # bytes of a buffer
_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}

_one = threading.Lock()  # there is one pair of buffers
_buffers: list[Tensor] = []


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    if not any(tensor.is_cuda for tensor in tensors.values()):
        save_file(dict(tensors), str(path), metadata)
        return
    write_mapped(path, tensors, metadata)


def write_mapped(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """Through the file's memory."""
    ordered = sorted(tensors.items(), key=lambda named: -named[1].element_size())  # so that each is aligned
    head: dict[str, object] = {"__metadata__": metadata}
    places: dict[str, slice] = {}
    end = 0
    for name, tensor in ordered:
        places[name] = slice(end, end + tensor.nbytes)
        end += tensor.nbytes
        offsets = [places[name].start, places[name].stop]
        head[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": offsets}
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
    storage: Any = torch.UntypedStorage.from_file(str(path), shared=True, nbytes=8 + len(text) + end)
    whole = torch.empty(0, dtype=torch.uint8).set_(storage)[8 + len(text) :]
    for name, tensor in ordered:
        _ship(_bytes(tensor), whole[places[name]])


def read_tensors(
    path: Path, device: torch.device | None, on_device: Callable[[str], bool]
) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Metadata and tensors: those that belong on a GPU are brought there, if it has room for them."""
    with safe_open(str(path), "pt") as file:
        metadata = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    if device is not None and device.type == "cuda":
        for name in [name for name in tensors if on_device(name)]:
            tensors[name] = _brought(tensors[name], device)
    return metadata, tensors


def _brought(tensor: Tensor, device: torch.device) -> Tensor:
    try:
        there = torch.empty(tensor.shape, dtype=tensor.dtype, device=device)
    except torch.OutOfMemoryError:
        return tensor
    torch.cuda.current_stream(device).synchronize()  # the memory may have been somebody's until now
    _ship(_bytes(tensor), _bytes(there))
    return there


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(-1).view(torch.uint8)


def _ship(source: Tensor, target: Tensor) -> None:
    """Bytes from a device to the host, or the other way; waits for the end."""
    if not source.is_cuda and not target.is_cuda:
        target.copy_(source)
        return
    device = source.device if source.is_cuda else target.device
    with _one, torch.cuda.device(device), torch.cuda.stream(torch.cuda.Stream(device)):
        if not _buffers:
            _buffers.extend(torch.empty(PIECE, dtype=torch.uint8, pin_memory=True) for _ in range(2))
        (_leave if source.is_cuda else _arrive)(source, target)


def _leave(source: Tensor, target: Tensor) -> None:
    """While one piece is on the bus, the one before goes from its buffer into the file."""
    waiting: tuple[torch.cuda.Event, Tensor, slice] | None = None
    for n, start in enumerate(range(0, len(source), PIECE)):
        place = slice(start, min(start + PIECE, len(source)))
        buffer = _buffers[n % 2][: place.stop - place.start]
        buffer.copy_(source[place], non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        if waiting is not None:
            _unload(waiting, target)
        waiting = (event, buffer, place)
    if waiting is not None:
        _unload(waiting, target)


def _unload(waiting: tuple[torch.cuda.Event, Tensor, slice], target: Tensor) -> None:
    event, buffer, place = waiting
    event.synchronize()
    target[place].copy_(buffer)


def _arrive(source: Tensor, target: Tensor) -> None:
    on_the_bus: list[torch.cuda.Event | None] = [None, None]
    for n, start in enumerate(range(0, len(source), PIECE)):
        place = slice(start, min(start + PIECE, len(source)))
        if (event := on_the_bus[n % 2]) is not None:
            event.synchronize()
        buffer = _buffers[n % 2][: place.stop - place.start]
        buffer.copy_(source[place])
        target[place].copy_(buffer, non_blocking=True)
        event = on_the_bus[n % 2] = torch.cuda.Event()
        event.record()
    torch.cuda.current_stream().synchronize()
