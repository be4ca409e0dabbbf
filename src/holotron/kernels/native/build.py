"""Compiles the native kernels, once per machine: the result is kept in the user's cache under a name made from all that
it depends on (sources, compiler, flags, processor).

Nothing here needs PyTorch's headers: the library exports C functions of plain pointers, so it compiles in seconds and
serves every version of PyTorch. What it shares with PyTorch is the OpenMP runtime, hence the threads.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch

logger = logging.getLogger(__name__)

HERE = Path(__file__).parent
# No -ffast-math: infinities and NaN keep their meaning, and linking it would change the rounding of the whole process.
FLAGS = (
    *("-std=c++17", "-O3", "-march=native", "-mprefer-vector-width=512", "-ffp-contract=fast"),
    *("-fno-math-errno", "-fno-trapping-math", "-fopenmp", "-fPIC", "-shared", "-Wno-psabi"),
)


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "holotron" / "native"


@functools.cache
def library(extra_flags: tuple[str, ...] = ()) -> ctypes.CDLL | None:
    """The compiled kernels, or None where they cannot be had; then the log says why, once."""
    try:
        return ctypes.CDLL(str(_built((*FLAGS, *extra_flags))))
    except (_Unavailable, OSError) as reason:
        logger.info("native CPU kernels are not used: %s; the ones in torch are slower but give the same", reason)
        return None


class _Unavailable(Exception):
    pass


def _built(flags: tuple[str, ...]) -> Path:
    processor = _processor()
    if platform.system() != "Linux" or "avx2" not in processor or "fma" not in processor:
        raise _Unavailable("they are for Linux on x86-64 with AVX2")
    compiler = shutil.which(os.environ.get("CXX") or "g++")
    if compiler is None:
        raise _Unavailable("there is no C++ compiler (install g++)")
    sources = sorted([*HERE.glob("*.h"), *HERE.glob("*.cpp")])
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout
    parts = [version, *flags, *_runtime(), " ".join(sorted(processor)), *(path.read_text() for path in sources)]
    target = cache_folder() / f"{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:20]}.so"
    if not target.exists():
        _compile(compiler, flags, target)
    return target


def _compile(compiler: str, flags: tuple[str, ...], target: Path) -> None:
    logger.info("compiling the native CPU kernels (once, a few seconds)")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / target.name
        command = [compiler, *flags, str(HERE / "decoder.cpp"), *_runtime(), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise _Unavailable(f"{compiler} failed: {done.stderr.strip()[-400:]}")
        made.replace(target)  # complete or not there at all, whoever else compiles at the same time


def _processor() -> set[str]:
    """The instruction sets this machine has: a home folder may be shared by several."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return set(next((line.split(":", 1)[1] for line in lines if line.startswith("flags")), "").split())


def _runtime() -> list[str]:
    """PyTorch's own OpenMP runtime, so that both have the same threads instead of fighting for the cores."""
    return [str(path) for path in sorted((Path(torch.__file__).parent / "lib").glob("libgomp*.so*"))[:1]]
