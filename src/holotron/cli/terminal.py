"""Reading a line from a person while an event loop runs."""

from __future__ import annotations

import asyncio
import sys


async def read_line(prompt: str) -> str:
    """What was typed, "" at the end of the input. It can be cancelled: `input` in a thread would hold up Ctrl-C until
    somebody presses Enter."""
    print(prompt, end="", flush=True)
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str] = loop.create_future()

    def read() -> None:  # a terminal is readable when a whole line is there
        loop.remove_reader(sys.stdin)
        typed.set_result(sys.stdin.readline())

    loop.add_reader(sys.stdin, read)
    try:
        return await typed
    finally:
        loop.remove_reader(sys.stdin)
