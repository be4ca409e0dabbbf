"""Transfer sets: real web applications by others, never trained on, with tasks that are checked by their database.

    holotron sites serve trac                  # installs it once, then opens it with a task to do
    holotron eval oscar --policy ...

    install.py          an environment of its own for an application, under the user's cache
    application.py      what an application is; its process; an episode is a fresh copy of its database
    tasks.py            what tasks are made of
    hosts/              scripts that run inside those environments, not in ours: they make the data and serve episodes
    trac.py, oscar.py   the applications; trac_tasks.py, oscar_tasks.py: what is asked

Nothing here may be used for training: these pages are for measuring what carries over to software nobody here wrote.
`holotron.suites.base.HELD_OUT` names them, and whatever makes training data refuses them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from holotron.errors import ConfigError

if TYPE_CHECKING:
    from holotron.sites.transfer.application import Application

NAMES = ("trac", "oscar")


def find_application(name: str) -> Application:
    if name not in NAMES:
        raise ConfigError(f"there is no transfer application {name!r}; there are: {', '.join(NAMES)}")
    found: Application = getattr(importlib.import_module(f"holotron.sites.transfer.{name}"), name.upper())
    return found
