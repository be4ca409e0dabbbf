"""One replica, as a process: `python -m holotron.fleet.replica`, started by the entrance (`launching`).

Reads one line from standard input: its settings, as JSON. Writes one line to standard output: the port it listens on.
Then it is a server like any other, behind the fleet's key. A line `stop` ends it in order; the end of its input, which
is the death of the entrance, at once: logs of sessions then stay for an entrance that is started again.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from holotron.errors import HolotronError

if TYPE_CHECKING:
    from holotron.server.service import Service


def main() -> None:
    order = json.loads(sys.stdin.readline() or "null")
    if order is None:
        sys.exit(1)
    try:
        run(order)
    except HolotronError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


def run(order: dict[str, Any]) -> None:
    import torch

    from holotron.agent.computer import ComputerUser
    from holotron.agent.profiles import Profile
    from holotron.server.run import serve
    from holotron.server.settings import Settings

    if order["threads"] is not None:
        torch.set_num_threads(order["threads"])
    settings = Settings.model_validate(order["settings"])

    def listening(port: int, service: Service) -> None:
        print(json.dumps({"port": port}), flush=True)
        threading.Thread(target=_obey, args=(service,), daemon=True).start()

    profile = Profile.from_json(order["agent"])
    serve(settings, agent=order["agent"], computer=ComputerUser(profile), on_listening=listening)


def _obey(service: Service) -> None:
    if sys.stdin.readline().strip() == "stop":
        service.has_router = False  # nobody will move what is here
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        os._exit(1)


if __name__ == "__main__":
    main()
