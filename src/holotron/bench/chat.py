"""Agents that chat: messages with texts and PNG pictures in base64, through the official client.

Stateless, as most agents are: every request carries the whole conversation, or all texts and the last few pictures. Or
in a session of ours (`session_id`), which takes the new message alone.

Texts are made of words. How many tokens a word has is the server's business, so it is asked first (`words_per_token`),
and texts are as long as the workload says, in the server's own tokens.
"""

from __future__ import annotations

import base64
import os
import random
from typing import TYPE_CHECKING, Any

from holotron.bench.screens import Screens
from holotron.bench.workload import Workload
from holotron.errors import ConfigError, MissingDependency, PolicyError

if TYPE_CHECKING:
    from openai import OpenAI

WORDS = ("button", "window", "search", "field", "page", "menu", "login", "table", "price", "filter", "next", "open")
FEW, MANY = 64, 256  # words of the two texts that are compared


class Chat:
    """A server, as the official client sees it."""

    def __init__(self, url: str, model: str, *, ignore_eos: bool, timeout: float = 600.0) -> None:
        try:
            from openai import OpenAI
        except ImportError:
            raise MissingDependency.extra("openai", "agent") from None
        key = os.environ.get("HOLOTRON_API_KEY") or os.environ.get("OPENAI_API_KEY") or "none"
        self._client: OpenAI = OpenAI(base_url=url, api_key=key, timeout=timeout, max_retries=0)
        self._model = model
        self._more: dict[str, Any] = {"ignore_eos": True} if ignore_eos else {}

    def say(self, messages: list[dict[str, Any]], max_tokens: int, temperature: float, **more: Any) -> Any:
        """The answer, whatever the server adds to it included."""
        from openai import APIError

        try:
            return self._client.chat.completions.create(
                model=self._model,
                messages=messages,  # type: ignore[arg-type]
                max_tokens=max_tokens,
                temperature=temperature,
                extra_body={**self._more, **more},
            )
        except APIError as error:
            raise PolicyError(f"{type(error).__name__}: {str(error)[:300]}") from None

    def words_per_token(self) -> float:
        def tokens(words: int) -> int:
            message = {"role": "user", "content": text(random.Random(words), words)}
            answer = self.say([message], 1, 0.0)
            return int(answer.usage.prompt_tokens)

        return (MANY - FEW) / max(1, tokens(MANY) - tokens(FEW))

    def end(self, session: str) -> None:
        self._client.delete(f"/sessions/{session}", cast_to=object)


def text(draw: random.Random, words: float) -> str:
    return " ".join(draw.choices(WORDS, k=max(1, round(words))))


class ChatAgent:
    def __init__(
        self,
        chat: Chat,
        workload: Workload,
        number: int,
        screens: Screens | None,
        *,
        session: bool,
        words_per_token: float,
    ) -> None:
        if workload.history == "epoch" or (session and workload.history != "append"):
            raise ConfigError("chat knows the histories append and window; in sessions, append")
        self._chat = chat
        self._workload = workload
        self._number = number
        self._screens = screens
        self._session = f"bench-{os.getpid()}-{workload.seed}-{number}" if session else None
        self._ratio = words_per_token
        self._draw = random.Random(f"{workload.seed}/{number}")
        self._steps = 0
        system = text(random.Random(f"{workload.seed}/system"), workload.system_tokens * words_per_token)
        self._messages: list[dict[str, Any]] = [{"role": "system", "content": system}]

    def say(self, max_tokens: int) -> dict[str, Any]:
        words = text(self._draw, self._workload.text_tokens * self._ratio)
        self._messages.append({"role": "user", "content": [*self._screen(), {"type": "text", "text": words}]})
        if self._workload.history == "window":
            self._forget_old_screens()
        more: dict[str, Any] = {}
        if self._session is not None:
            more = {"session_id": self._session, "session_open": self._steps == 0}
        answer = self._chat.say(self._messages, max_tokens, self._workload.temperature, **more)
        self._steps += 1
        if self._session is not None:
            self._messages = []  # the server has them
        else:
            self._messages.append({"role": "assistant", "content": answer.choices[0].message.content or ""})
        usage: dict[str, Any] = answer.usage.model_dump()
        return usage

    def close(self) -> None:
        if self._session is not None and self._steps:
            self._chat.end(self._session)

    def _screen(self) -> list[dict[str, Any]]:
        if self._screens is None:
            return [{"type": "text", "text": text(self._draw, self._workload.screenshot_tokens * self._ratio) + "\n"}]
        data = base64.b64encode(self._screens.of(self._number, self._steps)).decode()
        return [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}]

    def _forget_old_screens(self) -> None:
        users = [message for message in self._messages if message["role"] == "user"]
        for message in users[: -self._workload.window]:
            message["content"] = message["content"][-1:]
