"""Running the server: listen at once, load the model meanwhile, serve, drain on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import math
import os
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI

from holotron.addresses import in_url
from holotron.engine import Engine, EngineConfig, UnknownSession
from holotron.engine.plan import Planner
from holotron.engine.sizes import dtype_of
from holotron.errors import ConfigError, HolotronError
from holotron.model.bundled import bundled_folder
from holotron.model.config import ModelConfig
from holotron.model.loading import load_model, model_config, usable_device
from holotron.model.processor import ImageLimits, Processor, PromptLimits
from holotron.server import logs
from holotron.server.app import create_app
from holotron.server.connections import Connections, QuietAccept, connection_class
from holotron.server.door import Door
from holotron.server.responses.computer import ComputerUser
from holotron.server.service import Loaded, Service
from holotron.server.settings import Settings

log = logging.getLogger("holotron.server")

SWEEP_SECONDS = 5.0
CUT_SECONDS = 2.0  # for what was cut off to say so


def source_of(settings: Settings) -> tuple[str, str]:
    """What to load, and what clients call it."""
    source = settings.model.source or str(bundled_folder())
    return source, settings.model.name or (Path(source).resolve().name if Path(source).is_dir() else source)


def device_of(settings: Settings) -> torch.device:
    return usable_device(settings.model.device)


def engine_config(settings: Settings, model: ModelConfig, dtype: torch.dtype) -> EngineConfig:
    """The engine's settings, its pools sized for the device where nothing is said about them."""
    values = settings.engine_values()
    base = EngineConfig(**values)
    memory, device = settings.memory, device_of(settings)
    context = min(memory.context, model.decoder.max_positions, base.max_context or memory.context)
    planner = Planner(model, dtype, base)
    if memory.sessions is not None:
        sized = planner.sized(memory.sessions, context)
    elif device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
        sized = planner.fill(int(total * memory.fraction), context)
    else:
        return base
    return replace(sized, **values)


def planned_engine(settings: Settings) -> EngineConfig:
    """The engine's settings as they will be, from the model's configuration alone."""
    source, _ = source_of(settings)
    named = settings.model.dtype or ("bfloat16" if device_of(settings).type == "cuda" else "float32")
    return engine_config(settings, model_config(source), getattr(torch, named))


def load(settings: Settings, service: Service) -> Loaded:
    source, name = source_of(settings)
    dtype = getattr(torch, settings.model.dtype) if settings.model.dtype else None
    if settings.model.source is None:
        log.info("no model was named: serving the bundled small one")
    started = time.monotonic()
    narrow = dtype_of(settings.engine_values().get("weight_dtype"))
    model, processor = load_model(
        source, device=device_of(settings), dtype=dtype, weight_dtype=narrow, seed=settings.model.seed
    )
    config = engine_config(settings, model.config, model.dtype)
    engine = Engine(model, processor, config, on_step=service.metrics.step)
    _limit(processor, settings, engine.context_limit)
    fields = {"model": name, "device": str(model.device), "seconds": round(time.monotonic() - started, 3)}
    log.info("model loaded", extra={"fields": fields})
    return Loaded(engine, processor, name, settings.sessions.max_marks, settings.sessions.deltas)


def _limit(processor: Processor, settings: Settings, context: int) -> None:
    images = settings.images
    most = processor.images.max_tiles + 1 if processor.images is not None else 1
    # How long a prompt may be is for the engine to say: it knows what the session holds, and its error has a code.
    tokens = 2 * context + images.max_per_request * most * 4096
    processor.limits = PromptLimits(
        images.max_per_request, images.max_per_request * most, tokens, max_text_tokens=2 * context
    )
    processor.image_limits = ImageLimits(max_bytes=images.max_bytes, max_pixels=images.max_pixels)


class Server(uvicorn.Server):
    """On the first signal: no new work, running work finishes. On the second, or when time is up: stop."""

    def __init__(self, config: uvicorn.Config, service: Door) -> None:
        super().__init__(config)
        self._service = service
        self._deadline = 0.0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._service.stage == "draining" or self.should_exit:
            os._exit(128 + sig)  # at once: threads may be in the middle of something, and nothing here needs saving
        if self._service.stage != "ready":
            self.should_exit = True
            return
        self._service.stage = "draining"
        self._deadline = time.monotonic() + self._service.settings.server.drain_seconds

    async def on_tick(self, counter: int) -> bool:
        if self._service.stage == "draining":
            late = time.monotonic() - self._deadline
            if self._service.in_flight == 0 and (late > 0 or not self._service.to_be_moved):
                log.info("drained")
                return True
            if late > 0 and not self._service.cut.is_set():
                log.info("not everything finished in time")
                self._service.cut.set()  # what still runs ends with an error that says so
            if late > CUT_SECONDS:
                return True
        return await super().on_tick(counter) or self._service.stage == "failed"


async def _sweep(service: Service) -> None:
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        try:
            await tidy(service)
        except Exception:
            log.exception("the journal could not be looked through")


async def tidy(service: Service) -> None:
    """Logs of sessions that are over do not stay on the disk, nor here what another process has taken up from there."""
    journal, loaded = service.journal, service.loaded
    if journal is None or loaded is None:
        return
    for owner, id in await journal.taken_over():
        with contextlib.suppress(UnknownSession):
            if (served := loaded.sessions.get(owner, id)).held:
                continue
            log.warning("a session goes on in another process, which took this one for dead")
            await loaded.sessions.close(owner, served, moved=True)
        journal.forget(owner, id)
    await journal.sweep((owner, served.id) for owner, served in loaded.sessions.everybodys())


def listen(host: str, port: int) -> socket.socket:
    """Take the port before anything else: a model should not be loaded for a server that cannot listen."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        why = (error.strerror or str(error)).partition(" (while")[0]
        taken = error.errno == errno.EADDRINUSE
        remedy = "; choose another with --port, or 0 for any that is free" if taken else "; choose another --host"
        raise ConfigError(f"cannot listen on {host}:{port}: {why}{remedy}") from None


def warn_if_open(service: Door, address: str) -> None:
    if not service.keys and not service.settings.server.open and not ipaddress.ip_address(address).is_loopback:
        log.warning(
            "there are no API keys: whoever can reach this machine can use the model. "
            "Set server.api_key_file, or server.open = true if that is intended"
        )


def uvicorn_config(app: Any, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        http=connection_class(Connections(settings.connections)),
        ws="none",
        lifespan="on",
        loop="asyncio",  # whatever else is installed: uvloop is no faster here
        timeout_keep_alive=math.ceil(settings.connections.idle_seconds),
        timeout_graceful_shutdown=2,
    )


def serve(
    settings: Settings,
    agent: Mapping[str, Any] | None = None,
    computer: ComputerUser | None = None,
    on_listening: Callable[[int, Service], None] = lambda port, service: None,
) -> None:
    """Until a signal ends it. `agent` is announced with the model, `computer` answers the computer tool: see
    `create_app`. `on_listening` is told the port, and what will serve there."""
    # The event loop competes with the workers for Python's lock: let it have it ten times sooner than by default.
    sys.setswitchinterval(0.0005)
    logs.set_up(settings.server.log_format, settings.server.log_level)
    service = Service(settings)
    failure: list[BaseException] = []
    listener = listen(settings.server.host, settings.server.port)
    host, port = listener.getsockname()[:2]
    log.info("listening", extra={"fields": {"url": f"http://{in_url(host)}:{port}/v1", "port": port}})
    warn_if_open(service, host)
    on_listening(port, service)

    def come_up() -> None:
        try:
            service.become_ready(load(settings, service))
            log.info("ready")
        except BaseException as error:
            failure.append(error)
            service.stage = "failed"

    # A daemon, so that a signal ends the process even while it loads.
    loading = threading.Thread(target=come_up, name="holotron-loading", daemon=True)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_exception_handler(QuietAccept())
        loading.start()
        sweeping = asyncio.ensure_future(_sweep(service))
        yield
        sweeping.cancel()
        if service.loaded is not None:
            await asyncio.to_thread(service.loaded.engine.close)
        service.close()
        await service.fetcher.close()

    app = create_app(service, lifespan, agent=agent, computer=computer)
    Server(uvicorn_config(app, settings), service).run(sockets=[listener])
    if loading.is_alive():  # in the middle of torch, where Python would abort at its own end
        logging.shutdown()
        os._exit(0)
    if failure:
        raise failure[0] if isinstance(failure[0], HolotronError) else RuntimeError("loading failed") from failure[0]
