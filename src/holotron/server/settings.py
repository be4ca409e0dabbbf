"""Everything that can be set about the server, in one typed tree.

Four places, later ones win: the defaults below, a TOML file, the environment, flags.

    [server]                        HOLOTRON_SERVER__PORT=8001                 --server.port 8001
    port = 8001

`holotron serve --dry-run` prints the result and where each value came from. A key that does not exist is an error that
names its origin and the nearest key that does.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, IPvAnyNetwork, SecretStr, create_model

from holotron.engine import EngineConfig

if TYPE_CHECKING:
    from holotron.model.processor import Processor

MiB = 2**20


def _as_list(value: Any) -> Any:
    """Lists may be written with commas, or as JSON, in the environment and in flags."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except ValueError as error:
            raise ValueError(f"a list that begins with [ must be JSON: {error}") from None
    return [part.strip() for part in value.split(",") if part.strip()]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelSettings(Section):
    source: str | None = Field(default=None, description="hub id, folder, or preset; none: the bundled small model")
    name: str | None = Field(default=None, description="what clients call it; none: the source")
    device: str | None = Field(default=None, description="cuda, cpu, ...; none: the GPU if there is one")
    dtype: Literal["float32", "bfloat16", "float16"] | None = Field(
        default=None, description="none: the checkpoint's own"
    )
    seed: int = Field(default=0, description="of random weights")


class ServerSettings(Section):
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535, description="0: any free one")
    api_keys: Annotated[tuple[SecretStr, ...] | None, BeforeValidator(_as_list)] = Field(
        default=None, description="who may use it; an empty list is an error unless `open` is said"
    )
    api_key_file: Path | None = Field(default=None, description="one key per line; # begins a comment line")
    open: bool = Field(default=False, description="serve whoever can reach it, without keys, and do not warn")
    metrics_key: SecretStr | None = Field(default=None, description="that /metrics wants; none: open to all")
    allowed_hosts: Annotated[tuple[str, ...], BeforeValidator(_as_list)] = Field(
        default=(), description="names it answers to without keys, besides addresses and names without a dot"
    )
    share_prefix_cache: bool = Field(default=False, description="between keys; they can then tell what others sent")
    max_body_bytes: int = Field(default=64 * MiB, ge=1024)
    max_buffered_bytes: int = Field(default=512 * MiB, ge=1024, description="of all requests being answered, together")
    request_seconds: float | None = Field(default=600.0, gt=0, description="after which a reply ends where it is")
    drain_seconds: float = Field(default=30.0, ge=0, description="for running requests to finish on SIGTERM")
    log_format: Literal["json", "text"] = "json"
    log_level: Literal["debug", "info", "warning", "error"] = "info"


class ConnectionSettings(Section):
    """One connection, and all of them."""

    max_open: int = Field(default=1024, ge=1, description="fewer, if the process may not open that many files")
    max_per_address: int | None = Field(default=512, ge=1, description="of one client address; none: as many as open")
    header_seconds: float = Field(default=10.0, gt=0, description="for a request's head to arrive")
    body_seconds: float = Field(default=30.0, gt=0, description="for its body, and a second more per 64 KiB")
    idle_seconds: float = Field(default=75.0, gt=0, description="between two requests")
    write_seconds: float = Field(default=30.0, gt=0, description="that a client may leave an answer unread")


class FleetSettings(Section):
    """One of several servers behind a router, which moves sessions between them."""

    key: SecretStr | None = Field(default=None, description="that the router shows; none: sessions cannot be moved")
    folder: Path = Field(default=Path("/dev/shm/holotron-fleet"), description="where moving sessions lie for a moment")
    journal: Path | None = Field(
        default=None,
        description="where logs of sessions are kept, for others to go on with if this one is killed",
    )
    journal_bytes: int = Field(default=16 * 1024 * MiB, ge=0, description="of these, for each replica; the oldest go")


class QuotaSettings(Section):
    """What one key may use. Without keys, everybody together is one."""

    requests_per_minute: int | None = Field(default=None, ge=1, description="none: any number")
    tokens_per_minute: int | None = Field(default=None, ge=1, description="of prompts and replies; none: any number")
    concurrent: int | None = Field(
        default=None, ge=1, description="requests at once; none: half of what can run and wait, all if there is one key"
    )
    sessions: int | None = Field(
        default=None, ge=1, description="open at once; none: half of engine.max_sessions, all if there is one key"
    )
    memory_bytes: int | None = Field(default=None, ge=1, description="that its sessions may hold; none: any number")


class LimitSettings(Section):
    """What one request may hold, besides the bytes of its body and the limits on images."""

    max_json_objects: int = Field(default=10_000, ge=16, description="objects and lists in a body")
    max_json_values: int = Field(default=500_000, ge=16, description="commas in a body, outside of texts")
    max_json_members: int = Field(default=50_000, ge=16, description="named values of all objects in a body")
    max_json_escapes: int = Field(default=1_000_000, ge=16, description="letters in a body written as escapes")
    max_messages: int = Field(default=4096, ge=1)
    max_tools: int = Field(default=256, ge=0)
    max_schema_bytes: int = Field(default=128 * 1024, ge=16, description="response_format, or one tool's parameters")
    workers: int = Field(
        default=2, ge=1, description="threads per kind of work before the engine: small, large, grammars"
    )


class ImageSettings(Section):
    max_bytes: int = Field(default=32 * MiB, ge=1)
    max_pixels: int = Field(default=2**25, ge=1)
    max_request_pixels: int = Field(default=2**27, ge=1, description="of all images of a request together")
    max_per_request: int = Field(default=64, ge=0)
    allow_remote: bool = Field(
        default=False, description="fetch http(s) addresses; private ones are refused all the same"
    )
    allowed_networks: Annotated[tuple[IPvAnyNetwork, ...], BeforeValidator(_as_list)] = Field(
        default=(), description="private networks that may be fetched from, such as 10.1.0.0/16"
    )
    fetch_seconds: float = Field(default=10.0, gt=0)


class SessionSettings(Section):
    ttl_seconds: float | None = Field(default=3600.0, gt=0, description="an unused session is closed; none: never")
    max_marks: int = Field(default=4, ge=0, description="snapshots per session; each holds a state row")
    deltas: int | None = Field(
        default=None,
        ge=0,
        le=255,
        description="tell screenshots in sessions as changes to the one before, with this tolerance; none: show all "
        "whole, unless the model's agent.json asks for deltas",
    )


class ResponseSettings(Section):
    """Stored responses (/v1/responses): what is kept of them, in memory. Of several keys, one may have half."""

    ttl_seconds: float | None = Field(default=86_400.0, gt=0, description="after which one is forgotten; none: never")
    max_stored: int = Field(default=10_000, ge=0, description="responses; the key's oldest go first")
    max_bytes: int = Field(default=1024 * MiB, ge=0, description="of their items, pictures included; likewise")
    sessions: int | None = Field(
        default=None,
        ge=1,
        description="of the engine, kept so that continuing computes only what is new; none: a quarter of "
        "engine.max_sessions",
    )


class ReplySettings(Section):
    max_tokens: int | None = Field(
        default=None, ge=1, description="when the request does not say; none: up to the context"
    )
    temperature: float | None = Field(
        default=None, ge=0, le=2, description="when the request does not say; none: the checkpoint's, else 1"
    )
    top_p: float | None = Field(default=None, gt=0, le=1, description="likewise; none: the checkpoint's, else 1")
    top_k: int | None = Field(default=None, ge=0, description="likewise; none: the checkpoint's, else 0 (off)")
    min_p: float | None = Field(default=None, ge=0, le=1, description="likewise; none: the checkpoint's, else 0")
    repetition_penalty: float | None = Field(
        default=None, gt=0, le=10, description="likewise; none: the checkpoint's, else 1 (off)"
    )
    thinking: bool | None = Field(
        default=None, description="reason before replying, when the request does not say; none: the template's default"
    )
    max_choices: int = Field(default=64, ge=1, description="largest n")

    def filled(self, processor: Processor) -> ReplySettings:
        """What is not set here, as the checkpoint has it: `generation_config.json` and the chat template."""
        known = {**asdict(processor.sampling), "thinking": processor.template.thinks_by_default}
        return self.model_copy(update={name: value for name, value in known.items() if getattr(self, name) is None})


class MemorySettings(Section):
    """How the pools are sized where `engine` does not say."""

    sessions: int | None = Field(
        default=None, ge=1, description="on the device at once; none: as many as fit (GPU), 64 (CPU)"
    )
    context: int = Field(
        default=16_384, ge=64, description="tokens per session the pools are sized for; one may have more"
    )
    fraction: float = Field(default=0.92, gt=0, le=1, description="of the GPU's memory to plan with")


if TYPE_CHECKING:  # what `_engine_section` makes, as far as a type checker needs to know

    class EngineSettings(Section):
        pass

else:

    def _engine_section() -> type[Section]:
        hints = get_type_hints(EngineConfig)
        names = [field.name for field in fields(EngineConfig) if field.name != "session_ttl"]  # sessions.ttl_seconds
        optional = {name: (hints[name] | None, None) for name in names}
        return create_model("EngineSettings", __base__=Section, **optional)

    EngineSettings = _engine_section()  # the engine's own fields; none: its default, or what `memory` works out


class Settings(Section):
    model: ModelSettings = ModelSettings()
    server: ServerSettings = ServerSettings()
    connections: ConnectionSettings = ConnectionSettings()
    quota: QuotaSettings = QuotaSettings()
    fleet: FleetSettings = FleetSettings()
    limits: LimitSettings = LimitSettings()
    images: ImageSettings = ImageSettings()
    sessions: SessionSettings = SessionSettings()
    responses: ResponseSettings = ResponseSettings()
    reply: ReplySettings = ReplySettings()
    memory: MemorySettings = MemorySettings()
    engine: EngineSettings = EngineSettings()

    def engine_values(self) -> dict[str, Any]:
        """What was said about the engine, and nothing else."""
        values = {key: value for key, value in self.engine.model_dump().items() if value is not None}
        return values | {"session_ttl": self.sessions.ttl_seconds}
