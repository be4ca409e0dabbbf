"""/v1/sessions: open, look at, extend, fork, rewind, compact, close. The extension's REST side; see docs/server.md."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from holotron.engine import UnknownSession
from holotron.model.processor.continuation import seam
from holotron.server import routed
from holotron.server.bodies import body_of
from holotron.server.errors import ApiError
from holotron.server.limits import check_chat, letters, prompt_texts
from holotron.server.openapi import takes
from holotron.server.parameters import plain_messages, plain_tools, rendering_of
from holotron.server.replies import Json
from holotron.server.running import unbroken, while_connected
from holotron.server.served import ServedSession
from holotron.server.service import Loaded, Service
from holotron.server.tokenising import PIECE
from holotron.server.turns import TurnTransaction, check_new_messages
from holotron.server.wire import AppendToSession, CompactSession, ForkSession, OpenSession, RewindSession
from holotron.server.workers import Lane

VERSION = 1

router = APIRouter(prefix="/v1/sessions", tags=["sessions"])


def _find(http: Request, session_id: str) -> tuple[Service, Loaded, ServedSession]:
    service: Service = http.app.state.service
    loaded = service.serving()
    return service, loaded, loaded.sessions.get(http.scope["owner"], session_id)


@router.post("", openapi_extra=takes(OpenSession, required=False))
async def open_session(
    http: Request, response: Response, request: Annotated[OpenSession, Depends(body_of(OpenSession, optional=True))]
) -> Json:
    service: Service = http.app.state.service
    loaded, caller = service.serving(), service.caller(http)
    await loaded.sessions.check_memory(caller.owner)
    session = await unbroken(loaded.sessions.open(caller.owner, request.id, caller.scope))
    session.answered(0, made=True)
    await loaded.sessions.saved(caller.owner, session)
    response.headers.update({routed.SESSION: session.id} if "routed" in http.scope else {})
    return session.describe()


@router.get("")
async def list_sessions(http: Request) -> Json:
    sessions = http.app.state.service.serving().sessions.all(http.scope["owner"])
    return {"object": "list", "data": [session.describe() for session in sessions]}


@router.get("/{session_id}")
async def get_session(http: Request, session_id: str) -> Json:
    _, _, session = _find(http, session_id)
    try:
        info = await session.engine_session.info()
    except UnknownSession:  # expired this very moment
        raise UnknownSession(f"there is no session {session_id!r} any more") from None
    turns = [
        {"start": turn.start, "prompt_end": turn.prompt, "end": turn.end, "marked": turn.mark is not None}
        for turn in session.turns
    ]
    return session.describe() | {
        "computed_tokens": info.computed,
        "bytes": info.bytes,
        "busy": session.held,
        "versions": [info.oldest_version, info.newest_version],
        "turn_positions": turns,
    }


@router.delete("/{session_id}")
async def close_session(http: Request, session_id: str) -> Json:
    _, loaded, session = _find(http, session_id)
    session.check_here()
    await loaded.sessions.close(http.scope["owner"], session)
    return {"id": session_id, "object": "session.deleted", "deleted": True}


@router.post("/{session_id}/append", openapi_extra=takes(AppendToSession))
async def append_to_session(
    http: Request, session_id: str, request: Annotated[AppendToSession, Depends(body_of(AppendToSession))]
) -> Json:
    """Add the prompt of the next turn without generating its reply."""
    service, loaded, session = _find(http, session_id)
    caller = service.caller(http)
    check_chat(service.settings.limits, request.messages, request.tools)
    how = rendering_of(request.chat_template_kwargs, request.reasoning_effort, thinking=service.settings.reply.thinking)

    async def work() -> None:
        await loaded.sessions.check_memory(caller.owner)
        lane: Lane = "small" if letters(request.messages) <= PIECE else "large"
        await service.workers.run(caller.turn, lambda: loaded.gauge.check(prompt_texts(request.messages)[0]), lane)
        messages = plain_messages(request.messages)
        pictures = await service.cut_pictures(messages, caller)
        session.hold()
        turn = TurnTransaction(loaded.sessions, caller.owner, session, False, len(session.turns))
        try:
            session.of_kind("chat")
            tools = plain_tools(request.tools)
            check_new_messages(session, messages, tools)
            tools = tools if not session.turns else session.tools
            prompt = await service.workers.run(
                caller.turn,
                lambda: session.said.next(loaded.processor, messages, tools, how.thinking, **how.variables),
                lane,
            )
            await unbroken(session.add_prompt(prompt, "chat", thinking=how.thinking, mark=request.mark))
            service.quotas.used(caller.owner, len(prompt.ids))
            session.tools = tools
        except BaseException:
            await turn.undo()
            raise
        turn.keep_prompt()
        await loaded.sessions.saved(caller.owner, session, pictures)

    with service.quotas.admitted(caller.owner):
        await while_connected(http, work())
    return session.describe()


@router.post("/{session_id}/fork", openapi_extra=takes(ForkSession, required=False))
async def fork_session(
    http: Request, session_id: str, request: Annotated[ForkSession, Depends(body_of(ForkSession, optional=True))]
) -> Json:
    _, loaded, session = _find(http, session_id)
    ids: list[str | None] = [*request.ids] if request.ids is not None else [None] * request.n
    await loaded.sessions.check_memory(http.scope["owner"])
    forks = await unbroken(loaded.sessions.fork(http.scope["owner"], session, ids))
    for fork in forks:
        await loaded.sessions.saved(http.scope["owner"], fork)
    return {"object": "list", "data": [fork.describe() for fork in forks]}


@router.post("/{session_id}/rewind", openapi_extra=takes(RewindSession))
async def rewind_session(
    http: Request, session_id: str, request: Annotated[RewindSession, Depends(body_of(RewindSession))]
) -> Json:
    _, loaded, session = _find(http, session_id)
    async with session.holding():
        await unbroken(session.rewind(request.to))
    await loaded.sessions.saved(http.scope["owner"], session)
    return session.describe()


@router.post("/{session_id}/move")
async def move_session(http: Request, session_id: str) -> Json:
    """To another replica. The entrance of a fleet does that; one server alone has nowhere to move it to."""
    _find(http, session_id)
    raise ApiError(400, "this is one server alone: there is no other to move a session to", code="not_supported")


@router.post("/{session_id}/compact", openapi_extra=takes(CompactSession))
async def compact_session(
    http: Request, session_id: str, request: Annotated[CompactSession, Depends(body_of(CompactSession))]
) -> Json:
    """Forget the turns between the first and the last ones. What follows the first is computed again when needed."""
    service, loaded, session = _find(http, session_id)
    first, last = request.keep_first, request.keep_last
    async with session.holding():
        if session.kind == "text":
            raise ApiError(400, "only chat sessions have turns that can be left out")
        if session.begins.deltas is not None and last:
            raise ApiError(400, "here screenshots are told as changes to earlier ones, which cannot be left out")
        if first + last < len(session.turns):
            if last == 0:
                await session.rewind(first)
            else:
                before, left = session.turns[first - 1].said, session.turns[-last - 1].said
                closing, skip = await service.workers.run(
                    service.caller(http).turn, lambda: seam(loaded.processor, before, left)
                )
                await unbroken(session.compact(first, last, closing, skip))
    await loaded.sessions.saved(http.scope["owner"], session)
    return session.describe()
