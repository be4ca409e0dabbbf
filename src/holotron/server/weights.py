"""New weights that arrive while the server runs: from a file, from another process's GPU memory, or broadcast.

`holotron.fleet.weights` sends them. A version is a number that all replicas share; a change that is told as differences
names the version it changes, and is refused by a replica that has another (409 `other_version`: send it everything).

File: safetensors, in `fleet.folder`. A parameter stands there under its name, or as `NAME#indices` and `NAME#values`
(see `Sparse`), or as `NAME#down` and `NAME#up` with its scale in the metadata (`LowRank`).
"""

from __future__ import annotations

import asyncio
import base64
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field
from safetensors import SafetensorError, safe_open
from torch import Tensor

from holotron.engine import Arriving, Change, Engine, LowRank, OnUpdate, Sparse
from holotron.errors import ConfigError, InputError
from holotron.server.errors import ApiError
from holotron.server.moving import FleetBody, Harbour

GROUP_SECONDS = 120.0  # for all ranks to come, and for each tensor


class SharedTensor(FleetBody):
    """Memory of another process on the same GPU (CUDA IPC), as torch describes it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    storage: tuple[str | int | bool | None, ...]  # bytes in base64
    form: Literal["whole", "down", "up"] = "whole"
    scale: float = 1.0


class Announced(FleetBody):
    name: str
    dtype: str
    shape: tuple[int, ...]


class Group(FleetBody):
    """A broadcast from rank 0."""

    host: str
    port: int
    rank: int = Field(ge=1)
    size: int = Field(ge=2)
    backend: Literal["gloo", "nccl"]
    tensors: tuple[Announced, ...]


class NewWeights(FleetBody):
    version: int = Field(ge=1)
    on_update: OnUpdate = "keep"
    changes_version: int | None = None  # it tells differences from this one
    file: str | None = None
    at: str | None = None  # a server that has the file
    shared: tuple[SharedTensor, ...] | None = None
    gpu: str | None = None  # whose memory that is
    group: Group | None = None


async def update(engine: Engine, request: NewWeights, harbour: Harbour) -> int:
    if engine.version == request.version:
        return engine.version  # it was told before
    if request.changes_version is not None and request.changes_version != engine.version:
        message = f"these are changes to version {request.changes_version}; here is version {engine.version}"
        raise ApiError(409, message, code="other_version")
    if request.file is not None:
        async with harbour.borrowed(request.file, request.at) as path:
            with opened(path) as changes:
                return await engine.aio.update_weights(changes, request.on_update, request.version)
    if request.shared is not None:
        check_gpu(request.gpu)
        version = await engine.aio.update_weights(shared_changes(request.shared), request.on_update, request.version)
        await asyncio.to_thread(torch.cuda.synchronize)  # only now may the sender change its memory
        return version
    if request.group is not None:
        with await asyncio.to_thread(Joined, request.group) as joined:
            changes = joined.arriving(engine.model.device)
            return await engine.aio.update_weights(changes, request.on_update, request.version)
    raise ApiError(400, "say where the weights are: file, shared or group")


# ------------------------------------------------------------------------------------------------------------ a file


@contextmanager
def opened(path: Path) -> Iterator[dict[str, Change]]:
    """The changes in a file; read from it while they are applied."""
    try:
        with safe_open(str(path), "pt") as file:
            names, metadata = list(file.keys()), file.metadata() or {}
            parts: dict[str, dict[str, Tensor]] = {}
            for name in names:
                stem, _, part = name.partition("#")
                parts.setdefault(stem, {})[part] = file.get_tensor(name)  # mapped, not copied
            yield {name: _change(name, found, metadata) for name, found in parts.items()}
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path.name} does not hold weights: {error}") from None


def _change(name: str, parts: dict[str, Tensor], metadata: dict[str, str]) -> Change:
    if parts.keys() == {""}:
        return parts[""]
    if parts.keys() == {"indices", "values"}:
        return Sparse(parts["indices"], parts["values"])
    if parts.keys() == {"down", "up"}:
        return LowRank(parts["down"], parts["up"], float(metadata[f"{name}#scale"]))
    raise InputError(f"{name} comes in parts that make no change: {', '.join(sorted(parts))}")


# ------------------------------------------------------------------------------------------ the same GPU's memory


def gpu_name() -> str | None:
    """Of the GPU in use, the same in every process."""
    return str(torch.cuda.get_device_properties(0).uuid) if torch.cuda.is_available() else None


def check_gpu(theirs: str | None) -> None:
    if theirs is None or gpu_name() != theirs:
        mine = gpu_name() or "none"
        message = f"that memory is on GPU {theirs}, this replica runs on {mine}: send a file, or use nccl"
        raise ApiError(400, message, code="not_supported")


def shared_changes(tensors: tuple[SharedTensor, ...]) -> dict[str, Change]:
    """Views of the sender's memory. It must not change them until it is told that they were read."""
    parts: dict[str, dict[str, SharedTensor]] = {}
    for tensor in tensors:
        parts.setdefault(tensor.name, {})[tensor.form] = tensor
    changes: dict[str, Change] = {}
    for name, found in parts.items():
        if found.keys() == {"whole"}:
            changes[name] = _view(found["whole"])
        else:
            changes[name] = LowRank(_view(found["down"]), _view(found["up"]), found["up"].scale)
    return changes


def _view(told: SharedTensor) -> Tensor:
    storage: Any = torch.UntypedStorage._new_shared_cuda(
        *(base64.b64decode(value) if isinstance(value, str) else value for value in told.storage)
    )
    tensor = torch.empty(0, dtype=getattr(torch, told.dtype), device=storage.device)
    return tensor.set_(storage, told.offset, told.shape, told.stride)


# -------------------------------------------------------------------------------------------------------- a broadcast


class Joined:
    """A process group for one update. It is none of torch's default ones, so a trainer may have its own beside it."""

    def __init__(self, group: Group) -> None:
        self._tensors = group.tensors
        self._nccl = group.backend == "nccl"
        self._group = process_group(group.host, group.port, group.rank, group.size, group.backend)

    def arriving(self, device: torch.device) -> dict[str, Change]:
        """In the order in which they are sent."""
        where = device if self._nccl else torch.device("cpu")

        def receiver(told: Announced) -> Callable[[], Tensor]:
            def receive() -> Tensor:
                tensor = torch.empty(told.shape, dtype=getattr(torch, told.dtype), device=where)
                broadcast(self._group, tensor)
                return tensor

            return receive

        return {told.name: Arriving(told.shape, receiver(told)) for told in self._tensors}

    def __enter__(self) -> Joined:
        return self

    def __exit__(self, *error: object) -> None:
        self._group = None


def check_backend(backend: str) -> None:
    """Before anybody waits for the others of a group."""
    import torch.distributed as dist

    if backend == "nccl" and not dist.is_nccl_available():
        raise ConfigError("this torch has no NCCL, which is for CUDA GPUs: send a file, or take gloo")


def process_group(host: str, port: int, rank: int, size: int, backend: str) -> Any:
    """Rank 0 listens. Waits for the others. NCCL over several GPUs has not been tried here."""
    import torch.distributed as dist

    check_backend(backend)
    patience = timedelta(seconds=GROUP_SECONDS)
    store = dist.TCPStore(host, port, size, rank == 0, patience, wait_for_workers=False)
    prefixed = dist.PrefixStore("holotron-weights", store)
    if backend == "nccl":
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = patience
        return dist.ProcessGroupNCCL(prefixed, rank, size, options)
    return dist.ProcessGroupGloo(prefixed, rank, size, _gloo_options(host, port, patience))


def _gloo_options(host: str, port: int, patience: timedelta) -> Any:
    """Gloo listens on the address of our own name, which on many machines is 127.0.1.1: others would not find us. So it
    is told the one by which we reach rank 0, unless the environment names an interface."""
    import torch.distributed as dist

    gloo: Any = dist.ProcessGroupGloo
    options = gloo._Options()
    options._timeout = patience
    if os.environ.get("GLOO_SOCKET_IFNAME"):
        options._devices = [gloo.create_default_device()]
    else:
        options._devices = [gloo.create_device(hostname=_own_address(host, port))]
    return options


def _own_address(host: str, port: int) -> str:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.connect(address)  # sends nothing
        return str(asking.getsockname()[0])


def broadcast(group: Any, tensor: Tensor) -> None:
    import torch.distributed as dist

    options = dist.BroadcastOptions()
    options.rootRank = 0
    group.broadcast([tensor.reshape(-1).view(torch.uint8)], options).wait()  # bytes: not every type is known to Gloo
