"""A real S3 server on loopback, and a run directory in it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moto.server import ThreadedMotoServer

from holotron.storage import objects


@contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Its environment, which child processes need too; in force here while it runs. The bucket is called `runs`."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    settings = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ |= settings
    forget_connections()
    try:
        objects._store("s3").mkdir("runs")
        yield settings
    finally:
        forget_connections()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
        server.stop()


def forget_connections() -> None:
    import s3fs

    objects._store.cache_clear()
    s3fs.S3FileSystem.clear_instance_cache()


RUNS = Path("s3://runs")
