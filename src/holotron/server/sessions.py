"""/v1/sessions: open, look at, extend, fork, rewind, compact, close. The extension's REST side; see docs/server.md."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from holotron.engine.api import UnknownSession
from holotron.server.asks import plain_messages, plain_tools, rendering_of
from holotron.server.bodies import body_of
from holotron.server.conversations import Conversation
from holotron.server.errors import ApiError
from holotron.server.openapi import takes
from holotron.server.replies import Json
from holotron.server.service import Loaded, Service
from holotron.server.turns import SessionTurn, check_new_messages
from holotron.server.wire import AppendToSession, CompactSession, ForkSession, OpenSession, RewindSession

VERSION = 1

router = APIRouter(prefix="/v1/sessions", tags=["sessions"])


def _find(http: Request, session_id: str) -> tuple[Service, Loaded, Conversation]:
    service: Service = http.app.state.service
    loaded = service.serving()
    return service, loaded, loaded.conversations.get(http.scope["owner"], session_id)


@router.post("", openapi_extra=takes(OpenSession, required=False))
async def open_session(
    http: Request, request: Annotated[OpenSession, Depends(body_of(OpenSession, optional=True))]
) -> Json:
    loaded = http.app.state.service.serving()
    conversation = await loaded.conversations.open(http.scope["owner"], request.id)
    return conversation.describe()


@router.get("")
async def list_sessions(http: Request) -> Json:
    conversations = http.app.state.service.serving().conversations.all(http.scope["owner"])
    return {"object": "list", "data": [conversation.describe() for conversation in conversations]}


@router.get("/{session_id}")
async def get_session(http: Request, session_id: str) -> Json:
    _, _, conversation = _find(http, session_id)
    try:
        info = await conversation.handle.info()
    except UnknownSession:  # expired this very moment
        raise UnknownSession(f"there is no session {session_id!r} any more") from None
    turns = [
        {"start": turn.start, "prompt_end": turn.prompt, "end": turn.end, "marked": turn.mark is not None}
        for turn in conversation.turns
    ]
    return conversation.describe() | {
        "computed_tokens": info.computed,
        "bytes": info.bytes,
        "busy": conversation.held,
        "versions": [info.oldest_version, info.newest_version],
        "turn_positions": turns,
    }


@router.delete("/{session_id}")
async def close_session(http: Request, session_id: str) -> Json:
    _, loaded, conversation = _find(http, session_id)
    await loaded.conversations.close(http.scope["owner"], conversation)
    return {"id": session_id, "object": "session.deleted", "deleted": True}


@router.post("/{session_id}/append", openapi_extra=takes(AppendToSession))
async def append_to_session(
    http: Request, session_id: str, request: Annotated[AppendToSession, Depends(body_of(AppendToSession))]
) -> Json:
    """Add the prompt of the next turn without generating its reply."""
    service, loaded, conversation = _find(http, session_id)
    how = rendering_of(request.chat_template_kwargs, request.reasoning_effort, thinking=service.settings.reply.thinking)
    messages = await service.with_images(plain_messages(request.messages))
    conversation.hold()
    turn = SessionTurn(
        loaded.conversations, http.scope["owner"], conversation, False, service.settings.sessions.max_marks
    )
    try:
        conversation.of_kind("chat")
        tools = plain_tools(request.tools)
        check_new_messages(conversation, messages, tools)
        tools = tools if not conversation.turns else conversation.tools

        def prepare() -> Any:
            if conversation.turns:
                prompt = loaded.processor.bridge(messages, conversation.tail, tools, how.thinking, **how.variables)
            else:
                prompt = loaded.processor.render(messages, tools, how.thinking, **how.variables)
            return loaded.engine.prepare(prompt), prompt.opens_reasoning

        content, opens_reasoning = await service.on_worker(prepare)
        await turn.add_prompt(
            content, "chat", opens_reasoning=opens_reasoning, thinking=how.thinking, mark=request.mark
        )
        conversation.tools = tools
    except BaseException:
        await turn.undo()
        raise
    turn.keep_prompt()
    return conversation.describe()


@router.post("/{session_id}/fork", openapi_extra=takes(ForkSession, required=False))
async def fork_session(
    http: Request, session_id: str, request: Annotated[ForkSession, Depends(body_of(ForkSession, optional=True))]
) -> Json:
    _, loaded, conversation = _find(http, session_id)
    ids: list[str | None] = [*request.ids] if request.ids is not None else [None] * request.n
    forks = await loaded.conversations.fork(http.scope["owner"], conversation, ids)
    return {"object": "list", "data": [fork.describe() for fork in forks]}


@router.post("/{session_id}/rewind", openapi_extra=takes(RewindSession))
async def rewind_session(
    http: Request, session_id: str, request: Annotated[RewindSession, Depends(body_of(RewindSession))]
) -> Json:
    _, _, conversation = _find(http, session_id)
    async with conversation.holding():
        await conversation.rewind(request.to)
    return conversation.describe()


@router.post("/{session_id}/compact", openapi_extra=takes(CompactSession))
async def compact_session(
    http: Request, session_id: str, request: Annotated[CompactSession, Depends(body_of(CompactSession))]
) -> Json:
    """Forget the turns between the first and the last ones. What follows the first is computed again when needed."""
    service, loaded, conversation = _find(http, session_id)
    first, last = request.keep_first, request.keep_last
    async with conversation.holding():
        if conversation.kind == "text":
            raise ApiError(400, "only chat sessions have turns that can be left out")
        if first + last < len(conversation.turns):
            if last == 0:
                await conversation.rewind(first)
            else:
                before, after = conversation.turns[first - 1].tail, conversation.turns[-last - 1].tail
                closing, skip = await service.on_worker(lambda: _seam(loaded, before, after))
                await conversation.compact(first, last, closing, skip)
    return conversation.describe()


def _seam(loaded: Loaded, before: tuple[int, ...], after: tuple[int, ...]) -> tuple[list[int], int]:
    """What a turn that followed one reply needs in order to follow another: both bridges end alike, and differ only in
    how much of the reply's closing was left to write."""
    probe = [{"role": "user", "content": ""}]
    wanted, there = (loaded.processor.bridge(probe, tail).ids for tail in (before, after))
    extra = len(wanted) - len(there)
    return wanted[: max(0, extra)], max(0, -extra)
