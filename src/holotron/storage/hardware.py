"""On what a run was made, in a few words for its manifest."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any


def describe_hardware() -> dict[str, Any]:
    """Processor, cores that this process may use, memory, and GPUs if torch is there to ask (it is not imported for
    this: a run that has not needed it has not used one)."""
    return {"cpu": _processor(), "cores": cores(), "memory_gb": _memory_gb(), "gpus": _gpus()}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def cores() -> int | None:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    except (ValueError, OSError, AttributeError):  # another system's names
        return None


def _gpus() -> list[str]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
