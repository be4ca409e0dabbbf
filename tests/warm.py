"""`holotron` for tests: a process of its own for each command, without the two seconds in which torch is imported.

    subprocess.run([warm.holotron(), "plan", "holotron-12b"], ...)         # and in scripts, by its path

The first call starts a process that imports what most commands need and waits. `holotron` is then a small program that
hands its arguments, folder, environment and files to that process, which forks: the child runs the command line as
`python -m holotron` does. Signals are passed on, and the status comes back. What is about the start of Python itself
(encodings, missing packages, a terminal's process group) is tested without this.
"""

from __future__ import annotations

import atexit
import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"

CLIENT = """#!{python} -IS
import marshal, os, resource, signal, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
files = resource.getrlimit(resource.RLIMIT_NOFILE)
asked = marshal.dumps((sys.argv[1:], os.getcwd(), dict(os.environ), files, os.umask(os.umask(0))))
socket.send_fds(server, [len(asked).to_bytes(4, "big")], [0, 1, 2])
server.sendall(asked)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, frame: server.sendall(bytes([number])))
status = int(server.recv(16) or b"-9")
if status < 0:
    signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
    os.kill(os.getpid(), -status)
os._exit(status)
"""

SERVER = """
import atexit, gc, marshal, os, resource, selectors, signal, socket, sys, threading
import fastapi, openai, playwright.async_api, torch, uvicorn
import holotron.cli.main, holotron.server.run

def asked(client):
    head, files, _, _ = socket.recv_fds(client, 4, 3)
    size, data = int.from_bytes(head, "big"), b""
    while len(data) < size:
        data += client.recv(size - len(data))
    return files, marshal.loads(data)

def become(files, words, folder, environment, limit, umask):
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.umask(umask)
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["holotron", *words]
    sys.stdin = sys.__stdin__ = open(0, closefd=False)
    lines = bool(environment.get("PYTHONUNBUFFERED"))
    sys.stdout = sys.__stdout__ = open(1, "w", 1 if lines or os.isatty(1) else -1, closefd=False)
    sys.stderr = sys.__stderr__ = open(2, "w", 1, errors="backslashreplace", closefd=False)

def serve(address):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    os.write(1, b"ready")
    wait = selectors.DefaultSelector()
    wait.register(listener, selectors.EVENT_READ, "new")
    wait.register(0, selectors.EVENT_READ, "end")  # whoever started this is gone
    while True:
        for key, _ in wait.select():
            if key.data == "end":
                sys.exit()
            if key.data == "new":
                client, _ = listener.accept()
                files, (words, *rest) = asked(client)
                pid = os.fork()
                if pid == 0:
                    for held in [*wait.get_map().values()]:
                        if held.fd:
                            os.close(held.fd)
                    client.detach()
                    wait.close()
                    become(files, words, *rest)
                    return words
                for file in files:
                    os.close(file)
                wait.register(client, selectors.EVENT_READ, pid)
                wait.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, client))
            elif isinstance(key.data, tuple):
                pid, client = key.data
                status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                wait.unregister(key.fd)
                os.close(key.fd)
                if client in wait.get_map():
                    wait.unregister(client)
                try:
                    client.sendall(str(status).encode())
                except OSError:
                    pass
                client.close()
            else:
                told = key.fileobj.recv(16)
                if not told:
                    wait.unregister(key.fileobj)
                try:
                    for number in told or [signal.SIGKILL]:  # killed: so is the command
                        os.kill(key.data, number)
                except ProcessLookupError:
                    pass

gc.freeze()  # so that children need not copy what they never change
words = serve(sys.argv[1])
status = 0
try:
    holotron.cli.main.main(words)
except SystemExit as end:
    status = end.code or 0
threading._shutdown()
atexit._run_exitfuncs()
sys.stdout.flush()
os._exit(status)  # taking all modules apart takes a second
"""


@functools.cache
def holotron() -> str:
    """The path of the program."""
    folder = tempfile.TemporaryDirectory(prefix="holotron-warm-")
    address, program = f"{folder.name}/socket", Path(folder.name) / "holotron"
    program.write_text(CLIENT.format(python=sys.executable, address=address))
    program.chmod(0o755)
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SERVER, address]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    assert server.stdin is not None and server.stdout is not None
    assert server.stdout.read(5) == b"ready"

    def end() -> None:
        server.stdin.close()
        server.wait(30)
        folder.cleanup()

    atexit.register(end)
    return str(program)
