"""From a request's fields to the parameters that the engine and the processor take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from holotron.engine import SamplingParams
from holotron.model.processor.continuation import RESERVED
from holotron.server.errors import ApiError
from holotron.server.settings import ReplySettings
from holotron.server.wire import ChatRequest, CompletionRequest, GenerationFields, Message, Tool

N = TypeVar("N", int, float)


def sampling_of(request: ChatRequest | CompletionRequest, defaults: ReplySettings, context: int) -> SamplingParams:
    limit = request.max_tokens or defaults.max_tokens or context
    if isinstance(request, ChatRequest):
        limit = request.max_completion_tokens or limit
        top = request.top_logprobs or 0
        if top and not request.logprobs:
            raise ApiError(400, "top_logprobs needs logprobs: true", param="top_logprobs")
    else:
        top = request.logprobs or 0
    stop = [request.stop] if isinstance(request.stop, str) else request.stop or []
    return SamplingParams(
        max_tokens=min(limit, context),
        temperature=_first(request.temperature, defaults.temperature, 1.0),
        top_k=max(0, _first(request.top_k, defaults.top_k, 0)),
        top_p=max(_first(request.top_p, defaults.top_p, 1.0), 1e-9),  # OpenAI's clients may say 0
        min_p=_first(request.min_p, defaults.min_p, 0.0),
        frequency_penalty=request.frequency_penalty or 0.0,
        presence_penalty=request.presence_penalty or 0.0,
        repetition_penalty=_first(request.repetition_penalty, defaults.repetition_penalty, 1.0),
        logit_bias={int(token): bias for token, bias in (request.logit_bias or {}).items()},
        seed=None if request.seed is None else request.seed % 2**63,
        stop=tuple(stop),
        stop_token_ids=tuple(request.stop_token_ids or ()),
        ignore_eos=bool(request.ignore_eos),
        top_logprobs=top,
    )


def _first(*values: N | None) -> N:
    return next(value for value in values if value is not None)


def choices_of(request: GenerationFields, limit: int, prompts: int = 1) -> int:
    n = request.n or 1
    if n * prompts > limit:
        raise ApiError(400, f"{n * prompts} choices were asked for; the limit is {limit}", param="n")
    return n


@dataclass(frozen=True)
class Rendering:
    """How messages are to be written: the arguments of `Transcript.next` but the messages."""

    thinking: bool
    variables: dict[str, Any]


def rendering_of(
    variables: dict[str, Any] | None, effort: str | None, *, thinking: bool | None, asked: bool | None = None
) -> Rendering:
    """`chat_template_kwargs.enable_thinking` decides, then what other services call it (`asked`), then
    `reasoning_effort`, then the server's own setting."""
    given = dict(variables or {})
    if taken := RESERVED & set(given):
        raise ApiError(400, f"chat_template_kwargs may not set {min(taken)!r}", param="chat_template_kwargs")
    if effort is not None:
        thinking = effort != "none"
        given.setdefault("reasoning_effort", effort)
    thinking = thinking if asked is None else asked
    for name in ("thinking", "enable_thinking"):
        if name in given:
            thinking = bool(given.pop(name))
    return Rendering(bool(thinking), given)


def plain_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [_plain(message) for message in messages]


def _plain(message: Message) -> dict[str, Any]:
    plain = message.model_dump(exclude_none=True)
    # As it was before there were tools: a call, and the message that answers it.
    if call := plain.pop("function_call", None):
        plain["tool_calls"] = [*plain.get("tool_calls", []), {"type": "function", "function": call}]
    if plain["role"] == "function":
        plain["role"] = "tool"
    # A refusal is something that was said.
    refusal = plain.pop("refusal", None)
    if refusal and not plain.get("content"):
        plain["content"] = refusal
    if isinstance(parts := plain.get("content"), list):
        plain["content"] = [
            {"type": "text", "text": part["refusal"]} if part["type"] == "refusal" else part for part in parts
        ]
    return plain


def plain_tools(tools: Sequence[Tool] | None) -> list[dict[str, Any]] | None:
    return [tool.model_dump(exclude_none=True) for tool in tools] if tools else None
