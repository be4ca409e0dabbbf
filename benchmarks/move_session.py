"""A session moved from one engine to another, each in a process of its own: how long it takes, and is it the same?

    python benchmarks/move_session.py                                          # the 12B on one H200, 16k tokens
    python benchmarks/move_session.py --model tiny --device cpu --tokens 2048

Both engines have the same random weights. The first reads a prompt and generates; the session is exported, written
to --folder (shared memory by default, as between two replicas on one machine), read by the second process, restored
there, and goes on. Printed as JSON: seconds of every part, bytes, and whether both engines go on with the same tokens
(in 16 bits up to near ties; the tests compare in 64).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import random
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from holotron.engine import Engine, EngineConfig, ExportedSession, SamplingParams
from holotron.model.loading import load_model

REPLY = SamplingParams(max_tokens=32, temperature=0, ignore_eos=True)


def serve(pipe: Connection, args: argparse.Namespace) -> None:
    """One replica: does what it is told, and says how long each thing took."""
    model, processor = load_model(f"preset:{args.model}", device=args.device)
    config = EngineConfig(kv_tokens=2 * args.tokens + 1024, state_rows=8, host_bytes=0)
    with Engine(model, processor, config) as engine:
        pipe.send("ready")
        while (told := pipe.recv()) is not None:
            command, path = told
            times: dict[str, float] = {}
            clock = time.perf_counter()

            def lap(name: str, times: dict[str, float] = times) -> None:
                nonlocal clock
                now = time.perf_counter()
                times[name], clock = now - clock, now

            answer: Any = None
            if command == "begin":
                draw = random.Random(0)
                session = engine.open("moving")
                session.append([draw.randrange(32, 127) for _ in range(args.tokens)])
                answer = session.generate(REPLY).result().tokens
                lap("begin")
            elif command == "leave":
                exported = engine.session("moving").export()
                lap("export")
                exported.write(path)
                lap("write")
                answer = exported.nbytes
            elif command == "arrive":
                exported = ExportedSession.read(path)
                lap("read")
                session = engine.restore(exported)
                lap("restore")
                assert engine.stats().recomputed_tokens == 0
            elif command == "close":
                engine.session("moving").close()
            elif command == "go on":
                session = engine.session("moving")
                session.append("and now?")
                answer = session.generate(REPLY).result().tokens
                lap("go_on")
            pipe.send((answer, times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="holotron-12b", help="a preset")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--repeat", type=int, default=3, help="moves there and back")
    args = parser.parse_args()
    context = mp.get_context("spawn")
    pipes = []
    for _ in range(2):
        mine, theirs = context.Pipe()
        context.Process(target=serve, args=(theirs, args), daemon=True).start()
        pipes.append(mine)
    for pipe in pipes:
        assert pipe.recv() == "ready"

    def tell(n: int, command: str, path: str = "") -> tuple[Any, dict[str, float]]:
        pipes[n].send((command, path))
        return pipes[n].recv()

    tell(0, "begin")
    rows = []
    with tempfile.TemporaryDirectory(dir=args.folder if args.folder.is_dir() else None) as folder:
        for move in range(args.repeat):
            path = str(Path(folder) / f"{move}.safetensors")
            started = time.perf_counter()
            nbytes, leaving = tell(0, "leave", path)
            _, arriving = tell(1, "arrive", path)
            seconds = time.perf_counter() - started
            Path(path).unlink()
            if move + 1 < args.repeat:
                pipes[1].send(("close", ""))
                pipes[1].recv()
            rows.append({"seconds": seconds, "bytes": nbytes, **leaving, **arriving})
    stayed, _ = tell(0, "go on")
    moved, _ = tell(1, "go on")
    for pipe in pipes:
        pipe.send(None)
    result = {"model": args.model, "tokens": args.tokens, "same_tokens": stayed == moved, "moves": rows}
    print(json.dumps(result, indent=2, default=lambda value: round(value, 4)))


if __name__ == "__main__":
    main()
