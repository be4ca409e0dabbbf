"""Two thousand generated requests: no 5xx but 503, every error in its usual shape, nothing left behind."""

from __future__ import annotations

import threading
from collections import Counter

import httpx
import pytest

from tests.server.generated import problem_with, requests
from tests.server.process import ServerProcess

COUNT, CLIENTS = 2000, 4


def test_no_request_breaks_it(server: ServerProcess) -> None:
    problems: list[str] = []
    statuses: Counter[int] = Counter()

    def client(seed: int) -> None:
        with httpx.Client(base_url=server.url, timeout=120) as http:
            for request in requests(seed, COUNT // CLIENTS):
                try:
                    answer = http.request(request.method, request.path, content=request.body, headers=request.headers)
                except httpx.HTTPError as error:
                    problems.append(f"{request}: {error!r}")
                    continue
                statuses[answer.status_code] += 1
                if (problem := problem_with(request, answer)) is not None:
                    problems.append(problem)

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        pytest.fail(f"{len(problems)} of {COUNT}:\n" + "\n".join(problems[:10]))
    assert statuses[200] > COUNT // 20  # it was not all refused at the door
    assert statuses[400] > COUNT // 20
    metrics = server.settled(60)
    assert metrics["holotron_integrity_failures_total"] == 0
    with httpx.Client(base_url=server.url, timeout=60) as http:
        for session in http.get("/v1/sessions").json()["data"]:
            http.delete(f"/v1/sessions/{session['id']}")
