"""How long a user waits before anything happens: `import holotron` and `holotron --help`, each in fresh processes.

    python benchmarks/startup.py                    # median and worst of 20; wanted: 50 and 300 ms

Wall time of the import is taken inside the process, that of the command around it, the interpreter's own start
included. `python -c pass` stands beside it. A busy machine shows in the worst figures first.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time

IMPORT = "import time; t = time.perf_counter(); import holotron; print(time.perf_counter() - t)"


def seconds_of(*command: str) -> tuple[float, str]:
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    return time.perf_counter() - start, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    times = parser.parse_args().times
    seconds_of("-m", "holotron", "--help")  # compiled files and caches
    rows = {
        "python -c pass": [seconds_of("-c", "pass")[0] for _ in range(times)],
        "import holotron": [float(seconds_of("-c", IMPORT)[1]) for _ in range(times)],
        "holotron --help": [seconds_of("-m", "holotron", "--help")[0] for _ in range(times)],
        "holotron run --help": [seconds_of("-m", "holotron", "run", "--help")[0] for _ in range(times)],
    }
    print(f"| what | median, ms | worst, ms |  ({times} processes each, load {os.getloadavg()[0]:.1f})\n|---|---|---|")
    for name, measured in rows.items():
        print(f"| `{name}` | {1e3 * statistics.median(measured):.0f} | {1e3 * max(measured):.0f} |")


if __name__ == "__main__":
    main()
