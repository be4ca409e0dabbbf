"""`holotron sites`: a person opens an app, does the task, and is told so."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request


def holotron(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "holotron", "sites", *arguments]


def test_serve_says_how_the_task_stands() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        holotron("serve", "shop-notifications", "--seed", "4", "--port", str(port), "--viewport", "laptop"),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        for _ in range(300):
            try:
                page = browser.open(f"http://127.0.0.1:{port}/account", timeout=5).read().decode()
                break
            except OSError:
                assert process.poll() is None
                time.sleep(0.1)
        assert 'data-page="account"' in page  # signed in, as the task says
        assert process.stdin is not None
        process.stdin.write("it cannot be done\n")
        process.stdin.flush()
        time.sleep(0.7)
        for body in (b"", b"newsletter=on", b"sms=on", b"newsletter=on&sms=on"):  # one of them is what is asked for
            browser.open(f"http://127.0.0.1:{port}/account/notifications", body, timeout=5).read()
            time.sleep(0.7)
    finally:
        process.terminate()  # what runs in the background may have been told to ignore interrupts
        said = process.communicate(timeout=20)[0]
    assert "Task sites/shop-notifications/4" in said and "not yet: " in said and "done: done" in said
    assert "wrong: " in said  # the answer


def test_list_and_errors() -> None:
    done = subprocess.run(holotron("list"), capture_output=True, text=True, timeout=60)
    assert "shop-big-order" in done.stdout and done.returncode == 0
    done = subprocess.run(holotron("serve", "no-such-app"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "there is no app and no task" in done.stderr
