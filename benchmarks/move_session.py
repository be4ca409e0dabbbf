"""Two engines of one model, each in a process of its own on one GPU: a session moves from one to the other, and new
weights reach the second. How long does each take, and is it the same afterwards?

    python benchmarks/move_session.py                                          # the 12B on one H200, 16k tokens
    python benchmarks/move_session.py --model tiny --device cpu --tokens 2048

Both engines have the same random weights. The first reads a prompt and generates; the session is exported, written
to --folder (shared memory by default, as between two replicas on one machine), read by the second process, restored
there, and goes on. Then the first one's weights are changed, and the second gets them whole and as an adapter of
--rank on every projection: over CUDA IPC (the second reads the first one's memory) and as a file in --folder.

Printed as JSON: seconds of every part, bytes, whether both engines go on with the same tokens (in 16 bits up to near
ties; the tests compare in 64), and whether both hold the same weights, to the bit. With --check the process ends with
status 1 if the 12B's limits are not met: 0.25 s for the session, 3 s for the weights, 0.3 s for the adapter.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import random
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from holotron.engine import Engine, EngineConfig, ExportedSession, SamplingParams
from holotron.engine.weights import Change, LowRank
from holotron.fleet.weights import shared_tensor, write_changes
from holotron.model.adapters import merge_adapter
from holotron.model.loading import load_model
from holotron.server.weights import SharedTensor, opened, shared_changes

REPLY = SamplingParams(max_tokens=32, temperature=0, ignore_eos=True)
LIMITS = {"session": 0.25, "whole": 3.0, "adapter": 0.3}


class Clock:
    def __init__(self) -> None:
        self.times: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        now = time.perf_counter()
        self.times[name], self._last = now - self._last, now


def digest(parameters: dict[str, Tensor]) -> list[int]:
    """Of all bits, cheaply: a sum over each tensor's bytes as integers."""
    return [
        int(tensor.detach().contiguous().view(torch.uint8).sum(dtype=torch.int64)) for tensor in parameters.values()
    ]


class Replica:
    """Does what it is told, and says how long each thing took."""

    def __init__(self, engine: Engine, args: argparse.Namespace) -> None:
        self.engine, self.args = engine, args
        self.parameters = dict(engine.model.named_parameters())
        self.matrices = {
            name: tensor
            for name, tensor in self.parameters.items()
            if tensor.dim() == 2 and name.startswith("language_model.backbone.layers") and "_proj" in name
        }
        self.kept: Any = None  # memory that the other process reads

    # ------------------------------------------------------------------------------------------------------ sessions

    def begin(self, clock: Clock) -> Any:
        draw = random.Random(0)
        session = self.engine.open("moving")
        session.append([draw.randrange(32, 127) for _ in range(self.args.tokens)])
        return session.generate(REPLY).result().tokens

    def leave(self, clock: Clock, path: str) -> int:
        exported = self.engine.session("moving").export()
        clock.lap("export")
        exported.write(path)
        clock.lap("write")
        return exported.nbytes

    def arrive(self, clock: Clock, path: str) -> None:
        exported = ExportedSession.read(path, self.engine.model.device)
        clock.lap("read")
        self.engine.restore(exported)
        clock.lap("restore")
        assert self.engine.stats().recomputed_tokens == 0

    def close(self, clock: Clock) -> None:
        self.engine.session("moving").close()

    def go_on(self, clock: Clock) -> Any:
        session = self.engine.session("moving")
        session.append("and now?")
        return session.generate(REPLY).result().tokens

    # ------------------------------------------------------------------------------------------------------- weights

    def change(self, clock: Clock) -> int:
        """As after a step of training: every parameter a little different."""
        self.kept = None
        with torch.no_grad():
            for tensor in self.parameters.values():
                tensor.add_(tensor.abs().mean() * 0.01)
        return sum(tensor.nbytes for tensor in self.parameters.values())

    def adapt(self, clock: Clock, seed: int) -> int:
        """The sender's own model, with an adapter merged into every projection. Said apart: the adapter."""
        draw = torch.Generator(device=self.engine.model.device).manual_seed(seed)
        low: dict[str, Change] = {}
        if self.kept is None:
            self.kept = {"bases": {name: tensor.detach().clone() for name, tensor in self.matrices.items()}}
        for name, tensor in self.matrices.items():
            rows, columns = tensor.shape
            options: dict[str, Any] = {"generator": draw, "device": tensor.device}
            down = torch.randn(self.args.rank, columns, **options) * 0.01
            up = torch.randn(rows, self.args.rank, **options) * 0.01
            low[name] = LowRank(down, up, 2.0)
            merge_adapter(self.kept["bases"][name], down, up, 2.0, out=tensor.data)
        self.kept["low"] = low
        return sum(one.down.nbytes + one.up.nbytes for one in low.values() if isinstance(one, LowRank))

    def changes(self, adapter: bool) -> dict[str, Change]:
        return dict(self.kept["low"]) if adapter else {name: t.detach() for name, t in self.parameters.items()}

    def share(self, clock: Clock, adapter: bool) -> list[dict[str, Any]]:
        told = []
        for name, change in self.changes(adapter).items():
            if isinstance(change, LowRank):
                told += [shared_tensor(name, change.down, "down"), shared_tensor(name, change.up, "up", change.scale)]
            elif isinstance(change, Tensor):
                told.append(shared_tensor(name, change, "whole"))
        clock.lap("share")
        return told

    def take_shared(self, clock: Clock, told: list[dict[str, Any]]) -> int:
        changes = shared_changes(tuple(SharedTensor.model_validate(one) for one in told))
        version = self.engine.update_weights(changes)
        del changes
        clock.lap("load")
        return version

    def write(self, clock: Clock, path: str, adapter: bool) -> None:
        write_changes(Path(path), self.changes(adapter))
        clock.lap("write")

    def take_file(self, clock: Clock, path: str) -> int:
        with opened(Path(path)) as changes:
            version = self.engine.update_weights(changes)
        clock.lap("load")
        return version

    def weights(self, clock: Clock) -> list[int]:
        return digest(self.parameters)


def serve(pipe: Connection, args: argparse.Namespace) -> None:
    model, processor = load_model(f"preset:{args.model}", device=args.device)
    config = EngineConfig(kv_tokens=2 * args.tokens + 1024, state_rows=8, host_bytes=0)
    with Engine(model, processor, config) as engine:
        replica = Replica(engine, args)
        pipe.send("ready")
        while (told := pipe.recv()) is not None:
            command, arguments = told
            clock = Clock()
            answer = getattr(replica, command)(clock, *arguments)
            if not clock.times:
                clock.lap(command)
            pipe.send((answer, clock.times))


Tell = Callable[..., tuple[Any, dict[str, float]]]


def move_sessions(tell: Tell, folder: Path, repeat: int) -> dict[str, Any]:
    tell(0, "begin")
    rows = []
    for move in range(repeat):
        path = str(folder / f"{move}.safetensors")
        started = time.perf_counter()
        nbytes, leaving = tell(0, "leave", path)
        _, arriving = tell(1, "arrive", path)
        seconds = time.perf_counter() - started
        Path(path).unlink()
        if move + 1 < repeat:
            tell(1, "close")
        rows.append({"seconds": seconds, "bytes": nbytes, **leaving, **arriving})
    stayed, _ = tell(0, "go_on")
    moved, _ = tell(1, "go_on")
    # The first move pins buffers; later ones have them.
    return {"seconds": min(row["seconds"] for row in rows), "same_tokens": stayed == moved, "moves": rows}


def send_weights(tell: Tell, folder: Path, way: str, adapter: bool, repeat: int) -> dict[str, Any]:
    rows = []
    for n in range(repeat):
        nbytes, _ = tell(0, "adapt", n) if adapter else tell(0, "change")
        started = time.perf_counter()
        if way == "cuda_ipc":
            told, leaving = tell(0, "share", adapter)
            _, arriving = tell(1, "take_shared", told)
        else:
            path = str(folder / "weights.safetensors")
            _, leaving = tell(0, "write", path, adapter)
            _, arriving = tell(1, "take_file", path)
        seconds = time.perf_counter() - started
        same = tell(0, "weights")[0] == tell(1, "weights")[0]
        rows.append({"seconds": seconds, "bytes": nbytes, "same_weights": same, **leaving, **arriving})
    return {
        "seconds": min(row["seconds"] for row in rows),
        "same_weights": all(row["same_weights"] for row in rows),
        "updates": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="holotron-12b", help="a preset")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--repeat", type=int, default=3, help="moves there and back, updates of each kind")
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--check", action="store_true", help="fail if a limit of the 12B is not met")
    args = parser.parse_args()
    context = mp.get_context("spawn")
    pipes = []
    for _ in range(2):
        mine, theirs = context.Pipe()
        context.Process(target=serve, args=(theirs, args), daemon=True).start()
        pipes.append(mine)
    for pipe in pipes:
        assert pipe.recv() == "ready"

    def tell(n: int, command: str, *arguments: Any) -> tuple[Any, dict[str, float]]:
        pipes[n].send((command, arguments))
        answer: tuple[Any, dict[str, float]] = pipes[n].recv()
        return answer

    result: dict[str, Any] = {"model": args.model, "tokens": args.tokens, "rank": args.rank}
    with tempfile.TemporaryDirectory(dir=args.folder if args.folder.is_dir() else None) as folder:
        result["session"] = move_sessions(tell, Path(folder), args.repeat)
        for way in ["cuda_ipc", "file"] if args.device.startswith("cuda") else ["file"]:
            result[f"whole_{way}"] = send_weights(tell, Path(folder), way, False, args.repeat)
            result[f"adapter_{way}"] = send_weights(tell, Path(folder), way, True, args.repeat)
    for pipe in pipes:
        pipe.send(None)
    fastest = {
        "session": result["session"]["seconds"],
        "whole": min(result[key]["seconds"] for key in result if key.startswith("whole_")),
        "adapter": min(result[key]["seconds"] for key in result if key.startswith("adapter_")),
    }
    same = result["session"]["same_tokens"], *(result[key]["same_weights"] for key in result if "_" in key)
    result["fastest"], result["limits"], result["all_the_same"] = fastest, LIMITS, all(same)
    print(json.dumps(result, indent=2, default=lambda value: round(value, 4)))
    met = all(same) and all(fastest[name] <= limit for name, limit in LIMITS.items())
    sys.exit(0 if met or not args.check else 1)


if __name__ == "__main__":
    main()
