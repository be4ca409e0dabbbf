"""Everything that can be set about the server, in one typed tree.

Four places, later ones win: the defaults below, a TOML file, the environment, flags.

    [server]                        HOLOTRON_SERVER__PORT=8001                 --server.port 8001
    port = 8001

`holotron serve --dry-run` prints the result and where each value came from. A key that does not exist is an error that
names its origin and the nearest key that does.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, IPvAnyNetwork, SecretStr, create_model

from holotron.engine import EngineConfig

if TYPE_CHECKING:
    from holotron.model.processor import Processor

MiB = 2**20


def _as_list(value: Any) -> Any:
    """Lists may be written with commas in the environment and in flags."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


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
    api_keys: Annotated[tuple[SecretStr, ...], BeforeValidator(_as_list)] = Field(
        default=(), description="none: open to all"
    )
    api_key_file: Path | None = Field(default=None, description="one key per line")
    max_body_bytes: int = Field(default=64 * MiB, ge=1024)
    request_seconds: float | None = Field(default=600.0, gt=0, description="after which a reply ends where it is")
    drain_seconds: float = Field(default=30.0, ge=0, description="for running requests to finish on SIGTERM")
    log_format: Literal["json", "text"] = "json"
    log_level: Literal["debug", "info", "warning", "error"] = "info"


class ImageSettings(Section):
    max_bytes: int = Field(default=32 * MiB, ge=1)
    max_pixels: int = Field(default=2**25, ge=1)
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
    images: ImageSettings = ImageSettings()
    sessions: SessionSettings = SessionSettings()
    reply: ReplySettings = ReplySettings()
    memory: MemorySettings = MemorySettings()
    engine: EngineSettings = EngineSettings()

    def api_keys(self) -> tuple[str, ...]:
        keys = [key.get_secret_value() for key in self.server.api_keys]
        if self.server.api_key_file is not None:
            keys += self.server.api_key_file.read_text().split()
        return tuple(keys)

    def engine_values(self) -> dict[str, Any]:
        """What was said about the engine, and nothing else."""
        values = {key: value for key, value in self.engine.model_dump().items() if value is not None}
        return values | {"session_ttl": self.sessions.ttl_seconds}
