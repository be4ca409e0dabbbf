"""What OpenAI-compatible servers answer, as completions of ours. The client holds no answer to its form, so anything
may stand anywhere in one; what cannot be read is a `PolicyError`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holotron.agent.dialects.tools import write_calls
from holotron.errors import PolicyError
from holotron.types import Completion


def refusal_text(error: Any) -> str:
    """Of an error, what the server says."""
    body = error.body if isinstance(error.body, Mapping) else {}
    return str(body.get("message") or error.message)[:500]


def _said(content: Any) -> str:
    """Content is a text or, of some servers, a list of parts."""
    if isinstance(content, list):
        content = "".join(part.get("text") or "" for part in content if isinstance(part, Mapping))
    if content is not None and not isinstance(content, str):
        raise TypeError(f"its content is {type(content).__name__}")
    return content or ""


def completion_of(response: Any, images: int, seconds: float) -> Completion:
    try:
        return _completion(response, images, seconds)
    except (AttributeError, TypeError, ValueError, LookupError) as error:
        raise PolicyError(f"the server answered what is no chat completion ({error})"[:500]) from None


def _completion(response: Any, images: int, seconds: float) -> Completion:
    if not response.choices:
        raise PolicyError("the server answered without a choice")
    choice = response.choices[0]
    message = choice.message
    calls = [(call.function.name, call.function.arguments) for call in message.tool_calls or []]
    usage = response.usage
    details = getattr(usage, "prompt_tokens_details", None)
    tokens = tuple(getattr(choice, "token_ids", None) or ())
    scored = getattr(choice.logprobs, "content", None) or () if tokens else ()
    return Completion(
        text=write_calls(_said(message.content), calls),
        reasoning=_said(getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)),
        prompt_tokens=_count(usage, "prompt_tokens"),
        cached_tokens=_count(details, "cached_tokens"),
        generated_tokens=_count(usage, "completion_tokens"),
        images_sent=images,
        tokens=tokens,
        logprobs=tuple(item.logprob for item in scored),
        policy_version=min(getattr(choice, "versions", None) or (0,)),  # the oldest weights that had a part in it
        finish_reason="stop" if choice.finish_reason in (None, "tool_calls") else choice.finish_reason,
        seconds=seconds,
    )


def _count(told: Any, name: str) -> int:
    count = getattr(told, name, None)
    return count if isinstance(count, int) and count > 0 else 0
