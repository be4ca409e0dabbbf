"""The same call without an event loop: `run = blocking(run_async)`, with the same arguments and the same types."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from holotron.errors import ConfigError

P = ParamSpec("P")
T = TypeVar("T")


def blocking(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if _inside_a_loop():  # a notebook, a server
            raise ConfigError(f"an event loop is running here: write `await holotron.{function.__name__}(...)`")
        inspect.signature(function).bind(*args, **kwargs)  # a wrong argument is said of the function that was called
        return asyncio.run(function(*args, **kwargs))

    call.__name__ = call.__qualname__ = function.__name__.removesuffix("_async")
    return call


def _inside_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
