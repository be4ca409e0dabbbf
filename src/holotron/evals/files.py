"""Files that people name: judgements of others, labels, calibrations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holotron.errors import InputError


def read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{file} is not valid JSON: {error}") from None
