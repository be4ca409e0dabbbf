"""Which browser, and how it is started.

`chromium-headless-shell` is the browser for rollouts: a third of the memory of full Chromium and ten times
faster to open contexts. Full Chromium (or Chrome) is for people who want to watch (`headless=False`), and the
fallback.

The real program is started, never a wrapper script: Debian's `/usr/bin/chromium-headless-shell` is a shell
script that does not `exec`, so killing what we started would leave the browser behind.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from holotron.errors import ConfigError, MissingDependency

ENVIRONMENT_VARIABLE = "HOLOTRON_CHROMIUM"

_INSTALL = """No Chromium found. Install one of:
  Debian/Ubuntu:  apt-get install chromium-headless-shell   (or: chromium)
  anywhere:       python -m playwright install chromium-headless-shell
or set HOLOTRON_CHROMIUM to the path of a Chromium or Chrome program."""

_HEADLESS_SHELLS = (
    "/usr/lib/chromium/chromium-headless-shell",
    "/usr/lib64/chromium-browser/headless_shell",
)
_FULL_BROWSERS = (
    "/usr/lib/chromium/chromium",
    "/usr/lib/chromium-browser/chromium-browser",
    "/usr/lib64/chromium-browser/chromium-browser",
    "/opt/google/chrome/chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)

# Ways to devices, and to requests that the browser makes in a page's name where nobody can look at them. Taken out of
# pages and workers alike.
_WITHOUT = (
    "WebUSB", "WebUSBOnDedicatedWorkers", "WebHID", "Serial", "WebBluetooth", "WebNFC", "SmartCard", "DirectSockets",
    "FileSystemAccess", "FileSystemAccessLocal", "FontAccess", "Presentation", "SpeechRecognition", "BackgroundFetch",
    "PushMessaging", "FedCm", "DigitalCredentials", "AdInterestGroupAPI", "Fledge", "TopicsAPI", "SharedStorageAPI",
    "PrivateAggregationApi", "AttributionReporting", "WebSocketStream",
)  # fmt: skip

# The browser paints these where its layout does not tell of them, so nobody could see a secret in them.
_UNTOLD = ("CSSPseudoScrollButtons", "CSSPseudoScrollMarkers")
WITH_SECRETS = f"--disable-blink-features={','.join((*_WITHOUT, *_UNTOLD))}"  # of two such flags the last one counts

# What the browser sends by itself, past the interception of requests: reports that a page orders, and pages that it
# opens ahead of time because speculation rules say so. Of these it may fetch none at a time.
_NOT_SENT = (
    "Prerender2", "Prerender2InHeadlessMode", "Prerender2FallbackPrefetchSpecRules", "Reporting", "NetworkErrorLogging",
)  # fmt: skip
_NO_PREFETCH = "PrefetchMultipleActiveSetSizeLimitForBase:prefetch_multiple_active_set_size_limit_for_base_value/0"

# Quiet, reproducible, and without the features that phone home. Playwright adds its own list on top; `unprivileged`
# puts both lists of features into one.
FLAGS = (
    f"--disable-blink-features={','.join(_WITHOUT)}",
    f"--disable-features={','.join(_NOT_SENT)}",
    f"--enable-features={_NO_PREFETCH}",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-gpu",  # software drawing is what servers have; asking for a GPU only delays the start
    "--disable-quic",
    "--disable-smooth-scrolling",  # a screenshot right after a scroll must show where it ends
    "--disable-sync",
    "--deny-permission-prompts",
    "--dns-prefetch-disable",
    "--force-color-profile=srgb",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",  # no UDP, which no proxy sees
    "--no-first-run",
    "--no-pings",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",  # the same by its newer name
)


def find_chromium(*, headless: bool = True) -> Path:
    """The browser program to start. `HOLOTRON_CHROMIUM` wins, then a headless shell, then a full browser."""
    chosen = os.environ.get(ENVIRONMENT_VARIABLE)
    if chosen:
        path = Path(chosen).expanduser()
        if not is_program(path):
            raise ConfigError(f"{ENVIRONMENT_VARIABLE}={chosen} is not an executable file.")
        return path
    for path in _candidates(headless):
        if is_program(path):
            return path
    raise MissingDependency(_INSTALL)


def is_program(path: Path) -> bool:
    """An executable that is not a shell script (see the module's docstring)."""
    if not (path.is_file() and os.access(path, os.X_OK)):
        return False
    with path.open("rb") as file:
        return file.read(2) != b"#!"


def _candidates(headless: bool) -> Iterator[Path]:
    if headless:
        yield from map(Path, _HEADLESS_SHELLS)
        yield from _playwrights_own("chromium_headless_shell-*", ("chrome-headless-shell", "headless_shell"))
    yield from map(Path, _FULL_BROWSERS)
    yield from _playwrights_own("chromium-*", ("chrome", "Chromium", "Google Chrome for Testing"))
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"):
        if found := shutil.which(name):
            yield Path(found).resolve()


def _playwrights_own(folder: str, programs: tuple[str, ...]) -> Iterator[Path]:
    """Browsers that `playwright install` downloaded, newest first."""
    if chosen := os.environ.get("PLAYWRIGHT_BROWSERS_PATH"):
        root = Path(chosen)
    elif sys.platform == "darwin":
        root = Path.home() / "Library/Caches/ms-playwright"
    else:
        root = Path.home() / ".cache/ms-playwright"
    for installed in sorted(root.glob(folder), key=_revision, reverse=True):
        for program in programs:
            yield from installed.rglob(program)


def _revision(folder: Path) -> int:
    digits = folder.name.rpartition("-")[2]
    return int(digits) if digits.isdigit() else 0


def browser_version() -> str:
    """What the browser says of itself, for manifests."""
    return _version_of(find_chromium())


@cache
def _version_of(program: Path) -> str:
    """Asked once: every suite that is opened wants to know, and starting a browser for it takes a while."""
    try:
        command = [str(program), "--version"]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"
