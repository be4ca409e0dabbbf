"""POST /v1/chat/completions: a conversation, whole or continued in a session, to a reply."""

from __future__ import annotations

from holotron.model.processor import Transcript
from holotron.server.constraints import grammar_for
from holotron.server.generating import GenerationJob, Prepared
from holotron.server.limits import check_chat
from holotron.server.parameters import plain_messages, plain_tools, rendering_of
from holotron.server.replies import ChatChoice, Json
from holotron.server.served import ServedSession
from holotron.server.service import Caller, Service
from holotron.server.turns import check_new_messages
from holotron.server.wire import ChatRequest, Tool


class ChatJob(GenerationJob[ChatRequest]):
    kind = "chat"
    id_prefix = "chatcmpl"
    object_name = "chat.completion"
    chunk_name = "chat.completion.chunk"

    def __init__(self, service: Service, request: ChatRequest, caller: Caller) -> None:
        super().__init__(service, request, caller)
        check_chat(service.settings.limits, request.messages, request.tools)
        self.rendering = rendering_of(
            request.chat_template_kwargs,
            request.reasoning_effort,
            thinking=service.settings.reply.thinking,
            asked=request.asked_thinking(),
        )
        self.tools: list[Tool] = [] if request.tool_choice == "none" else request.tools or []
        self.messages: list[Json] = []

    async def fetch(self) -> None:
        self.messages = plain_messages(self.request.messages)
        self.pictures = await self.service.cut_pictures(self.messages, self.caller)

    def prepare(self, session: ServedSession | None) -> list[Prepared]:
        processor, how, said = self.loaded.processor, self.rendering, Transcript()
        tools, thinking = plain_tools(self.tools), how.thinking
        if session is not None:
            check_new_messages(session, self.messages, tools)
            tools, said = session.tools if session.turns else tools, session.said
        if session is not None and session.awaits_reply:
            last = session.turns[-1]
            prompt, opens_reasoning, thinking = None, last.opens_reasoning, last.thinking
        else:
            prompt = said.next(processor, self.messages, tools, thinking, **how.variables)
            opens_reasoning = prompt.opens_reasoning
        grammar = grammar_for(
            self.request.response_format,
            self.tools or [Tool.model_validate(tool) for tool in tools or ()],
            self.request.tool_choice,
            parallel=self.request.parallel_tool_calls is not False,
            template=processor.template,
            thinking=thinking,
            opens_reasoning=opens_reasoning,
        )
        return [Prepared(prompt, grammar, opens_reasoning, thinking, tools)]

    def choice(self, index: int, prepared: Prepared) -> ChatChoice:
        return ChatChoice(
            index,
            self.loaded.processor.tokenizer,
            opens_reasoning=prepared.opens_reasoning,
            tools=prepared.tools if self.request.tool_choice != "none" else None,
            bound=prepared.grammar is not None,
            logprobs=bool(self.request.logprobs),
            token_ids=bool(self.request.return_token_ids),
        )

    def end(self) -> Json:
        """And the ids that were appended, for who asked."""
        if not self.request.return_token_ids:
            return super().end()
        (one,) = self.prepared
        return super().end() | {"prompt_token_ids": list(one.ids)}
