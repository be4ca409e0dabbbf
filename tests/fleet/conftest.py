"""One Ray cluster for all tests of a process: it takes seconds to start."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def ray_folder() -> Iterator[Path]:
    """For temporary files of everybody in the cluster. Its name is short: paths of sockets have to be."""
    with tempfile.TemporaryDirectory(prefix="hr-", dir="/tmp") as folder:
        Path(folder).chmod(0o711)  # browsers are users of their own
        yield Path(folder)


@pytest.fixture(scope="session")
def ray_cluster(ray_folder: Path) -> Iterator[str]:
    """The address of a real cluster with four cores, as far as it knows."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'holotron[ray]'")
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(ray_folder)
    try:
        ray.init(
            num_cpus=4,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=200_000_000,
            _node_ip_address="127.0.0.1",
        )
    finally:
        os.environ.pop("TMPDIR")
        if before is not None:
            os.environ["TMPDIR"] = before
    try:
        yield ray.get_runtime_context().gcs_address
    finally:
        ray.shutdown()
