"""Keeping a browser apart from the machine it runs on: which user it is, what it is told, where it may write.

    shelter = Shelter(find_chromium())
    options, user = shelter.options()
    await driver.chromium.launch(**options)
    shelter.close()

* Started by root, it runs as a user of its own who owns nothing, another one for each browser. Chromium's own sandbox,
  which is refused to root, works then as well.
* It gets an environment without our variables, which hold keys and passwords.

Playwright's list of features that are switched off, and ours, are put into one on the way (`unprivileged`), because of
two such lists a browser reads the last one.

Where something of this cannot be had, that is said once, and it goes on without. `holotron doctor` tells.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from holotron.envs import unprivileged

log = logging.getLogger(__name__)

USERS = range(61184, 65520)  # which systemd, too, takes for users that exist only for a while
# What a browser has to know. The rest of our environment is none of its business.
_TOLD = ("PATH", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "FONTCONFIG_PATH", "FONTCONFIG_FILE", "XDG_DATA_DIRS")
SCRATCH_MARK = "HOLOTRON_SCRATCH"  # by which a browser that was left behind is found: `rollouts.orphans`
_TOLD_AS_OURSELVES = ("HOME", "TMPDIR", "USER", "LOGNAME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR")
_TOLD_FOR_WINDOWS = ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS")
CHECK_TIMEOUT = 20.0  # seconds
ROOT_HAS_NONE = "Chromium refuses its sandbox to root"


class Shelter:
    """For the browsers that a pool starts from one program."""

    def __init__(self, program: Path, *, headless: bool = True) -> None:
        self._program = program
        self._headless = headless
        self._folder: Path | None = None
        self.root = os.name == "posix" and os.geteuid() == 0
        self.no_user = _no_user(program, headless) if self.root else ""  # why it runs as root all the same
        self.no_sandbox = ROOT_HAS_NONE if self.no_user else ""  # why pages run without it
        if self.no_user:
            log.warning("The browser runs as root, and pages without a sandbox: %s.", self.no_user)

    def refuse_sandbox(self, why: str) -> None:
        log.warning("Chromium's sandbox is not available here; pages run without it: %s.", why)
        self.no_sandbox = why

    def options(self) -> tuple[dict[str, Any], int | None]:
        """What Playwright is to be told for one more browser, and the number of the user that it will be."""
        user = _free_user() if self.root and not self.no_user else None
        names = told(windows=not self._headless, ourselves=user is None)
        program = self._launcher(user) if os.name == "posix" else self._program
        variables = {name: os.environ[name] for name in names if name in os.environ}
        return {"executable_path": program, "env": variables, "chromium_sandbox": not self.no_sandbox}, user

    def _launcher(self, uid: int | None) -> Path:
        """Playwright starts one program, by its path: this one hands over to the browser, and before that to another
        user if one is given."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="holotron-"))
        user = unprivileged.OURSELVES if uid is None else str(uid)
        launcher = self._folder / f"browser-{user}"
        command = [sys.executable, "-I", "-S", unprivileged.__file__, user, str(self._program)]
        launcher.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        launcher.chmod(0o700)
        if uid is None and not os.access(launcher, os.X_OK):  # nothing is started from where temporary files are
            return self._program
        return launcher

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def told(*, windows: bool = True, ourselves: bool = True) -> set[str]:
    """The variables that a browser is told."""
    names = {*_TOLD, SCRATCH_MARK, *(name for name in os.environ if name.startswith("LC_"))}
    return names | ({*_TOLD_FOR_WINDOWS} if windows else set()) | ({*_TOLD_AS_OURSELVES} if ourselves else set())


def _no_user(program: Path, headless: bool) -> str:
    """Why root cannot hand the browser over to another user here."""
    if not headless:
        return "a window belongs to who is logged in"
    given = [str(_free_user()), str(program), tempfile.gettempdir()]
    command = [sys.executable, "-I", "-S", unprivileged.__file__, "--check", *given]
    try:
        tried = subprocess.run(command, capture_output=True, text=True, timeout=CHECK_TIMEOUT)
    except (OSError, subprocess.SubprocessError) as error:
        return f"another user could not be tried: {error}"
    return tried.stderr.strip() if tried.returncode else ""


def _free_user() -> int:
    """One that nobody is."""
    taken = set()
    for entry in os.scandir("/proc") if os.path.isdir("/proc") else ():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # ended meanwhile
                taken.add(entry.stat().st_uid)
    return random.choice([uid for uid in USERS if uid not in taken])
