"""The application: routes, and how errors become answers.

service = Service(settings)
app = create_app(service)
service.become_ready(Loaded(engine, processor, "holotron-12b"))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match

from holotron import __version__
from holotron.errors import HolotronError
from holotron.server import manual, table, tokens
from holotron.server.access import Access
from holotron.server.bodies import body_of
from holotron.server.chat import ChatJob
from holotron.server.completions import TextJob
from holotron.server.errors import ApiError, invalid, translated
from holotron.server.generating import answer
from holotron.server.middleware import RequestContext
from holotron.server.missing import not_found
from holotron.server.openapi import document, takes
from holotron.server.replica import add_fleet_routes
from holotron.server.replies import Json
from holotron.server.responses.computer import ComputerUser
from holotron.server.responses.routes import router as responses_router
from holotron.server.service import Service
from holotron.server.sessions import VERSION, router
from holotron.server.wire import ChatRequest, CompletionRequest, ModelList, ModelObject

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def create_app(
    service: Service,
    lifespan: Lifespan | None = None,
    *,
    agent: Mapping[str, Any] | None = None,
    computer: ComputerUser | None = None,
) -> FastAPI:
    """`agent`: what the model wants from whoever drives it as an agent (plain JSON: dialect, frame, history, views,
    sampling defaults). It is announced with the model; the server itself makes no use of it. `computer`: how the model
    answers the Responses API's computer tool."""
    app = FastAPI(
        title="holotron",
        version=__version__,
        description="OpenAI-compatible API with sessions.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.service = service
    app.state.computer = computer
    app.openapi = lambda: document(app)  # type: ignore[method-assign]
    fleet = service.settings.fleet
    fleet_key = fleet.key.get_secret_value() if fleet.key is not None else None
    app.add_middleware(
        Access, settings=service.settings.server, keys=service.keys, quotas=service.quotas, fleet_key=fleet_key
    )
    app.add_middleware(RequestContext, service=service)  # added last, so outermost
    app.add_exception_handler(ApiError, _answer)
    app.add_exception_handler(HolotronError, _answer)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    _add_routes(app, service, agent)
    app.include_router(responses_router)
    app.include_router(router)
    if fleet_key is not None:
        add_fleet_routes(app, fleet_key, fleet.folder)
    return app


def _add_routes(app: FastAPI, service: Service, agent: Mapping[str, Any] | None) -> None:
    streams: dict[int | str, dict[str, Any]] = {
        200: {"description": "The reply; with `stream`, as events", "content": {"text/event-stream": {}}}
    }

    @app.post("/v1/chat/completions", openapi_extra=takes(ChatRequest), responses=streams, tags=["openai"])
    async def chat(http: Request, request: Annotated[ChatRequest, Depends(body_of(ChatRequest))]) -> Response:
        return await answer(ChatJob(service, request, service.caller(http)), http)

    @app.post("/v1/completions", openapi_extra=takes(CompletionRequest), responses=streams, tags=["openai"])
    async def complete(
        http: Request, request: Annotated[CompletionRequest, Depends(body_of(CompletionRequest))]
    ) -> Response:
        return await answer(TextJob(service, request, service.caller(http)), http)

    @app.get("/v1/models", tags=["openai"], response_model=ModelList, response_model_exclude_unset=True)
    async def models() -> Json:
        return {"object": "list", "data": [_model(service, agent)]}

    @app.get("/v1/models/{model:path}", tags=["openai"], response_model=ModelObject, response_model_exclude_unset=True)
    async def model(model: str) -> Json:
        service.serving(model)
        return _model(service, agent)

    @app.get("/health", tags=["operation"])
    @app.get("/health/ready", tags=["operation"])
    async def ready() -> Response:
        return JSONResponse({"status": service.stage}, 200 if service.stage == "ready" else 503)

    @app.get("/health/live", tags=["operation"])
    async def live() -> Json:
        return {"status": "alive"}

    app.include_router(tokens.router)
    app.include_router(table.router)

    @app.get("/version", tags=["operation"])
    async def version() -> Json:
        return {"version": __version__}

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(manual.page(document(app)), headers=manual.HEADERS)

    @app.get("/metrics", tags=["operation"], response_class=PlainTextResponse)
    async def metrics() -> Response:
        stats = await service.loaded.engine.aio.stats() if service.loaded is not None else None
        return Response(service.metrics.text(stats), media_type="text/plain; version=0.0.4; charset=utf-8")


def _model(service: Service, agent: Mapping[str, Any] | None) -> Json:
    loaded = service.serving()
    text = loaded.engine.model.config.text_tokens
    announced = {"agent": dict(agent)} if agent is not None else {}
    return announced | {
        "id": loaded.name,
        "object": "model",
        "created": service.created,
        "owned_by": "holotron",
        "max_model_len": loaded.engine.context_limit,
        "text_tokens": [text.start, text.stop],
        "capabilities": {
            "sessions": {"version": VERSION, "fork": True, "rewind": True, "compact": True},
            "images": loaded.sees,
            "remote_images": loaded.sees and service.settings.images.allow_remote,
            "response_formats": ["text", "json_object", "json_schema", "regex"],
        },
    }


async def _answer(http: Request, error: Exception) -> Response:
    answer = translated(error)
    if answer.status == 500:
        raise error  # to be logged where everything unexpected is
    return JSONResponse(answer.body(), answer.status, answer.headers())


async def _invalid(http: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return await _answer(http, invalid(error.errors()))


async def _http(http: Request, error: Any) -> Response:
    """Starlette's own: no such route, wrong method."""
    method, path = http.method, http.url.path

    def match(**asked: str) -> Match:
        return max((route.matches({**http.scope, **asked})[0] for route in http.app.routes), key=lambda one: one.value)

    if error.status_code == 404:
        return await _answer(http, not_found(method, path, lambda near: match(path=near) is not Match.NONE))
    answer = ApiError(error.status_code, f"{method} {path}: {error.detail}")
    # Starlette's own list has the methods of one route; several may share an address.
    methods = [one for one in ("DELETE", "GET", "PATCH", "POST", "PUT") if match(method=one) is Match.FULL]
    allow = ", ".join([*methods, *(["HEAD"] if "GET" in methods else [])])
    return JSONResponse(answer.body(), answer.status, {"allow": allow} if error.status_code == 405 else error.headers)
