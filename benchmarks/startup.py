"""How long a user waits before anything happens: `import holotron` and `holotron --help`, each in fresh processes.

    python benchmarks/startup.py                    # median and worst of 20; wanted: 50 and 300 ms

Times of a command are taken around it, with the start of the interpreter; `python -c pass` stands beside it. Those of
the import are taken inside the process. CPU time is what a busy machine leaves comparable.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time

IMPORT = """import time
wall, cpu = time.perf_counter(), time.process_time()
import holotron
print(time.perf_counter() - wall, time.process_time() - cpu)
"""


def around(*command: str) -> tuple[float, float]:
    """Wall and CPU seconds of a process."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *command], stdout=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def inside(code: str) -> tuple[float, float]:
    """What a process measured of itself."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    wall, cpu = map(float, done.stdout.split())
    return wall, cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    times = parser.parse_args().times
    around("-m", "holotron", "--help")  # compiled files and caches
    rows = {
        "python -c pass": [around("-c", "pass") for _ in range(times)],
        "import holotron": [inside(IMPORT) for _ in range(times)],
        "holotron --help": [around("-m", "holotron", "--help") for _ in range(times)],
        "holotron run --help": [around("-m", "holotron", "run", "--help") for _ in range(times)],
    }
    print(f"{times} processes each, load {os.getloadavg()[0]:.1f}\n")
    print("| what | wall, median, ms | wall, worst, ms | CPU, median, ms |\n|---|---|---|---|")
    for name, measured in rows.items():
        walls, cpus = zip(*measured, strict=True)
        middle, worst, cpu = (1e3 * value for value in (statistics.median(walls), max(walls), statistics.median(cpus)))
        print(f"| `{name}` | {middle:.0f} | {worst:.0f} | {cpu:.0f} |")


if __name__ == "__main__":
    main()
