"""Which walls between a browser and this machine stand here: tried, not assumed. What `holotron doctor` shows.

Each is tried from a page, or looked up at the processes themselves: the sandbox, the user, what they were told, local
files, devices, the network beyond the guard, downloads.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holotron.envs.isolation import told
from holotron.envs.network import RESOLVE_NOTHING, NetworkPolicy
from holotron.envs.options import SessionOptions
from holotron.envs.pool import OPEN_TIMEOUT, BrowserLease, BrowserPool, bounded
from holotron.envs.static import StaticServer
from holotron.envs.web import WebEnvironment
from holotron.types import Task, Wait

UDP_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Wall:
    """`detail`: what was seen, or why it does not stand."""

    name: str
    stands: bool
    detail: str


async def check_isolation(executable: Path | None = None) -> list[Wall]:
    browsers = BrowserPool(browsers=1, flags=[RESOLVE_NOTHING], executable=executable)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "page.html").write_text("<!doctype html><title>page</title>")
        server = StaticServer(Path(folder))
        try:
            async with bounded("looking at its walls", 2 * OPEN_TIMEOUT):
                lease = await browsers.lease()
                await lease.context.new_page()
                found = await _processes(lease, browsers)
                found += await _from_a_page(browsers, server.port)
                found.append(await _datagrams(lease, server.port))
                return found
        finally:
            await browsers.close()
            server.close()


# ----------------------------------------------------------------------------------------------------------- processes


async def _processes(lease: BrowserLease, browsers: BrowserPool) -> list[Wall]:
    cdp = await lease.browser.new_browser_cdp_session()
    running = (await cdp.send("SystemInfo.getProcessInfo"))["processInfo"]
    pids = {kind: [int(one["id"]) for one in running if one["type"] == kind] for kind in ("browser", "renderer")}
    shelter = browsers.shelter
    return [
        _sandbox(pids["renderer"], shelter.no_sandbox),
        _user(pids["browser"], shelter.no_user),
        _told(pids["browser"]),
    ]


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _sandbox(renderers: list[int], why: str) -> Wall:
    name = "sandbox"
    if why:
        return Wall(name, False, f"pages run without Chromium's: {why}")
    try:
        filtered = [pid for pid in renderers if _status(pid).get("Seccomp") == "2"]
    except OSError:  # no /proc: not Linux
        return Wall(name, True, "Chromium was started with its own")
    if not renderers or len(filtered) < len(renderers):
        return Wall(name, False, "pages run without Chromium's: their processes may make any system call")
    own = all(os.readlink(f"/proc/{pid}/ns/user") != os.readlink("/proc/self/ns/user") for pid in renderers)
    where = ", in namespaces of their own" if own else ""
    return Wall(name, True, f"Chromium's own: processes of pages are held to few system calls{where}")


def _user(browsers: list[int], why: str) -> Wall:
    name = "user"
    if os.name == "posix" and os.geteuid() != 0:
        return Wall(name, True, f"not root: the browser is the user who started it, number {os.geteuid()}")
    if why:
        return Wall(name, False, f"the browser runs as root: {why}")
    uid = int(_status(browsers[0])["Uid"].split()[0])
    return Wall(name, uid != 0, f"started by root, the browser runs as a user of its own, number {uid}")


def _told(browsers: list[int]) -> Wall:
    name = "environment"
    try:
        given = Path(f"/proc/{browsers[0]}/environ").read_bytes().split(b"\0")
    except OSError:
        return Wall(name, True, "the browser was started without our variables")
    ours = {entry.partition(b"=")[0].decode() for entry in given if entry} - told()
    unknown = sorted(variable for variable in ours if variable in os.environ)
    detail = f"the browser knows {', '.join(unknown)}" if unknown else "the browser knows none of our variables"
    return Wall(name, not unknown, detail)


# --------------------------------------------------------------------------------------------------------- from a page


async def _from_a_page(browsers: BrowserPool, port: int) -> list[Wall]:
    """What a page of an allowed site gets when it tries."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0.2)
        options = SessionOptions(network=NetworkPolicy(allow=(f"127.0.0.1:{port}",)))
        environment = WebEnvironment(browsers, options)
        try:
            await environment.reset(Task("doctor", "walls", start_url=f"http://127.0.0.1:{port}/page.html"))
            address = f"http://127.0.0.1:{other.getsockname()[1]}/"
            got: dict[str, Any] = json.loads(await environment.evaluate(f"({_ATTEMPTS})({json.dumps(address)})"))
            await environment.evaluate(_DOWNLOAD)
            refused = "was refused" in (await environment.step(Wait(0.3))).observation.note
        finally:
            await environment.close()
        try:
            other.accept()[0].close()
            reached = True
        except TimeoutError:
            reached = False
    files, devices = got["files"], got["devices"]
    return [
        Wall("local files", not files, f"a page can read: {', '.join(files)}" if files else "pages reach none"),
        Wall("devices", not devices, f"a page gets: {', '.join(devices)}" if devices else _NO_DEVICES),
        Wall("network", not reached, "a page reached an address that is not allowed" if reached else _NO_NETWORK),
        Wall("downloads", refused, _NO_DOWNLOADS if refused else "a file was not refused, and nobody asked for it"),
    ]


async def _datagrams(lease: BrowserLease, port: int) -> Wall:
    """WebRTC, in a page without our script, which takes it away: does Chromium itself hold it back?"""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        page = lease.context.pages[0]
        await page.goto(f"http://127.0.0.1:{port}/page.html")
        await page.evaluate(_CALL, udp.getsockname()[1])
        await asyncio.sleep(UDP_SECONDS)
        try:
            udp.recv(100)
        except BlockingIOError:
            return Wall("WebRTC", True, "taken out of pages; and Chromium itself sends no datagrams past the proxy")
    return Wall("WebRTC", False, "taken out of pages, but Chromium itself would send datagrams past the proxy")


_NO_DEVICES = "no camera, microphone, screen, USB, HID, serial port, Bluetooth, MIDI, sensor or file picker"
_NO_NETWORK = "every connection passes the guard"
_NO_DOWNLOADS = "refused, unless a folder is given for them; then within limits"
_DOWNLOAD = "Object.assign(document.createElement('a'), {href: 'data:,x', download: 'x.txt'}).click()"

_ATTEMPTS = """async (address) => {
  const tried = async (attempts) => {
    const got = [];
    for (const [name, attempt] of Object.entries(attempts)) {
      const late = new Promise((_, fail) => setTimeout(() => fail(new Error('late')), 1000));
      try { if (await Promise.race([attempt(), late])) got.push(name); } catch { /* refused */ }
    }
    return got;
  };
  const framed = (url) => new Promise((done) => {
    const frame = document.body.appendChild(Object.assign(document.createElement('iframe'), {src: url}));
    frame.onload = () => { try { done(Boolean(frame.contentDocument?.body?.innerText)); } catch { done(false); } };
  });
  const files = await tried({
    'by fetch': () => fetch('file:///etc/passwd').then((answer) => answer.text()),
    'by frame': () => framed('file:///etc/passwd'),
    'by request': () => new Promise((done, fail) => {
      const request = new XMLHttpRequest();
      Object.assign(request, {onload: () => done(request.responseText), onerror: fail}).open('GET', 'file:///etc/passwd');
      request.send();
    }),
    'by worker': () => new Promise((done, fail) => { new Worker('file:///etc/passwd').onerror = fail; }),
    'by picker': () => showOpenFilePicker(),
  });
  const media = navigator.mediaDevices;
  const devices = await tried({
    camera: () => media.getUserMedia({video: true}),
    microphone: () => media.getUserMedia({audio: true}),
    screen: () => media.getDisplayMedia(),
    USB: () => navigator.usb.requestDevice({filters: []}),
    HID: async () => (await navigator.hid.requestDevice({filters: []})).length,
    'serial port': () => navigator.serial.requestPort(),
    Bluetooth: () => navigator.bluetooth.requestDevice({acceptAllDevices: true}),
    MIDI: () => navigator.requestMIDIAccess(),
    place: () => new Promise((done, fail) => navigator.geolocation.getCurrentPosition(done, fail)),
    clipboard: () => navigator.clipboard.readText().then(() => true),
  });
  await fetch(address, {mode: 'no-cors'}).catch(() => {});
  return JSON.stringify({files, devices});
}"""

_CALL = """async (port) => {
  if (!window.RTCPeerConnection) return;
  const call = new RTCPeerConnection({iceServers: [{urls: `stun:127.0.0.1:${port}`}]});
  call.createDataChannel('x');
  await call.setLocalDescription(await call.createOffer());
}"""
