"""Weights for all replicas at once: `update_weights` as an engine has it, through the entrance of a fleet.

    weights = FleetWeights("http://127.0.0.1:8000", fleet_key)
    version = weights.update_weights({name: tensor, ...}, "keep")     # every replica has them when this returns

How they travel:

| transport  | |
|---|---|
| `file`     | one safetensors file in memory that all replicas on the machine see; others fetch it from the entrance |
| `cuda_ipc` | replicas on the sender's own GPU read its memory; nothing is copied on the way |
| `gloo`     | broadcast over the network, from host memory |
| `nccl`     | broadcast between GPUs. Written, and not tried on several GPUs yet |

Less than everything is sent where that is enough: adapters as the two thin matrices they are (`LowRank`), and with
`sparse=True` only the numbers that have changed since the last time, where these are few. The engine puts both together
exactly as the sender would have.

Every version has a number, the same on all replicas, and every token says which one sampled it. A replica that was
started later is behind. From files the entrance has it catch up before it serves; after the other transports it waits
for the next update.
"""

from __future__ import annotations

import base64
import contextlib
import secrets
import socket
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx
import torch
from safetensors.torch import save_file
from torch import Tensor

from holotron.engine import Change, LowRank, OnUpdate, Sparse
from holotron.errors import CheckpointError, HolotronError
from holotron.server.private import private_folder
from holotron.server.weights import broadcast, check_backend, gpu_name, process_group

Transport = Literal["file", "cuda_ipc", "gloo", "nccl"]

SECONDS = 600.0
FEW = 1 / 6  # of a tensor's numbers: an index and a value in 16 bits take three times as much as a value
MOST_SPARSE = 32  # in a row, before everything is sent again


def write_changes(path: Path, changes: Mapping[str, Change]) -> None:
    """As `server.weights.opened` reads them."""
    tensors: dict[str, Tensor] = {}
    metadata: dict[str, str] = {}
    for name, change in changes.items():
        if isinstance(change, Sparse):
            tensors |= {f"{name}#indices": _plain(change.indices), f"{name}#values": _plain(change.values)}
        elif isinstance(change, LowRank):
            tensors |= {f"{name}#down": _plain(change.down), f"{name}#up": _plain(change.up)}
            metadata[f"{name}#scale"] = repr(change.scale)
        elif isinstance(change, Tensor):
            tensors[name] = _plain(change)
        else:
            raise TypeError(f"{name}: a {type(change).__name__} cannot be written")
    path.touch(0o600)
    save_file(tensors, str(path), metadata or None)


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().contiguous()


class Differences:
    """What was sent last, to tell what has changed since."""

    def __init__(self) -> None:
        self._sent: dict[str, Tensor] = {}
        self._in_a_row = 0

    def of(self, tensors: Mapping[str, Tensor]) -> tuple[dict[str, Change], bool]:
        """The changes, and whether they are differences at all."""
        known = self._sent.keys() == tensors.keys() and self._in_a_row < MOST_SPARSE
        changes: dict[str, Change] = {}
        for name, tensor in tensors.items():
            change = self._difference(self._sent[name], tensor) if known else None
            if change is None or len(change.indices):
                changes[name] = tensor.detach() if change is None else change
        self._sent = {name: tensor.detach().clone() for name, tensor in tensors.items()}
        different = known and any(not isinstance(changes.get(name), Tensor) for name in tensors)
        self._in_a_row = self._in_a_row + 1 if different else 0
        return changes, different

    @staticmethod
    def _difference(before: Tensor, now: Tensor) -> Sparse | None:
        flat = now.detach().reshape(-1)
        indices = (flat != before.reshape(-1)).nonzero().view(-1)
        if len(indices) > FEW * flat.numel() or flat.numel() >= 2**31:
            return None
        return Sparse(indices.to(torch.int32), flat[indices].clone())


class FleetWeights:
    def __init__(
        self, url: str, key: str, transport: Transport = "file", *, sparse: bool = False, host: str | None = None
    ) -> None:
        """`host`: by which replicas on other machines reach this one, for a broadcast."""
        check_backend(transport)
        self._client = httpx.Client(
            base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=httpx.Timeout(SECONDS)
        )
        self._transport = transport
        self._differences = Differences() if sparse else None
        self._last = -1  # the version that we sent
        self._host = host

    @property
    def version(self) -> int:
        return int(self._about()["version"])

    def _about(self) -> dict[str, Any]:
        return _told(self._client.get("/fleet/replicas"))

    def update_weights(self, changes: Mapping[str, Change], on_update: OnUpdate = "keep") -> int:
        """The new version, when every replica that lives has it."""
        order: dict[str, Any] = {"on_update": on_update}
        different = any(isinstance(change, Sparse) for change in changes.values())
        whole = {name: change for name, change in changes.items() if isinstance(change, Tensor)}
        compared = self._differences is not None and len(whole) == len(changes)
        before = self.version if compared or different else None
        if self._differences is not None and compared:
            if before != self._last:  # others have sent something, or the fleet began anew
                self._differences = Differences()
            changes, different = self._differences.of(whole)
        if different:
            order["changes_version"] = before
        send = {"file": self._as_file, "cuda_ipc": self._as_memory}.get(self._transport, self._as_broadcast)
        self._last = -1  # should it not arrive
        version = int(send(changes, order)["version"])
        if compared:
            self._last = version
        return version

    def _as_file(self, changes: Mapping[str, Change], order: dict[str, Any]) -> dict[str, Any]:
        about, name = self._about(), f"{secrets.token_hex(16)}.weights"
        folder = Path(about["folder"])
        if (sign := sign_of(folder)) is not None and sign == about["folder_sign"]:
            write_changes(folder / name, changes)
        else:  # the entrance is on another machine
            import tempfile

            with tempfile.TemporaryDirectory() as here:
                write_changes(Path(here) / name, changes)
                with open(Path(here) / name, "rb") as file:
                    _told(self._client.put(f"/fleet/files/{name}", content=file))
        return self._post({**order, "file": name})

    def _as_memory(self, changes: Mapping[str, Change], order: dict[str, Any]) -> dict[str, Any]:
        told = []
        for name, change in changes.items():
            if isinstance(change, LowRank):
                told += [shared_tensor(name, change.down, "down"), shared_tensor(name, change.up, "up", change.scale)]
            elif isinstance(change, Tensor):
                told.append(shared_tensor(name, change, "whole"))
            else:
                raise TypeError(f"{name}: over cuda_ipc tensors are read whole")
        torch.cuda.synchronize()  # the other process may read at once
        return self._post({**order, "shared": told, "gpu": gpu_name()})

    def _as_broadcast(self, changes: Mapping[str, Change], order: dict[str, Any]) -> dict[str, Any]:
        tensors = {name: change for name, change in changes.items() if isinstance(change, Tensor)}
        if len(tensors) != len(changes):
            raise TypeError("a broadcast takes whole tensors")
        names = [replica["name"] for replica in self._about()["replicas"] if replica["alive"]]
        if not names:
            raise HolotronError("no replica is there to receive the weights")
        host, port = self._host or "127.0.0.1", _free_port()
        told = [
            {"name": name, "dtype": _dtype(tensor), "shape": list(tensor.shape)} for name, tensor in tensors.items()
        ]
        group = {"host": host, "port": port, "backend": self._transport, "tensors": told, "replicas": names}
        answer: list[dict[str, Any] | BaseException] = []

        def ask() -> None:
            try:
                answer.append(self._post({**order, "group": group}))
            except BaseException as error:
                answer.append(error)

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        joined = process_group(host, port, 0, len(names) + 1, self._transport)
        for tensor in tensors.values():
            broadcast(joined, _plain(tensor) if self._transport == "gloo" else tensor.detach().contiguous())
        asking.join(SECONDS)
        (said,) = answer
        if isinstance(said, BaseException):
            raise said
        return said

    def _post(self, order: dict[str, Any]) -> dict[str, Any]:
        return _told(self._client.post("/fleet/weights", json=order))

    def close(self) -> None:
        self._client.close()


def shared_tensor(name: str, tensor: Tensor, form: str, scale: float = 1.0) -> dict[str, Any]:
    """How another process on this GPU finds it; see `server.weights.SharedTensor`."""
    storage: Any = tensor.detach().untyped_storage()
    parts = [base64.b64encode(part).decode() if isinstance(part, bytes) else part for part in storage._share_cuda_()]
    return {
        "name": name,
        "dtype": _dtype(tensor),
        "shape": list(tensor.shape),
        "stride": list(tensor.stride()),
        "offset": tensor.storage_offset(),
        "storage": parts,
        "form": form,
        "scale": scale,
    }


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("", 0))
        return int(free.getsockname()[1])


def _told(answer: httpx.Response) -> dict[str, Any]:
    try:
        told = answer.json()
    except ValueError:
        told = {}
    if answer.status_code >= 300:
        message = told.get("error", {}).get("message", answer.text) if isinstance(told, dict) else answer.text
        raise CheckpointError(f"the fleet did not take the weights ({answer.status_code}): {message}")
    return dict(told)


# ------------------------------------------------------------------------------------------------------ at the entrance


@dataclass
class Kept:
    version: int
    file: str
    names: frozenset[str]
    whole: frozenset[str]  # of these, those that are told in full: nothing before them matters
    adapters: frozenset[str]  # ... as an adapter, which takes the place of the one before
    on_update: OnUpdate

    def supersedes(self, old: Kept) -> bool:
        return old.names <= self.whole or (old.names <= self.adapters and old.names == old.adapters)


@dataclass
class Chain:
    """The files by which a replica that starts with the checkpoint gets the newest weights."""

    folder: Path
    kept: list[Kept] = field(default_factory=list)
    base: int = 0  # only replicas with this version or a newer one can: what was before it is in no file
    changed: set[str] = field(default_factory=set)  # parameters that are not the checkpoint's any more

    def add(self, new: Kept) -> None:
        for old in [old for old in self.kept if new.supersedes(old)]:
            self.kept.remove(old)
            (self.folder / old.file).unlink(missing_ok=True)
        self.kept.append(new)
        self.changed |= new.names
        if self.changed <= new.whole:
            self.base = 0

    def gap(self, version: int, names: Iterable[str]) -> None:
        """These were sent another way, which leaves nothing to catch up from."""
        self.close()
        self.base = version
        self.changed |= set(names)

    def after(self, version: int) -> list[Kept] | None:
        return [one for one in self.kept if one.version > version] if version >= self.base else None

    def close(self) -> None:
        for one in self.kept:
            (self.folder / one.file).unlink(missing_ok=True)
        self.kept.clear()


def kept(folder: Path, file: str, version: int, on_update: OnUpdate) -> Kept:
    """What a file changes."""
    from safetensors import safe_open

    with safe_open(str(folder / file), "pt") as opened:
        parts = [name.partition("#") for name in opened.keys()]  # noqa: SIM118 (not a mapping)
    whole = frozenset(stem for stem, _, part in parts if not part)
    adapters = frozenset(stem for stem, _, part in parts if part == "up")
    return Kept(version, file, frozenset(stem for stem, _, _ in parts), whole, adapters, on_update)


def signed_folder(folder: Path) -> Path:
    """Made for this user alone; with a sign by which a sender finds out that it is on the same machine."""
    private_folder(folder)
    clear_folder(folder)
    (folder / "entrance").touch(0o600)
    (folder / "entrance").write_text(secrets.token_hex(16))
    return folder


def sign_of(folder: Path) -> str | None:
    """Another machine may have a folder of the same name."""
    try:
        return (folder / "entrance").read_text()
    except OSError:
        return None


def clear_folder(folder: Path) -> None:
    """Of what is ours in it."""
    with contextlib.suppress(OSError):
        for left in folder.iterdir():
            if left.suffix in (".session", ".responses", ".weights") or left.name == "entrance":
                left.unlink(missing_ok=True)
