"""Any OpenAI-compatible server as a policy: vLLM, SGLang, TensorRT-LLM, `holotron serve`, a hosted model.

Only the chat-completions API of the official client is used; images travel as data URLs, structure is asked for by
`response_format` (or native tools, if the dialect speaks them). Nothing outside the standard is sent unless the caller
adds it through `extra_body`. The API key is read from HOLOTRON_API_KEY or OPENAI_API_KEY and is never written down.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from holotron.agent.dialects.base import Dialect, Output
from holotron.agent.dialects.tools import write_calls
from holotron.agent.history import History
from holotron.agent.messages import Message, count_images, to_openai
from holotron.agent.policies.conversation import Conversation
from holotron.envs.base import Environment
from holotron.errors import CapacityError, ConfigError, MissingDependency, PolicyError
from holotron.types import Completion, Task

if TYPE_CHECKING:
    from openai import AsyncOpenAI


@dataclass(frozen=True, slots=True)
class Sampling:
    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 1024
    seed: int | None = None


class OpenAIPolicy:
    def __init__(
        self,
        base_url: str,
        model: str,
        dialect: Dialect,
        history: History,
        *,
        sampling: Sampling = Sampling(),
        structured: bool = True,
        extra_body: Mapping[str, Any] | None = None,
        request_seconds: float = 300.0,
        retries: int = 5,
    ) -> None:
        self._base_url = without_credentials(base_url)
        self._model = model
        self._dialect = dialect
        self._history = history
        self._sampling = sampling
        self._structured = structured
        self._extra_body = dict(extra_body or {})
        self._client = _client(base_url, request_seconds, retries)

    @property
    def name(self) -> str:
        return self._model

    def describe(self) -> dict[str, Any]:
        return {
            "policy": "openai",
            "base_url": self._base_url,
            "model": self._model,
            "dialect": self._dialect.describe(),
            "history": self._history.name,
            "sampling": asdict(self._sampling),
            "structured": self._structured,
            "extra_body": self._extra_body,
        }

    async def start(self, task: Task, environment: Environment) -> Conversation:
        return Conversation(task, self._dialect, self._history, _Chat(self))

    async def close(self) -> None:
        await self._client.close()

    async def complete(self, messages: Sequence[Message], output: Output) -> Completion:
        """One request, with the client's own retries and back-off; what still fails becomes a `PolicyError`."""
        import openai

        started = time.monotonic()
        try:
            response = await self._client.chat.completions.create(**self._request(messages, output))
        except openai.APITimeoutError:
            raise PolicyError(f"{self._base_url} did not answer in time; is it overloaded?") from None
        except openai.APIConnectionError as error:
            raise PolicyError(f"cannot reach {self._base_url} ({error.__cause__ or error}); is it running?") from None
        except openai.APIStatusError as error:
            raise self._status_error(error) from None
        return _completion(response, count_images(messages), time.monotonic() - started)

    def _request(self, messages: Sequence[Message], output: Output) -> dict[str, Any]:
        sampling = self._sampling
        request: dict[str, Any] = {
            "model": self._model,
            "messages": [to_openai(message) for message in messages],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
        }
        if sampling.seed is not None:
            request["seed"] = sampling.seed
        if output.tools:
            request |= {"tools": list(output.tools), "tool_choice": "required", "parallel_tool_calls": False}
        elif output.json_schema is not None and self._structured:
            request["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "reply", "strict": True, "schema": output.json_schema},
            }
        if self._extra_body:
            request["extra_body"] = self._extra_body
        return request

    def _status_error(self, error: Any) -> PolicyError | CapacityError:
        body = error.body if isinstance(error.body, Mapping) else {}
        text = str(body.get("message") or error.message)[:500]
        where = f"{self._base_url} answered {error.status_code}: {text}"
        if body.get("code") == "context_length_exceeded" or "maximum context length" in text:
            return CapacityError(f"the conversation no longer fits the model's context ({text})")
        if error.status_code in (401, 403):
            return PolicyError(f"{where}. Set HOLOTRON_API_KEY or OPENAI_API_KEY.")
        if error.status_code == 404:
            return PolicyError(f"{where}. Is {self._model!r} the name it serves, and does the address end in /v1?")
        if error.status_code == 400 and "response_format" in text:
            return PolicyError(f"{where}. Ask without a schema (structured off).")
        return PolicyError(where)


class _Chat:
    """Stateless: every request carries what the history policy selected."""

    def __init__(self, policy: OpenAIPolicy) -> None:
        self._policy = policy

    async def complete(self, messages: Sequence[Message], output: Output) -> Completion:
        return await self._policy.complete(messages, output)

    async def close(self) -> None:
        pass


def _client(base_url: str, seconds: float, retries: int) -> AsyncOpenAI:
    if urlsplit(base_url).scheme not in ("http", "https"):
        raise ConfigError(f"{base_url!r} is not the address of a server; it starts with http:// or https://")
    try:
        from openai import AsyncOpenAI
    except ImportError:
        raise MissingDependency.extra("openai", "agent") from None
    key = os.environ.get("HOLOTRON_API_KEY") or os.environ.get("OPENAI_API_KEY") or "none"
    return AsyncOpenAI(base_url=base_url, api_key=key, timeout=seconds, max_retries=retries)


def without_credentials(url: str) -> str:
    """The address without user, password and query: what may be stored and shown."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def _completion(response: Any, images: int, seconds: float) -> Completion:
    if not response.choices:
        raise PolicyError("the server answered without a choice")
    choice = response.choices[0]
    message = choice.message
    calls = [(call.function.name, call.function.arguments) for call in message.tool_calls or []]
    usage = response.usage
    details = getattr(usage, "prompt_tokens_details", None)
    return Completion(
        text=write_calls(message.content or "", calls),
        reasoning=getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None) or "",
        prompt_tokens=getattr(usage, "prompt_tokens", 0) or 0,
        cached_tokens=getattr(details, "cached_tokens", 0) or 0,
        generated_tokens=getattr(usage, "completion_tokens", 0) or 0,
        images_sent=images,
        finish_reason=choice.finish_reason or "stop",
        seconds=seconds,
    )


async def served_models(base_url: str) -> list[str]:
    """The names a server goes by, for people who did not say which."""
    import openai

    client = _client(base_url, 30.0, 1)
    try:
        return [model.id async for model in client.models.list()]
    except openai.OpenAIError as error:
        raise PolicyError(f"cannot list the models of {without_credentials(base_url)}: {error}") from None
    finally:
        await client.close()
