"""About this very process: how long it lives, and the most memory it ever held."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch

from holotron.errors import ConfigError

_IMPORTED = time.monotonic()


def seconds_alive() -> float:
    """Since the process was started, imports included (where the system tells; else since this module was loaded)."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        return uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return time.monotonic() - _IMPORTED


def forget_files(folder: Path) -> int:
    """Have the system drop what it holds of a checkpoint's files in memory, so that they are read from disk; their
    bytes."""
    files = sorted(folder.glob("*.safetensors")) if folder.is_dir() else []
    if not files:
        raise ConfigError(f"--cold: {folder} is no folder with a checkpoint in it")
    for file in files:
        with file.open("rb") as opened:
            os.fdatasync(opened.fileno())  # only what is on disk can be dropped
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return sum(file.stat().st_size for file in files)


def peak_host_bytes() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class DevicePeak:
    """The most device memory in use at once: what torch took from the driver at its peak, and what lies beside it
    (the CUDA context, libraries, compiled kernels). Assumes that nobody else uses the GPU."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)

    def bytes(self) -> int | None:
        if self._device.type != "cuda":
            return None
        free, total = torch.cuda.mem_get_info(self._device)
        beside = total - free - torch.cuda.memory_reserved(self._device)
        return torch.cuda.max_memory_reserved(self._device) + beside
