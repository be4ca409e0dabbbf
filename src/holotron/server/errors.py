"""Errors as clients of OpenAI's API know them: a status, and a body {"error": {message, type, param, code}}."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from holotron.engine import EngineStopped, Overloaded, SessionBusy, UnknownSession
from holotron.errors import CapacityError, ConfigError, HolotronError, InputError, MissingDependency
from holotron.server.elsewhere import NOT_SUPPORTED


class ApiError(Exception):
    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = type
        self.code = code
        self.param = param
        self.retry_after = retry_after

    def body(self) -> dict[str, Any]:
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}

    def headers(self) -> dict[str, str]:
        return {} if self.retry_after is None else {"retry-after": str(max(1, math.ceil(self.retry_after)))}


def unavailable(message: str, code: str, retry_after: float = 5.0) -> ApiError:
    return ApiError(503, message, type="server_error", code=code, retry_after=retry_after)


def translated(error: BaseException) -> ApiError:
    """What to answer when this was raised."""
    match error:
        case ApiError():
            return error
        case Overloaded():
            return ApiError(429, str(error), type="rate_limit_error", code="overloaded", retry_after=error.retry_after)
        case UnknownSession():
            return ApiError(404, str(error), code="session_not_found", param="session_id")
        case SessionBusy():
            return ApiError(409, str(error), code="session_busy", param="session_id")
        case EngineStopped():
            return unavailable("the server is shutting down", "shutting_down")
        case InputError():
            return ApiError(400, str(error))
        case CapacityError():
            return ApiError(400, str(error), code="context_length_exceeded")
        case ConfigError() | MissingDependency():
            # What is asked for cannot be done with this checkpoint, or with what is installed here.
            return ApiError(400, str(error), code="not_supported")
        case HolotronError():
            return ApiError(500, str(error), type="server_error", code="internal_error")
    return ApiError(500, "something went wrong inside the server", type="server_error", code="internal_error")


def invalid(problems: Sequence[Mapping[str, Any]]) -> ApiError:
    """From pydantic's list of problems; the first one decides what `param` names."""
    if not problems:
        return ApiError(400, "the request is malformed")
    param = where(problems[0]["loc"])
    if (name := problems[0]["loc"][:1]) and name[0] in NOT_SUPPORTED:
        return not_supported(name[0], NOT_SUPPORTED[name[0]])
    if problems[0]["type"] == "none_required":  # a field that is there to be refused
        return not_supported(param)
    problems = [problem for problem in problems if not _beside_the_point(problem, problems)]
    for problem in problems:
        if problem["type"] == "union_tag_invalid":
            return _unknown_kind(where(problem["loc"]), problem["msg"])
        if problem["type"] == "literal_error" and problem["loc"][-1] == "type":
            param = where(problem["loc"])
            known = problem["msg"].removeprefix("Input should be ")
            return ApiError(400, f"{param}: only {known} is supported", code="not_supported", param=param)
    param = where(problems[0]["loc"])
    if problems[0]["type"] == "extra_forbidden":
        return ApiError(400, f"Unrecognized request argument supplied: {param}", code="unknown_parameter", param=param)
    lines = list(dict.fromkeys(map(_complaint, problems)))
    more = f" (and {len(lines) - 3} more)" if len(lines) > 3 else ""
    return ApiError(400, "; ".join(lines[:3]) + more, param=param or None)


_OBJECT = ("model_type", "model_attributes_type", "dict_type")


def _complaint(problem: Mapping[str, Any]) -> str:
    place, kind = where(problem["loc"]), problem["type"]
    if kind in _OBJECT:
        return f"{place}: Input should be an object" if place else "the body must be a JSON object"
    if kind == "union_tag_not_found":
        return f"{place}.type: Field required"
    return f"{place}: {problem['msg']}" if place else problem["msg"]


def _beside_the_point(problem: Mapping[str, Any], problems: Sequence[Mapping[str, Any]]) -> bool:
    """Where a value may be of several kinds, pydantic complains for each of them. Who sent a list with a mistake in it
    need not hear that it is no text: of such complaints only those count that found out more about the value."""
    place = problem["loc"]
    if not place or not _is_branch(place, len(place) - 1):
        return False
    return any(len(other["loc"]) > len(place) and other["loc"][: len(place) - 1] == place[:-1] for other in problems)


def not_supported(name: str, instead: str = "") -> ApiError:
    message = f"{name} is not supported" + (f": {instead}" if instead else "")
    return ApiError(400, message, code="not_supported", param=name)


def _unknown_kind(param: str, message: str) -> ApiError:
    """From pydantic's "Input tag 'input_audio' found using 'type' does not match any of the expected tags: ..."."""
    kind, _, known = message.removeprefix("Input tag ").partition(" found using ")
    known = known.rpartition("tags: ")[2]
    return ApiError(400, f"{param}: type {kind} is not supported; known are {known}", code="not_supported", param=param)


def where(location: Sequence[int | str]) -> str:
    """`messages[0].content` from ("messages", 0, "content"); names of union branches are left out."""
    text = ""
    for n, part in enumerate(location):
        if isinstance(part, int):
            text += f"[{part}]"
        elif not _is_branch(location, n):
            text += f".{part}" if text else part
    return text


def _is_branch(location: Sequence[int | str], n: int) -> bool:
    """Whether this part names none of the client's fields, but one of the kinds that a value may be of."""
    part = location[n]
    if isinstance(part, int):
        return False
    if not part.isidentifier() or part[0].isupper() or part in ("str", "int", "bool", "float"):
        return True
    # What is told apart by its `type` has that type in the location, as the part behind the field or the list's index.
    tagged = ("response_format",), ("text", "format")
    listed = n >= 2 and str(location[n - 2]).startswith("list[tagged-union[")
    return listed or tuple(location[:n]) in tagged
