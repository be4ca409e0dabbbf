"""The computer tool: computer_call and computer_call_output around a policy that knows how its model uses a computer.

The server knows the contract, not the model: what a screen looks like to it, what it may say and what that means is up
to a `ComputerUser`, which whoever starts the server hands in (`holotron.agent.computer` has the one for our dialects).

Two calls cost no token. Before there is a screenshot the answer is to take one. And `computer_use_preview` allows one
action in a call where a policy may mean several ("write into this field" is a click, a key and a text): the rest
travels in the call's id, which comes back with the screenshot, and is called next.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from PIL import Image

from holotron.errors import InputError
from holotron.model.processor.images import FORMATS
from holotron.server.errors import ApiError
from holotron.server.pictures import decoded, measured
from holotron.server.replies import new_id
from holotron.server.responses.items import Json, image_address, new_item_id, text_of
from holotron.server.responses.wire import ToolSpec, not_supported
from holotron.server.service import Caller, Service

LOOK: Json = {"type": "screenshot"}
_REST = "."  # between a call's own id and what remains to be done
_MOST = 64 * 1024  # characters of an id


class Output(Protocol):
    """What the model may write: a JSON schema, a pattern, or tools."""

    @property
    def json_schema(self) -> Json | None: ...
    @property
    def regex(self) -> str | None: ...
    @property
    def tools(self) -> tuple[Json, ...]: ...


class Question(Protocol):
    @property
    def messages(self) -> list[Json]: ...
    @property
    def output(self) -> Output: ...
    def since(self, before: Any) -> list[Json] | None: ...


class Move(Protocol):
    @property
    def actions(self) -> tuple[Json, ...]: ...
    @property
    def answer(self) -> str: ...
    @property
    def thought(self) -> str: ...
    @property
    def note(self) -> str: ...


class Episode(Protocol):
    """A value: every method gives a new one."""

    @property
    def waiting(self) -> bool: ...
    @property
    def turns(self) -> Sequence[Any]: ...
    @property
    def picture_bytes(self) -> int: ...
    def under(self, other: Any) -> Episode: ...
    def told(self, text: str) -> Episode: ...
    def saw(self, image: bytes, mime: str, size: tuple[int, int], url: str = "") -> Episode: ...
    def acted(self, actions: Sequence[Json], thought: str = "", note: str = "") -> Episode: ...
    def answered(self, text: str) -> Episode: ...
    def question(self, fold: int = 0) -> Question: ...
    def replied(
        self, text: str, calls: Sequence[tuple[str, Any]] = (), *, cut: bool = False
    ) -> tuple[Episode, Move]: ...


class ComputerUser(Protocol):
    """See `holotron.agent.computer`. Sampling is for requests that do not say."""

    temperature: float | None
    top_p: float | None
    max_tokens: int
    thinking: bool | None

    def begin(
        self, display: tuple[int, int] | None = None, *, instructions: str = "", must_act: bool = False
    ) -> Episode: ...


@dataclass(frozen=True)
class Seat:
    """What a response remembers of the computer's user."""

    tool: ToolSpec
    episode: Episode
    question: Question  # that the response replied to


# ------------------------------------------------------------------------------------------------ without the model


def due_actions(new: Sequence[Json]) -> list[Json] | None:
    """What to do now whatever the model thinks: the rest of an action, or to look, where nothing has been shown since
    the task was set. None: the model has to say."""
    for item in reversed(new):
        if item["type"] == "computer_call_output":
            return unpacked(item["call_id"]) or None
        if item["type"] == "message" and item["role"] == "assistant":
            break
        if item["type"] == "message" and _pictures(item):
            return None
    return [LOOK]


def _pictures(item: Json) -> list[Json]:
    return [part for part in item["content"] if part["type"] == "input_image"]


def packed(rest: Sequence[Json]) -> str:
    """A new call's id, with what remains to be done."""
    if not rest:
        return new_id("call")
    text = base64.urlsafe_b64encode(json.dumps(list(rest), ensure_ascii=False).encode()).decode().rstrip("=")
    return f"{new_id('call')}{_REST}{text}"


def unpacked(call_id: str) -> list[Json]:
    """Clients can write what they like here, but only they will read it: it comes back to them as a call."""
    _, _, text = call_id[:_MOST].partition(_REST)
    try:
        rest = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, RecursionError):
        return []
    return rest if isinstance(rest, list) and all(isinstance(one, dict) and "type" in one for one in rest) else []


def call_item(tool: ToolSpec, actions: Sequence[Json]) -> Json:
    """The newer tool takes all actions at once, the older one the first of them."""
    item: Json = {"id": new_item_id("computer_call"), "type": "computer_call", "status": "completed"}
    item |= {"pending_safety_checks": []}
    if tool.type == "computer_use_preview":
        return item | {"call_id": packed(actions[1:]), "action": actions[0]}
    return item | {"call_id": packed(()), "actions": list(actions)}


def items_of(tool: ToolSpec, move: Move) -> list[Json]:
    """What a move is in the response's output."""
    said = [text for text in (move.thought, move.note) if text]
    thought: Json = {"id": new_item_id("reasoning"), "type": "reasoning", "status": "completed"}
    thought |= {"summary": [{"type": "summary_text", "text": text} for text in said]}
    if move.actions:
        return [*([thought] if said else []), call_item(tool, move.actions)]
    text = {"type": "output_text", "text": move.answer, "annotations": [], "logprobs": []}
    message = {"id": new_item_id("message"), "type": "message", "status": "completed", "role": "assistant"}
    return [*([thought] if said else []), {**message, "content": [text]}]


# ----------------------------------------------------------------------------------------------- items to an episode


def recent(items: Sequence[Json], most: int) -> list[Json]:
    """The items from the last `most` screenshots on, and what the user said before."""
    shots = [n for n, item in enumerate(items) if item["type"] == "computer_call_output"]
    start = shots[-most] if len(shots) > most else 0
    said = [item for item in items[:start] if item["type"] == "message" and item["role"] != "assistant"]
    return [*said, *items[start:]]


async def played(episode: Episode, items: Sequence[Json], service: Service, caller: Caller) -> Episode:
    """The episode after these items. Screenshots are fetched and measured by their headers, on workers."""
    thoughts: list[str] = []
    shots = sum(len(_pictures(item)) for item in items if item["type"] == "message")
    shots += sum(item["type"] == "computer_call_output" for item in items)
    if shots > (most := service.settings.images.max_per_request):
        raise ApiError(400, f"the request has {shots} images; the limit is {most}", param="input")
    pixels = 0
    rest: list[Json] = []  # of an action that is carried out call by call
    for item in items:
        match item["type"]:
            case "message" if item["role"] == "assistant":
                episode = episode.answered(text_of(item["content"]))
            case "message":
                if text := text_of(item["content"]):
                    episode = episode.told(text)
                for picture in _pictures(item):
                    episode, more = await _seen(episode, image_address(picture), "", service, caller)
                    pixels += more
            case "reasoning":
                thoughts = [part.get("text", "") for part in item.get("summary") or ()]
            case "computer_call":
                given = item.get("actions") or ([item["action"]] if item.get("action") else [])
                rest += given
                if unpacked(item["call_id"]):
                    continue
                done, rest = rest, []
                episode, thoughts = episode.acted(done, *thoughts[:2]), []
            case "computer_call_output":
                if unpacked(item["call_id"]):
                    continue  # in the middle of an action
                shot = item["output"]
                if not shot.get("image_url"):
                    raise not_supported("a screenshot without image_url", "input", "send it as a data: URL")
                episode, more = await _seen(episode, shot["image_url"], shot.get("current_url", ""), service, caller)
                pixels += more
            case kind:
                raise not_supported(f"a {kind} beside the computer tool", "input")
        if pixels > (limit := service.settings.images.max_request_pixels):
            message = f"the images have more than {limit:,} pixels together"
            raise ApiError(400, message, code="too_many_pixels", param="input")
    return episode


async def _seen(episode: Episode, url: str, where: str, service: Service, caller: Caller) -> tuple[Episode, int]:
    """And how many pixels it has."""
    settings = service.settings.images
    data = None if url[:5].lower() == "data:" else await service.fetcher.fetch(url)

    def look() -> tuple[Episode, int]:
        screenshot = decoded(url, settings) if data is None else data
        pixels = measured(screenshot, settings)
        try:
            with Image.open(io.BytesIO(screenshot), formats=FORMATS) as opened:
                size, mime = opened.size, Image.MIME.get(opened.format or "", "image/png")
        except Exception:
            raise InputError("the screenshot is not an image that can be read (PNG, JPEG or WebP)") from None
        return episode.saw(screenshot, mime, size, where), pixels

    return await service.workers.run(caller.turn, look)
