"""Any OpenAI-compatible server as a policy: vLLM, SGLang, TensorRT-LLM, `holotron serve`, a hosted model.

Images travel as data URLs; structure is asked for by `response_format`, or native tools if the dialect speaks them.
Nothing outside the standard is sent, unless the server's own model card says that it understands more. `holotron serve`
does: with it an episode is one session on the server, each turn sends only what is new, and token ids, logprobs and
weight versions come back for training.

The API key is read from HOLOTRON_API_KEY or OPENAI_API_KEY and is never written down.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from holotron.agent.dialects.base import Dialect, Output
from holotron.agent.history import History
from holotron.agent.messages import Message, count_images, to_openai
from holotron.agent.policies.adapting import NO_TEMPERATURE, Fitting
from holotron.agent.policies.answers import completion_of, refusal_text
from holotron.agent.policies.conversation import Conversation, new_messages
from holotron.agent.policies.registry import MAX_TOKENS, PolicyRequest, declares, policies
from holotron.agent.policies.wire import agents_key, client, one_request, without_credentials
from holotron.agent.profiles import Profile, profile_for
from holotron.envs.base import Environment
from holotron.errors import CapacityError, ConfigError, PolicyError
from holotron.types import Completion, Task

log = logging.getLogger("holotron.policy")

SESSIONS = 1  # the version of the session extension we speak


@dataclass(frozen=True, slots=True)
class Sampling:
    temperature: float | None = 0.0  # None: as the server has it
    top_p: float | None = None
    max_tokens: int = 1024
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a server offers beyond the standard, by its model card."""

    sessions: bool = False
    regex: bool = False
    token_ids: bool = False


class SessionLost(PolicyError):
    """The server no longer knows our session: it expired, or the server was started anew."""


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
        sessions: bool = True,
        extra_body: Mapping[str, Any] | None = None,
        request_seconds: float = 300.0,
        retries: int = 10,
    ) -> None:
        """`structured`: ask for the dialect's schema. `sessions`: use the server's sessions if it has them.
        `retries`: ten take most of a minute, in which a server that died is there again."""
        self._client = client(base_url, agents_key(), request_seconds, retries)
        self._base_url = without_credentials(base_url)
        self._model = model
        self._dialect = dialect
        self._history = history
        self._sampling = sampling
        self._structured = structured
        self._sessions = sessions
        self._extra_body = dict(extra_body or {})
        self._abilities: Abilities | None = None
        self._asking = asyncio.Lock()
        self._fitting = Fitting(temperature=True)

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
            "sessions": self._sessions,
            "extra_body": self._extra_body,
        }

    @property
    def dialect(self) -> Dialect:
        return self._dialect

    async def start(self, task: Task, environment: Environment | None = None) -> Conversation:
        abilities = await self.abilities()
        chat = _SessionChat(self) if self._sessions and abilities.sessions else _PlainChat(self)
        return Conversation(task, self._dialect, self._history, chat)

    async def close(self) -> None:
        await self._client.close()

    async def abilities(self) -> Abilities:
        """Asked until there is an answer. A server without a usable model card gets the standard and nothing else."""
        async with self._asking:
            if self._abilities is None:
                self._abilities = await self._ask_abilities()
        return self._abilities or Abilities()

    async def _ask_abilities(self) -> Abilities | None:
        import openai

        try:
            cards = [card async for card in self._client.models.list() if card.id == self._model]
        except (openai.APIConnectionError, openai.InternalServerError):
            return None  # not up yet
        except openai.OpenAIError:
            return Abilities()
        offered = getattr(cards[0], "capabilities", None) if cards else None
        if not isinstance(offered, Mapping):
            return Abilities()
        sessions = offered.get("sessions")
        ours = isinstance(sessions, Mapping) and sessions.get("version") == SESSIONS
        return Abilities(sessions=ours, regex="regex" in (offered.get("response_formats") or ()), token_ids=ours)

    # ------------------------------------------------------------------------------------------------------ requests

    async def sample(
        self, messages: Sequence[Message], output: Output, *, n: int, temperature: float, seed: int
    ) -> list[Completion]:
        """Answers to one question, outside any episode: `n` of them, as separate requests."""
        await self.abilities()
        ways = [replace(self._sampling, temperature=temperature, seed=seed + nth) for nth in range(n)]
        replies = await asyncio.gather(*(self.complete(messages, output, sampling=way) for way in ways))
        return [completion for completion, _ in replies]

    async def complete(
        self,
        messages: Sequence[Message],
        output: Output,
        extension: Mapping[str, Any] | None = None,
        *,
        sampling: Sampling | None = None,
    ) -> tuple[Completion, Any]:
        """One request, with the client's own retries and back-off; what still fails becomes an error of ours. Also
        returns the response itself, for what extensions add to it."""
        import openai

        started = time.monotonic()
        asked = self._request(messages, output, dict(extension or {}), sampling or self._sampling)
        while True:
            request = self._fitting.fit(asked)
            try:
                with one_request():
                    response = await self._client.chat.completions.create(**request)
                break
            except openai.APITimeoutError:
                raise PolicyError(f"{self._base_url} did not answer in time; is it overloaded?") from None
            except openai.APIConnectionError as error:
                cause = error.__cause__ or error
                raise PolicyError(f"cannot reach {self._base_url} ({cause}); is it running?") from None
            except openai.APIStatusError as error:
                if not self._fits_after(error, request):
                    raise self._status_error(error) from None
            except (openai.OpenAIError, ValueError, RecursionError) as error:  # an answer that is no JSON, say
                raise PolicyError(f"{self._base_url} answered what is no completion: {error}"[:500]) from None
        return completion_of(response, count_images(messages), time.monotonic() - started), response

    def _fits_after(self, error: Any, request: dict[str, Any]) -> bool:
        """Whether the server has said how it wants to be asked."""
        if not self._fitting.learn(error.status_code, refusal_text(error), request):
            return False
        if NO_TEMPERATURE in self._fitting.known and "temperature" in request:
            log.warning("%s does not take temperature %s; it samples as it likes", self._model, request["temperature"])
        return True

    async def close_session(self, id: str) -> None:
        import openai

        with contextlib.suppress(openai.OpenAIError):  # it expires by itself
            await self._client.delete(f"/sessions/{id}", cast_to=object, options={"timeout": 10.0, "max_retries": 0})

    def _request(
        self, messages: Sequence[Message], output: Output, extension: dict[str, Any], sampling: Sampling
    ) -> dict[str, Any]:
        abilities = self._abilities or Abilities()
        request: dict[str, Any] = {
            "model": self._model,
            "messages": [to_openai(message) for message in messages],
            "max_tokens": sampling.max_tokens,
        }
        if sampling.temperature is not None:
            request["temperature"] = sampling.temperature
        if sampling.top_p is not None:
            request["top_p"] = sampling.top_p
        if sampling.seed is not None:
            request["seed"] = sampling.seed
        if output.tools:
            choice: Any = "required"
            if output.must_call:
                choice = {"type": "function", "function": {"name": output.must_call}}
            request |= {"tools": list(output.tools), "tool_choice": choice, "parallel_tool_calls": False}
        elif self._structured and (form := _response_format(output, abilities)):
            request["response_format"] = form
        extra = self._extra_body | extension
        if abilities.token_ids:
            request["logprobs"] = True
            extra["return_token_ids"] = True
        if extra:
            request["extra_body"] = extra
        return request

    def _status_error(self, error: Any) -> PolicyError | CapacityError:
        body, text = error.body if isinstance(error.body, Mapping) else {}, refusal_text(error)
        where = f"{self._base_url} answered {error.status_code}: {text}"
        if body.get("code") == "context_length_exceeded" or "maximum context length" in text:
            return CapacityError(f"the conversation no longer fits the model's context ({text})")
        if body.get("code") == "session_not_found":
            return SessionLost(where)
        if error.status_code in (401, 403):
            return PolicyError(f"{where}. Set HOLOTRON_API_KEY or OPENAI_API_KEY.")
        if error.status_code == 404:
            return PolicyError(f"{where}. Is {self._model!r} the name it serves, and does the address end in /v1?")
        if error.status_code == 400 and "response_format" in text:
            return PolicyError(f"{where}. Ask without a schema (structured off).")
        return PolicyError(where)


# ------------------------------------------------------------------------------------------------ kinds of conversation


class _PlainChat:
    """Stateless: every request carries what the history policy selected."""

    def __init__(self, policy: OpenAIPolicy) -> None:
        self._policy = policy

    async def complete(self, messages: Sequence[Message], output: Output) -> Completion:
        completion, _ = await self._policy.complete(messages, output)
        return completion

    async def close(self) -> None:
        pass


class _SessionChat:
    """A session on the server: a request carries only what the server has not seen. `rewind` names the turns we know
    of, so a request that is sent again because its answer got lost does not happen twice."""

    def __init__(self, policy: OpenAIPolicy) -> None:
        self._policy = policy
        self._id: str | None = None
        self._turns = 0
        self._known: list[Message] = []

    async def complete(self, messages: Sequence[Message], output: Output) -> Completion:
        new = new_messages(self._known, messages)
        if self._id is not None and new is not None:
            try:
                return await self._say(messages, new, output, {"session_id": self._id, "rewind": self._turns})
            except SessionLost:
                self._id = None
        await self.close()
        return await self._say(messages, messages, output, {"session_open": True})

    async def _say(
        self, messages: Sequence[Message], new: Sequence[Message], output: Output, extension: Mapping[str, Any]
    ) -> Completion:
        completion, response = await self._policy.complete(new, output, extension)
        session = getattr(response, "session", None) or {}
        self._id, self._turns = session.get("id"), session.get("turns", 0)
        self._known = list(messages)
        return completion

    async def close(self) -> None:
        id, self._id = self._id, None
        if id is not None:
            await self._policy.close_session(id)


# ------------------------------------------------------------------------------------------------ what a server offers


def _response_format(output: Output, abilities: Abilities) -> dict[str, Any] | None:
    if output.json_schema is not None:
        schema = {"name": "reply", "strict": True, "schema": output.json_schema}
        return {"type": "json_schema", "json_schema": schema}
    if output.regex is not None and abilities.regex:
        return {"type": "regex", "regex": output.regex}
    return None


async def served_models(base_url: str) -> dict[str, Any]:
    """The models of a server by name, each with what its card says of it as an agent (None where it says nothing)."""
    server = client(base_url, agents_key(), 30.0, 1)
    import openai

    try:
        return {model.id: getattr(model, "agent", None) async for model in server.models.list()}
    except openai.OpenAIError as error:
        hint = " Is a server running there?" if isinstance(error, openai.APIConnectionError) else ""
        raise PolicyError(f"cannot list the models of {without_credentials(base_url)}: {error}{hint}") from None
    finally:
        await server.close()


async def choose_model(base_url: str, model: str | None) -> tuple[str, Profile]:
    """Which model is meant, and what it declares: the server's word, else what its name is known for."""
    if model is not None:
        try:
            cards = await served_models(base_url)
        except PolicyError:  # some servers list nothing; the name was given, so we go on without
            cards = {}
        return model, _declared(base_url, model, cards.get(model))
    cards = await served_models(base_url)
    if len(cards) != 1:
        raise ConfigError(
            f"{without_credentials(base_url)} serves {len(cards)} models; say which with --model: "
            f"{', '.join(list(cards)[:10])}"
        )
    [(name, card)] = cards.items()
    return name, _declared(base_url, name, card)


def _declared(base_url: str, model: str, card: Any) -> Profile:
    if card is None:
        return profile_for(model)
    try:
        return Profile.from_json(card)
    except (TypeError, ConfigError) as error:
        raise ConfigError(f"what {without_credentials(base_url)} says of {model} as an agent: {error}") from None


async def _ask_server(request: PolicyRequest) -> PolicyRequest:
    model, declared = await choose_model(request.argument, request.model)
    return replace(request, model=model, declared=declared)


@policies.register("openai")
@declares(_ask_server)
def make_remote_policy(request: PolicyRequest) -> OpenAIPolicy:
    profile, thinking = request.profile, request.profile.thinking
    assert request.model is not None, "found out by _ask_server"
    return OpenAIPolicy(
        request.argument,
        request.model,
        profile.make_dialect(request.actions),
        profile.make_history(),
        sampling=Sampling(profile.temperature, profile.top_p, profile.max_tokens or MAX_TOKENS, request.seed),
        structured=request.constrained,
        extra_body=None if thinking is None else {"chat_template_kwargs": {"enable_thinking": thinking}},
    )
