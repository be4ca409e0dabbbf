"""What to say where there is nothing: which service this is not, or which address was meant."""

from __future__ import annotations

import re
from collections.abc import Callable

from holotron.server.errors import ApiError

# What follows /v1/ in the addresses of OpenAI's other services.
SERVICES = (
    *("assistants", "audio", "batches", "chatkit", "containers", "conversations", "embeddings", "evals", "files"),
    *("fine_tuning", "images", "moderations", "organization", "realtime", "skills", "threads", "uploads"),
    *("vector_stores", "videos"),
)


def not_found(method: str, path: str, there: Callable[[str], bool]) -> ApiError:
    """`there`: whether something is at an address."""
    if path.startswith("/v1/") and path.split("/")[2] in SERVICES:
        return ApiError(404, f"{path} is not supported; /docs lists what is", code="not_supported")
    near = next(filter(there, _near(path)), None)
    hint = f"Did you mean {near}?" if near else "/docs lists what there is."
    return ApiError(404, f"{method} {path}: Not Found. {hint}", code="not_found")


def _near(path: str) -> tuple[str, ...]:
    """For a base URL without `/v1`, with two of them, or with a slash too many."""
    path = re.sub("/+", "/", path).rstrip("/")
    return path, f"/v1{path}", path.removeprefix("/v1")
