"""One small hierarchy of errors, each with the exit code the command line gives it.

Every message says what is wrong, where, and what to do about it. Library code raises these; `holotron.cli`
turns them into one line on stderr and the exit code. Anything else that escapes is a bug and keeps its traceback.
"""

from __future__ import annotations

import sys


class HolotronError(Exception):
    """Base of everything this package raises on purpose."""

    exit_code = 1


class ConfigError(HolotronError):
    """A setting, recipe or `config.json` is wrong."""

    exit_code = 2


class CheckpointError(HolotronError):
    """Weights are missing, unreadable, or do not fit the configuration."""

    exit_code = 3


class InputError(HolotronError):
    """A request's content is unusable: a broken image, a prompt over the limit, a malformed schema."""

    exit_code = 4


class CapacityError(HolotronError):
    """It does not fit: memory, sessions, context length."""

    exit_code = 5


class EnvironmentFault(HolotronError):
    """The environment (browser, page, task) failed, not the agent. Retried where that is safe."""

    exit_code = 6


class PolicyError(HolotronError):
    """The policy could not answer: the server is unreachable, refused, or answered nonsense."""

    exit_code = 7


class MissingDependency(HolotronError):
    """An optional package or system program is not installed."""

    exit_code = 8

    @classmethod
    def extra(cls, package: str, extra: str) -> MissingDependency:
        """Said where the import of a package failed; one that is there but does not load is not called missing."""
        why, error = "is not installed", sys.exception()
        if isinstance(error, ImportError) and not isinstance(error, ModuleNotFoundError):
            why = f"is installed but cannot be loaded ({error})"
        return cls(f"{package} {why}. Install it with: pip install 'holotron[{extra}]'")


class StorageError(HolotronError):
    """The file system refused: full, read-only, forbidden, failing. What was stored before is unharmed."""

    exit_code = 9
