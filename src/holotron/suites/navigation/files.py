"""Published task files: found in a folder, a file or the hub, and read row by row.

    file = find_file("data/webvoyager", "WebVoyager_data.jsonl", "MinorJerry/WebVoyager")
    for row, where in rows_of(file):
        goal = text_of(row, where, "ques")      # InputError: data/.../WebVoyager_data.jsonl, row 7: ques is missing

Two runs with the same `subset_hash` were given the same tasks, whatever the file was called.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from holotron.errors import ConfigError, InputError, MissingDependency
from holotron.types import Task

Row = Mapping[str, Any]
HUB = "hub"  # instead of a folder: the benchmark's data set on the Hugging Face hub


def find_file(given: str, name: str, source: str, *, hub: str = "") -> Path:
    """The task file: `given` is the file itself, a folder that holds `name` (at any depth), or the word `hub`."""
    if given == HUB:
        return _from_hub(hub, name, source)
    path = Path(given).expanduser()
    if path.is_file():
        return path
    if not path.is_dir():
        raise ConfigError(f"there is no file or folder {path}; get {name or 'the tasks'} from {source}")
    if not name:
        raise ConfigError(f"name the file of tasks itself, not the folder {path}; it is published by {source}")
    if (path / name).is_file():
        return path / name
    found = sorted(path.rglob(name))
    if not found:
        raise ConfigError(f"{path} has no {name}; get it from {source}")
    return found[0]


def _from_hub(repository: str, name: str, source: str) -> Path:
    if not repository:
        raise ConfigError(f"this benchmark has no data set on the hub; get {name} from {source} and name its folder")
    return _asked(repository, name, lambda hub: hub.hf_hub_download(repository, name, repo_type="dataset"))


def folder_from_hub(repository: str) -> Path:
    """All of a data set, downloaded into the hub's cache where it is not there yet."""
    return _asked(repository, "the files", lambda hub: hub.snapshot_download(repository, repo_type="dataset"))


def _asked(repository: str, what: str, ask: Callable[[Any], str]) -> Path:
    try:
        import huggingface_hub
    except ImportError:
        raise MissingDependency.extra("huggingface_hub", "hub") from None
    try:
        return Path(ask(huggingface_hub))
    except Exception as error:  # the hub client raises its own, requests' and httpx's errors
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ConfigError(
            f"cannot get {what} of {repository} from the hub: {why}. If it has terms, accept them on its page "
            "and log in (hf auth login); or download it elsewhere and name its folder"
        ) from None


def rows_of(file: Path) -> Iterator[tuple[Row, str]]:
    """The rows of a JSON list or of JSON lines, each with file and row for messages."""
    content = text_content(file)
    if content.lstrip().startswith("["):
        yield from _list(file, content)
        return
    for number, line in enumerate(content.split("\n"), start=1):
        if line.strip():
            where = f"{file}, row {number}"
            try:
                row = json.loads(line)
            except ValueError as error:
                raise InputError(f"{where} is not valid JSON: {error}") from None
            yield _object(row, where), where


def object_of(file: Path) -> Mapping[str, Any]:
    """A file that is one JSON object."""
    try:
        found = json.loads(text_content(file))
    except ValueError as error:
        raise InputError(f"{file} is not valid JSON: {error}") from None
    return _object(found, str(file))


def text_content(file: Path) -> str:
    """Without the mark that Windows and spreadsheets put before it."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 text: {error.reason} at byte {error.start}") from None


def _list(file: Path, content: str) -> Iterator[tuple[Row, str]]:
    """Element by element, so that a broken one can be named."""
    decoder = json.JSONDecoder()
    position, number = content.index("[") + 1, 0
    while True:
        position = _past_spaces(content, position)
        if number and content.startswith(",", position):
            position = _past_spaces(content, position + 1)
        elif content.startswith("]", position) and not content[position + 1 :].strip():
            return
        elif number:
            raise InputError(f"{file}, after row {number}: expected a comma or the end of the list")
        number += 1
        where = f"{file}, row {number}"
        try:
            row, position = decoder.raw_decode(content, position)
        except ValueError as error:
            raise InputError(f"{where} is not valid JSON: {error}") from None
        yield _object(row, where), where


def _past_spaces(content: str, position: int) -> int:
    while position < len(content) and content[position] in " \t\r\n":
        position += 1
    return position


def _object(row: Any, where: str) -> Row:
    if not isinstance(row, Mapping):
        raise InputError(f"{where}: expected an object, found {row!r}"[:300])
    return row


def text_of(row: Row, where: str, *keys: str) -> str:
    """The first of these that is there; files of one benchmark name a thing differently over the years."""
    for key in keys:
        value = row.get(key)
        if isinstance(value, str) and value.strip():
            return whole_text(value.strip(), f"{where}: {key}")
    raise InputError(f"{where}: {' or '.join(keys)} is missing or empty")


def whole_text(value: str, where: str) -> str:
    """JSON can say half a character, which nothing can store or send."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{where} holds half a character at {error.start}") from None
    return value


def address_of(row: Row, where: str, *keys: str) -> str:
    """A web address; a host alone is one too."""
    said = text_of(row, where, *keys)
    address = said if "://" in said else f"https://{said}"
    try:
        parts = urlsplit(address)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.netloc.isprintable()
        sound = sound and " " not in parts.netloc and parts.port != -1  # a port that is none raises
    except ValueError:
        sound = False
    if not sound:
        raise InputError(f"{where}: {' or '.join(keys)} is no web address: {said!r}"[:300])
    return address


def by_name(tasks: Iterable[tuple[Task, str]]) -> dict[str, Task]:
    """Tasks with where they stand; a name that occurs twice is an error."""
    found: dict[str, Task] = {}
    for task, where in tasks:
        if task.name in found:
            raise InputError(f"{where}: the id {task.name!r} occurs twice")
        found[task.name] = task
    return found


def subset_hash(tasks: Iterable[Task]) -> str:
    """Of what is asked and where, in any order."""
    lines = sorted(json.dumps([task.name, task.goal, task.start_url], ensure_ascii=False) for task in tasks)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
