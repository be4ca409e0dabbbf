"""The model behind a judge: any OpenAI-compatible server that takes pictures.

    async with JudgeModel("https://api.openai.com/v1", "o4-mini", parallel=8) as model:
        said = await model.ask(messages)

At most `parallel` requests at a time. Time-outs, overload and server errors are tried again with growing pauses; what
still fails is `Unanswered`, which costs one case its verdict. What no case can get past (nobody listens, the key is
wrong, there is no such model) is a `PolicyError`, which ends the run; verdicts so far stay.

The API key is read from HOLOTRON_JUDGE_API_KEY or OPENAI_API_KEY and is never written down. That of the policy's server
(HOLOTRON_API_KEY) is not sent: the judge may be somebody else's.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holotron.agent.messages import Message, to_openai
from holotron.agent.policies.adapting import Fitting
from holotron.agent.policies.answers import refusal_text
from holotron.agent.policies.wire import client, without_credentials
from holotron.errors import ConfigError, PolicyError
from holotron.evals.judging.cases import Said

_KEYS = ("HOLOTRON_JUDGE_API_KEY", "OPENAI_API_KEY")
_STOPPED = "content_filter"


class Unanswered(Exception):
    """This question got no answer; another one may."""


@dataclass(slots=True)
class Usage:
    """What questions have cost."""

    requests: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0

    def add(self, other: Usage) -> None:
        self.requests += other.requests
        self.prompt_tokens += other.prompt_tokens
        self.generated_tokens += other.generated_tokens


class JudgeModel:
    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        temperature: float | None = 0.0,
        seed: int | None = 42,
        max_tokens: int | None = None,
        seconds: float = 180.0,
        retries: int = 4,
        parallel: int = 8,
    ) -> None:
        """`temperature` and `seed` None: the server's; `max_tokens` None: the protocol's. `seconds`: for one request
        before it is tried again."""
        if parallel < 1 or seconds <= 0 or retries < 0:
            raise ConfigError("a judge needs at least one request at a time, some seconds for it, and retries from 0")
        self._client = client(base_url, _key(), seconds, retries)
        self._base_url = without_credentials(base_url)
        self._model = model
        self._temperature, self._seed, self.max_tokens = temperature, seed, max_tokens
        self.parallel = parallel
        self._places = asyncio.Semaphore(parallel)
        self._longest = (retries + 1) * seconds + 60.0  # also for a server that sends a byte now and then
        self._fitting = Fitting()

    @property
    def adapted(self) -> set[str]:
        """What the server did not take as it is."""
        return self._fitting.known

    def describe(self) -> dict[str, Any]:
        """For the manifest; not where it is served."""
        return {"model": self._model, "temperature": self._temperature, "seed": self._seed}

    async def ask(self, messages: Sequence[Message], max_tokens: int) -> tuple[Said, Usage]:
        """`max_tokens` is the protocol's limit, where this model has none of its own."""
        max_tokens = self.max_tokens or max_tokens
        async with self._places:
            response = await self._answered([to_openai(message) for message in messages], max_tokens)
        if isinstance(response, Said):
            return response, Usage(1)
        return said_in(response), usage_in(response)

    async def _answered(self, messages: list[dict[str, Any]], max_tokens: int) -> Any:
        """The response; or, where a server's filter refuses the question itself, what it said."""
        import openai

        asked: dict[str, Any] = {"model": self._model, "messages": messages, "max_tokens": max_tokens}
        asked |= {"temperature": self._temperature} if self._temperature is not None else {}
        asked |= {"seed": self._seed} if self._seed is not None else {}
        while True:
            request = self._fitting.fit(asked)
            try:
                async with asyncio.timeout(self._longest):
                    return await self._client.chat.completions.create(**request)
            except (openai.APITimeoutError, TimeoutError):
                raise Unanswered(f"{self._base_url} did not answer in time") from None
            except openai.APIConnectionError as error:
                # By name: which library makes the client's connections depends on its version.
                if type(error.__cause__).__name__ != "ConnectError":  # it was there, and broke off
                    raise Unanswered(f"{self._base_url} broke off: {error.__cause__ or error}"[:500]) from None
                raise PolicyError(
                    f"cannot reach the judge at {self._base_url} ({error.__cause__ or error}); is it running?"
                ) from None
            except openai.APIStatusError as error:
                if self._fitting.learn(error.status_code, refusal_text(error), request):  # the question stays the same
                    continue
                return self._refusal(error)
            except (openai.OpenAIError, ValueError, RecursionError) as error:  # an answer that is no JSON, say
                raise Unanswered(f"{self._base_url} answered what is no completion: {error}"[:500]) from None

    def _refusal(self, error: Any) -> Said:
        text, status = refusal_text(error), error.status_code
        where = f"the judge at {self._base_url} answered {status}: {text}"
        if status in (401, 403):
            raise PolicyError(f"{where}. Set {' or '.join(_KEYS)}.") from None
        if status == 404:
            raise PolicyError(
                f"{where}. Is {self._model!r} a model it serves, and does the address end in /v1?"
            ) from None
        if status == 400 and "temperature" in text:
            raise PolicyError(f"{where}. Let the model choose: --judge-temperature default.") from None
        body = error.body if isinstance(error.body, Mapping) else {}
        if status == 400 and _STOPPED in (body.get("code"), (body.get("innererror") or {}).get("code")):
            return Said(text, refused=True)
        raise Unanswered(where) from None

    async def close(self) -> None:
        await self._client.close()

    async def __aenter__(self) -> JudgeModel:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


def said_in(response: Any) -> Said:
    """What a response says. The client holds no answer to its form, so anything may stand anywhere in it."""
    choices = getattr(response, "choices", None)
    if not isinstance(choices, list) or not choices:
        raise Unanswered("the server answered without a choice")
    message: Any = getattr(choices[0], "message", None)
    if not hasattr(message, "content"):
        raise Unanswered("the server answered a choice without a message")
    refusal, finish = getattr(message, "refusal", None), getattr(choices[0], "finish_reason", None)
    text = _words(message.content) or _words(refusal)
    return Said(text, bool(refusal) or finish == _STOPPED, finish == "length")


def _words(content: Any) -> str:
    """Content is a text, or a list of parts; thoughts in front of it, which some servers leave there, rule nothing."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, Mapping)]
        content = "".join(part for part in parts if isinstance(part, str))
    if not isinstance(content, str):
        return ""
    spoken = content.rpartition("</think>")[2]
    return "" if spoken.lstrip().startswith("<think>") else spoken


def usage_in(response: Any) -> Usage:
    used = getattr(response, "usage", None)
    counts = [getattr(used, name, 0) for name in ("prompt_tokens", "completion_tokens")]
    prompt, generated = (count if isinstance(count, int) and count > 0 else 0 for count in counts)
    return Usage(1, prompt, generated)


async def only_model(base_url: str) -> str:
    """The name of a server's model, where it has one only."""
    import openai

    server = client(base_url, _key(), 30.0, 1)
    try:
        names = [card.id async for card in server.models.list()]
    except openai.OpenAIError as error:
        raise PolicyError(
            f"cannot list the models of the judge at {without_credentials(base_url)} ({error}); is it running? "
            "Or name the model: --judge-model"
        ) from None
    finally:
        await server.close()
    if len(names) != 1:
        raise ConfigError(f"the judge's server has {len(names)} models; say which with --judge-model: {names[:10]}")
    return names[0]


def _key() -> str:
    return next((os.environ[name] for name in _KEYS if os.environ.get(name)), "none")
