"""POST /v1/completions: text or token ids, continued. In a session the prompt is appended to the log as it is."""

from __future__ import annotations

from holotron.server.constraints import grammar_for
from holotron.server.errors import ApiError
from holotron.server.generating import GenerationJob, Prepared
from holotron.server.replies import TextChoice
from holotron.server.served import ServedSession
from holotron.server.service import Caller, Service
from holotron.server.wire import CompletionRequest


class TextJob(GenerationJob[CompletionRequest]):
    kind = "text"
    id_prefix = "cmpl"
    object_name = chunk_name = "text_completion"

    def __init__(self, service: Service, request: CompletionRequest, caller: Caller) -> None:
        self.prompts = _prompts(request)
        super().__init__(service, request, caller, len(self.prompts))

    def prepare(self, session: ServedSession | None) -> list[Prepared]:
        """Control tokens written in a text count as such: whoever comes here writes the frame himself."""
        processor = self.loaded.processor
        grammar = grammar_for(
            self.request.response_format,
            [],
            None,
            parallel=False,
            template=processor.template,
            thinking=False,
            opens_reasoning=False,
        )
        prompts = [
            processor.encode_text(prompt, control_tokens=True) if isinstance(prompt, str) else prompt
            for prompt in self.prompts
        ]
        if session is None or (prompts[0] and not session.awaits_reply):
            return [Prepared(prompt, grammar) for prompt in prompts]
        if prompts[0]:
            raise ApiError(400, "the session has a prompt without a reply: send an empty one to get it")
        if not session.awaits_reply:
            raise ApiError(400, "the prompt is empty: there is nothing to continue", param="prompt")
        return [Prepared(None, grammar)]

    def choice(self, index: int, prepared: Prepared) -> TextChoice:
        return TextChoice(
            index,
            self.loaded.processor.tokenizer,
            logprobs=self.request.logprobs is not None,
            token_ids=bool(self.request.return_token_ids),
        )


def _prompts(request: CompletionRequest) -> list[str | list[int]]:
    prompt = request.prompt
    if isinstance(prompt, str) or not prompt or isinstance(prompt[0], int):
        return [prompt]  # type: ignore[list-item]
    return list(prompt)
