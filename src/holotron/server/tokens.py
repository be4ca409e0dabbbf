"""/tokenize and /detokenize, as vLLM has them: what a text or a conversation is in tokens, and back.

POST /tokenize    {"prompt": "Hello"}                              as /v1/completions would read it
POST /tokenize    {"messages": [...], "tools": [...]}              as /v1/chat/completions would, pictures included
POST /detokenize  {"tokens": [72, 105]}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field

from holotron.errors import InputError
from holotron.model.processor import Transcript
from holotron.server.bodies import body_of
from holotron.server.limits import check_chat, letters, prompt_texts
from holotron.server.openapi import takes
from holotron.server.parameters import plain_messages, plain_tools, rendering_of
from holotron.server.running import while_connected
from holotron.server.service import Service
from holotron.server.tokenising import PIECE
from holotron.server.wire import DetokenizeRequest, TokenizeRequest

T = TypeVar("T")
router = APIRouter(tags=["tokens"])


class Tokenized(BaseModel):
    count: int
    max_model_len: int = Field(description="tokens that fit, prompt and reply together")
    tokens: list[int]
    token_strs: list[str] | None = None


class Detokenized(BaseModel):
    prompt: str


@router.post("/tokenize", openapi_extra=takes(TokenizeRequest), response_model=Tokenized)
async def tokenize(
    http: Request, request: Annotated[TokenizeRequest, Depends(body_of(TokenizeRequest))]
) -> dict[str, Any]:
    service: Service = http.app.state.service
    loaded, caller = service.serving(request.model), service.caller(http)
    processor, messages = loaded.processor, list[dict[str, Any]]()
    how = rendering_of(request.chat_template_kwargs, request.reasoning_effort, thinking=service.settings.reply.thinking)
    if request.messages is not None:
        check_chat(service.settings.limits, request.messages, request.tools)
        messages = plain_messages(request.messages)
        await while_connected(http, service.cut_pictures(messages, caller))
    size = letters(request.messages) if request.messages is not None else len(request.prompt or "")

    def work() -> dict[str, Any]:
        if request.messages is None:
            loaded.gauge.check([request.prompt or ""])
            ids = processor.encode_text(request.prompt or "", control_tokens=True)
        else:
            loaded.gauge.check(prompt_texts(request.messages)[0])
            prompt = Transcript().next(processor, messages, plain_tools(request.tools), how.thinking, **how.variables)
            ids = prompt.ids
        counted = {"count": len(ids), "max_model_len": loaded.engine.context_limit, "tokens": ids}
        if request.return_token_strs:
            counted["token_strs"] = [processor.tokenizer.bytes_of(token).decode(errors="replace") for token in ids]
        return counted

    return await _on_worker(http, service, work, size > PIECE)


@router.post("/detokenize", openapi_extra=takes(DetokenizeRequest), response_model=Detokenized)
async def detokenize(
    http: Request, request: Annotated[DetokenizeRequest, Depends(body_of(DetokenizeRequest))]
) -> dict[str, Any]:
    service: Service = http.app.state.service
    tokenizer = service.serving(request.model).processor.tokenizer

    def work() -> dict[str, Any]:
        if (greatest := max(request.tokens, default=0)) >= tokenizer.vocab_size:
            raise InputError(f"{greatest} is not a token id: they go from 0 to {tokenizer.vocab_size - 1}")
        return {"prompt": b"".join(map(tokenizer.bytes_of, request.tokens)).decode(errors="replace")}

    return await _on_worker(http, service, work, len(request.tokens) > PIECE)


async def _on_worker(http: Request, service: Service, work: Callable[[], T], large: bool) -> T:
    turn = service.caller(http).turn
    return await while_connected(http, service.workers.run(turn, work, "large" if large else "small"))
