"""Every channel of a page times every way to write an address: nothing arrives at a machine that is not allowed."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator

import pytest

from holotron.envs.network import NetworkPolicy
from holotron.types import Goto

pytestmark = pytest.mark.browser

# Each is tried with every address; `u` is one with a path of its own.
CHANNELS = """{
  image: (u) => { new Image().src = u; },
  picture: (u) => add(`<picture><source srcset="${u}"><img></picture>`),
  script: (u) => { document.head.append(Object.assign(document.createElement('script'), {src: u})); },
  module: (u) => { import(u).catch(() => 0); },
  style: (u) => add(`<link rel=stylesheet href="${u}">`),
  imported: (u) => add(`<style>@import url("${u}");</style>`),
  background: (u) => add(`<p style="background:url('${u}')">x</p>`),
  font: (u) => { const f = new FontFace('f', `url("${u}")`); f.load().catch(() => 0); },
  preload: (u) => add(`<link rel=preload as=fetch href="${u}">`),
  prefetch: (u) => add(`<link rel=prefetch href="${u}">`),
  preconnect: (u) => add(`<link rel=preconnect href="${u}">`),
  names: (u) => add(`<link rel=dns-prefetch href="${u}">`),
  modulepreload: (u) => add(`<link rel=modulepreload href="${u}">`),
  icon: (u) => add(`<link rel=icon href="${u}">`),
  frame: (u) => add(`<iframe src="${u}"></iframe>`),
  refresh: (u) => add(`<iframe srcdoc='<meta http-equiv=refresh content="0;url=${u}">'></iframe>`),
  object: (u) => add(`<object data="${u}"></object>`),
  embed: (u) => add(`<embed src="${u}">`),
  video: (u) => add(`<video src="${u}" autoplay muted></video>`),
  poster: (u) => add(`<video poster="${u}"></video>`),
  drawing: (u) => add(`<svg><image href="${u}"/></svg>`),
  fetch: (u) => { fetch(u, {mode: 'no-cors'}).catch(() => 0); },
  post: (u) => { fetch(u, {mode: 'no-cors', method: 'POST', body: 'x', keepalive: true}).catch(() => 0); },
  request: (u) => { const x = new XMLHttpRequest(); x.open('GET', u); x.send(); },
  events: (u) => { new EventSource(u); },
  beacon: (u) => { navigator.sendBeacon(u, 'x'); },
  later: (u) => { window.fetchLater?.(u, {method: 'POST', activateAfter: 0}); },
  socket: (u) => { new WebSocket(u.replace('http', 'ws')); },
  worker: (u) => { new Worker(code(`fetch('${u}', {mode: 'no-cors'}).catch(() => 0)`)); },
  imports: (u) => { new Worker(code(`try { importScripts('${u}') } catch {}`)); },
  shared: (u) => { new SharedWorker(code(`fetch('${u}', {mode: 'no-cors'}).catch(() => 0)`)); },
  form: (u) => {
    add(`<iframe name=f></iframe><form target=f method=post action="${u}"></form>`);
    [...document.forms].at(-1).submit();
  },
  redirect: (u) => { fetch(`/redirect?to=${encodeURIComponent(u)}`, {mode: 'no-cors'}).catch(() => 0); },
  speculation: (u) => { document.head.append(Object.assign(document.createElement('script'), {type: 'speculationrules',
    textContent: JSON.stringify({prefetch: [{urls: [u], eagerness: 'immediate'}]})})); },
}"""
PAGE = """<title>start</title><body><script>
  const add = (html) => document.body.insertAdjacentHTML('beforeend', html);
  const code = (text) => URL.createObjectURL(new Blob([text]));
  const channels = CHANNELS;
  (async () => {
    for (const [name, go] of Object.entries(channels)) {
      for (const address of ADDRESSES) try { go(`${address}/${name}`); } catch (error) { console.log(name, error); }
      await new Promise((done) => setTimeout(done, 20));
    }
    await new Promise((done) => setTimeout(done, 1500));
    window.result = Object.keys(channels).length;
  })();
</script>"""


class Listener:
    """Everything that connects to this machine on one port, and the first line it says."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self._socket = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=500)
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._hear, args=(connection,), daemon=True).start()

    def _hear(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(2)
            try:
                self.said.append(connection.recv(2000).decode("latin-1").split("\r\n")[0])
                connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            except OSError:
                self.said.append("")

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()


HOSTS = (
    "127.0.0.1", "127.0.0.2", "localhost", "a.localhost", "127.1", "0x7f000001", "2130706433", "0177.0.0.1", "0.0.0.0",
    "[::1]", "[::ffff:127.0.0.1]", "[::]", "127.0.0.1.", "user@127.0.0.1",
)  # fmt: skip


def test_no_channel_reaches_what_is_not_allowed(run, browse, site, listener):
    def page(hosts):
        addresses = [f"http://{host}:{listener.port}" for host in hosts]
        return PAGE.replace("CHANNELS", CHANNELS).replace("ADDRESSES", json.dumps(addresses))

    async def main(hosts, policy):
        site.pages["/attempts"] = page(hosts)
        async with browse("<title>start</title>", network=policy) as opened:
            await opened.do(Goto(site.url("/attempts")))
            first = opened.environment._open_session._open[0].tab
            for _ in range(300):
                if result := await first.evaluate("window.result", timeout=60):
                    return result
                await asyncio.sleep(0.1)
            raise AssertionError("the page did not finish")

    # Allowed, most channels do arrive: the test can tell the difference.
    count = run(main(HOSTS[:1], NetworkPolicy(allow=("127.0.0.1",))))
    reached = {line.split()[1].strip("/") for line in listener.said if len(line.split()) > 1}
    assert count >= 30 and len(reached) >= count - 8, reached
    listener.said.clear()
    run(main(HOSTS, NetworkPolicy(allow=(site.host,))))
    run(main(HOSTS[:6], NetworkPolicy(allow=(site.host, "*.example.com"))))
    assert listener.said == []
