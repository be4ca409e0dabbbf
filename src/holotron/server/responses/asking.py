"""What a request for a response asks for: which response it continues, and what the model is told.

    plan = await planned(http, request)               # refuses what cannot be
    plan.continues                                    # a session that holds everything but the new messages, or None
    plan.chat_request()                               # those messages, or the whole conversation

Where it does not fit the context and the request allows it (`truncation: auto`), the plan drops the beginning of the
conversation: `shorten`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

from holotron.errors import CapacityError
from holotron.model.processor import ReplyPart
from holotron.server.bodies import SMALL
from holotron.server.errors import ApiError
from holotron.server.limits import check_count, size_of
from holotron.server.responses import computer
from holotron.server.responses.items import (
    COMPUTER,
    Json,
    check_calls,
    computer_tool,
    fingerprint,
    function_tools,
    messages_of,
    plain_items,
    text_of,
)
from holotron.server.responses.store import Stored
from holotron.server.responses.wire import (
    ChosenTool,
    JsonSchema,
    PlainText,
    RegexFormat,
    ResponsesRequest,
    ToolSpec,
    not_supported,
    refuse_unsupported,
)
from holotron.server.running import while_connected
from holotron.server.served import ServedSession
from holotron.server.service import Caller, Service
from holotron.server.wire import ChatRequest, JsonFormat


async def planned(http: Request, request: ResponsesRequest) -> Plan:
    service: Service = http.app.state.service
    caller = service.caller(http)
    refuse_unsupported(request)
    if isinstance(request.input, list):
        check_count(service.settings.limits, len(request.input), "items", "input")
    store = service.serving(request.model).responses
    items = plain_items(request, lambda id: store.item(caller.owner, id))
    if not items:
        raise ApiError(400, "input is empty: there is nothing to reply to", param="input")

    def fingerprints() -> list[bytes]:
        return [fingerprint(item) for item in items]

    small = size_of(items, SMALL) <= SMALL
    if small:
        prints = fingerprints()
    else:
        prints = await while_connected(http, service.workers.run(caller.turn, fingerprints, "large"))
    return Plan(request, items, prints, service, caller, http.app.state.computer)


class Plan:
    def __init__(
        self,
        request: ResponsesRequest,
        items: list[Json],
        fingerprints: list[bytes],
        service: Service,
        caller: Caller,
        user: computer.ComputerUser | None,
    ) -> None:
        self.request = request
        self.new, self.prints = items, fingerprints
        loaded = service.serving(request.model)
        store, owner = loaded.responses, caller.owner
        named = request.previous_response_id
        self.previous = store.previous(owner, named) if named is not None else None
        self.resent = False
        if self.previous is None and (found := store.recognised(owner, fingerprints)) is not None:
            self.previous, count = found
            self.new, self.prints, self.resent = items[count:], fingerprints[count:], True
        self.history: list[Json] = self.previous.history() if self.previous is not None else []
        check_calls(self.history, self.new)
        self.functions = function_tools(request.tools)
        self.computer = self._computer_tool(user, sees=loaded.sees)
        if request.tool_choice == "none":
            self.functions = []
        self.user = user
        self.stores = request.store is not False
        self.truncates = request.truncation == "auto"
        self.head = (self.computer and self.computer.type, request.instructions, self.functions)
        self.continues: ServedSession | None = None
        self.messages: list[Json] = []
        self._most_images = service.settings.images.max_per_request
        self._dropped = 0  # of the places where the conversation may begin
        self._alone = False  # no session can be continued
        self._episode: computer.Episode | None = None
        self._question: computer.Question | None = None
        if self.computer is None:
            self._converse()
        else:  # what is measured before the pictures are looked at
            self.messages = [
                {"role": "user", "content": text_of(item["content"])} for item in self.new if "role" in item
            ]

    def _computer_tool(self, user: computer.ComputerUser | None, *, sees: bool) -> ToolSpec | None:
        request = self.request
        tool = computer_tool(request.tools)
        chosen = request.tool_choice
        if isinstance(chosen, ChosenTool) and chosen.type in COMPUTER and tool is None:
            raise ApiError(400, "tool_choice names the computer, which is not in tools", param="tool_choice")
        if tool is None or chosen == "none":
            return None
        if user is None or not sees:
            why = "it was not told how" if sees else "it cannot see"
            raise not_supported("the computer tool", "tools", f"this server's model uses no computer: {why}")
        if self.functions:
            hint = "models use the computer in a language of their own, which has no functions"
            raise not_supported("the computer tool beside functions", "tools", hint)
        if request.text is not None and request.text.format is not None and request.text.format.type != "text":
            raise not_supported("text.format beside the computer tool", "text.format")
        return tool

    # --------------------------------------------------------------------------------------------------- conversations

    def _converse(self) -> None:
        """The new messages if a session holds the others, or all."""
        previous = self.previous
        if previous is not None and not self._alone and previous.head == self.head:
            messages = messages_of(self.new)
            if previous.live_session is not None and all(m["role"] in ("user", "tool") for m in messages):
                self.continues, self.messages = previous.live_session, messages
                return
        self.continues = None
        whole = messages_of([*self.history, *self.new], self.request.instructions)
        self._cuts = _cuts(whole)
        if self.truncates:
            while _images(self._from(whole)) > self._most_images and self.can_shorten:
                self._dropped += 1
        self.messages = self._from(whole)

    def _from(self, whole: list[Json]) -> list[Json]:
        if not self._dropped:
            return whole
        system = whole[:1] if whole[0]["role"] == "system" else []
        return [*system, *whole[self._cuts[self._dropped - 1] :]]

    @property
    def can_shorten(self) -> bool:
        return self.truncates and (self.continues is not None or self._dropped < self._most_dropped)

    @property
    def _most_dropped(self) -> int:
        if self._episode is not None:
            return len(self._episode.turns) - 1
        return len(self._cuts) if self.computer is None else 0

    def start_over(self, excess: float = 0.0) -> None:
        """The session cannot be continued; or, with an excess, the conversation is too long for the context."""
        self._alone = True
        self.continues = None
        if self.computer is None:
            self._converse()
        if excess and not self.shorten(excess):
            raise CapacityError("the conversation does not fit the context, even without its beginning")

    def shorten(self, part: float) -> bool:
        """Drop about this part of the conversation, from its beginning. False: it cannot be."""
        if not self.can_shorten:
            return False
        self._alone = True
        if self.continues is None:
            left = self._most_dropped - self._dropped
            self._dropped += min(left, max(1, math.ceil(part * (left + 1))))
        if self.computer is None:
            self._converse()
        return True

    # ---------------------------------------------------------------------------------------------------- the computer

    def due(self) -> list[Json] | None:
        """What to do on the computer without asking the model."""
        return computer.due_actions(self.new) if self.computer is not None else None

    def call(self, actions: Sequence[Json]) -> Json:
        assert self.computer is not None
        return computer.call_item(self.computer, actions)

    async def look(self, service: Service, caller: Caller) -> None:
        """Find out what the model is shown."""
        base = self._base()
        if self._episode is None:
            self._episode = await self._play(base, service, caller)
        episode = self._episode
        if not episode.waiting:
            raise ApiError(400, "there is no screenshot to act on: send one as computer_call_output", param="input")
        self._question = question = episode.question(self._dropped)
        session = base.live_session if base is not None and not self._alone else None
        new = question.since(base.state.question) if base is not None and session is not None else None
        self.continues, self.messages = (session, new) if new is not None else (None, question.messages)
        while self.truncates and _images(self.messages) > self._most_images and self.can_shorten:
            self._dropped += 1
            self._question = episode.question(self._dropped)
            self.continues, self.messages = None, self._question.messages

    def _base(self) -> Stored | None:
        """The last response that the model had a part in."""
        chain = self.previous.chain() if self.previous is not None else []
        return next((stored for stored in reversed(chain) if isinstance(stored.state, computer.Seat)), None)

    async def _play(self, base: Stored | None, service: Service, caller: Caller) -> computer.Episode:
        assert self.computer is not None and self.user is not None
        tool, must_act = self.computer, self.request.tool_choice == "required"
        display = None
        if tool.display_width is not None and tool.display_height is not None:
            display = (tool.display_width, tool.display_height)
        episode = self.user.begin(display, instructions=self.request.instructions or "", must_act=must_act)
        chain = self.previous.chain() if self.previous is not None else []
        items: list[Json] = []
        if base is not None:
            episode = base.state.episode.under(episode)
            chain = chain[chain.index(base) + 1 :]
        for stored in chain:  # calls that were made without the model are none of its doing
            made = [item for item in stored.body["output"] if item["type"] != "computer_call" or stored.by_model]
            items += [*stored.sent, *made]
        items += self.new
        if self.truncates:
            items = computer.recent(items, service.settings.images.max_per_request)
        return await computer.played(episode, items, service, caller)

    def replied(self, heard: ReplyPart) -> tuple[computer.Seat, list[Json]]:
        """What the model's reply means: for the next response, and for this one's output."""
        assert self.computer is not None and self._episode is not None and self._question is not None
        calls = [(call.name, call.arguments) for call in heard.tool_calls]
        episode, move = self._episode.replied(heard.content, calls)
        return computer.Seat(self.computer, episode, self._question), computer.items_of(self.computer, move)

    # ------------------------------------------------------------------------------------------------------ as a chat

    @property
    def in_session(self) -> bool:
        """In one of our own (`ResponseJob.begin_turn`); a reply that will not be continued needs none. The computer's
        user has one all the same: a model may be shown screens as changes, and that is for sessions only."""
        return self.stores or self.continues is not None or self.computer is not None

    def chat_request(self) -> ChatRequest:
        request, reasoning = self.request, self.request.reasoning
        logprobs = bool(request.top_logprobs) or "message.output_text.logprobs" in (request.include or ())
        effort = reasoning.effort if reasoning is not None else None
        chat: Json = {
            "model": request.model,
            "messages": self.messages,
            "session_open": self.in_session,
            "stream": request.stream,
            "max_completion_tokens": request.max_output_tokens,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "seed": request.seed,
            "top_k": request.top_k,
            "min_p": request.min_p,
            "ignore_eos": request.ignore_eos,
            "logprobs": logprobs,
            "top_logprobs": request.top_logprobs,
            "reasoning_effort": "xhigh" if effort == "max" else effort,
            "enable_thinking": request.asked_thinking(),
            "chat_template_kwargs": request.chat_template_kwargs,
        }
        if self.computer is not None:
            return ChatRequest.model_validate(chat | self._as_used_to(chat))
        chat |= {
            "tools": None if self.continues is not None else self.functions or None,
            "tool_choice": self._tool_choice(),
            "parallel_tool_calls": request.parallel_tool_calls,
            "response_format": self._format(),
        }
        return ChatRequest.model_validate(chat)

    def _as_used_to(self, chat: Json) -> Json:
        """As the model is sampled when it uses a computer, and what it may write."""
        user = self.user
        assert user is not None
        fields: Json = {
            "max_completion_tokens": chat["max_completion_tokens"] or user.max_tokens,
            "temperature": user.temperature if chat["temperature"] is None else chat["temperature"],
            "top_p": user.top_p if chat["top_p"] is None else chat["top_p"],
        }
        if user.thinking is not None and chat["reasoning_effort"] is None and chat["enable_thinking"] is None:
            fields["chat_template_kwargs"] = {"enable_thinking": user.thinking, **(chat["chat_template_kwargs"] or {})}
        output = self._question.output if self._question is not None else None
        if output is not None and output.tools:
            fields |= {"tools": list(output.tools), "tool_choice": "required", "parallel_tool_calls": False}
        elif output is not None and output.json_schema is not None:
            schema = {"name": "reply", "schema": output.json_schema}
            fields["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif output is not None and output.regex is not None:
            fields["response_format"] = {"type": "regex", "regex": output.regex}
        return fields

    def _tool_choice(self) -> Any:
        choice = self.request.tool_choice
        if choice == "none":
            return None  # there are none then
        if not isinstance(choice, ChosenTool):
            return choice
        if choice.type != "function" or choice.name is None:
            raise not_supported(f"tool_choice of type {choice.type!r}", "tool_choice")
        return {"type": "function", "function": {"name": choice.name}}

    def _format(self) -> Json | None:
        match self.request.text.format if self.request.text is not None else None:
            case None | PlainText():
                return None
            case JsonFormat() as given:
                return {"type": "json_object", "schema": given.schema_}
            case RegexFormat(regex=regex):
                return {"type": "regex", "regex": regex}
            case JsonSchema() as given:
                named = {"name": given.name, "schema": given.schema_, "strict": given.strict}
                return {"type": "json_schema", "json_schema": named}

    def echo(self) -> Json:
        """What a response says of its request."""
        request = self.request
        format = request.text.format if request.text is not None else None
        choice = request.tool_choice
        return {
            "instructions": request.instructions,
            "previous_response_id": request.previous_response_id,
            "store": self.stores,
            "tools": [tool.model_dump(exclude_none=True) for tool in request.tools or ()],
            "tool_choice": choice.model_dump(exclude_none=True) if isinstance(choice, ChosenTool) else choice or "auto",
            "parallel_tool_calls": request.parallel_tool_calls is not False,
            "text": {"format": format.model_dump(by_alias=True, exclude_none=True) if format else {"type": "text"}},
            "reasoning": {"effort": request.reasoning.effort if request.reasoning else None, "summary": None},
            "max_output_tokens": request.max_output_tokens,
            "max_tool_calls": request.max_tool_calls,
            "top_logprobs": request.top_logprobs or 0,
            "truncation": request.truncation or "disabled",
            "metadata": request.metadata or {},
            "user": request.user,
            "safety_identifier": request.safety_identifier,
            "prompt_cache_key": request.prompt_cache_key,
            "service_tier": "default",
        }


def _cuts(messages: Sequence[Json]) -> list[int]:
    """Where a conversation may begin when its beginning is dropped: with a user's message, or else with a reply; never
    between a call and its output."""
    start = 1 if messages and messages[0]["role"] == "system" else 0
    roles = [message["role"] for message in messages]
    users = [n for n in range(start + 1, len(roles)) if roles[n] == "user"]
    return users or [n for n in range(start + 1, len(roles)) if roles[n] == "assistant"]


def _images(messages: Sequence[Json]) -> int:
    contents = (message["content"] for message in messages if isinstance(message["content"], list))
    return sum(part["type"] == "image_url" for content in contents for part in content)
