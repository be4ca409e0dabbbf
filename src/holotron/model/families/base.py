"""What everything else asks of a family. One subclass of `Family` per family, each in a file of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from holotron.errors import ConfigError

if TYPE_CHECKING:
    from holotron.model.config import ModelConfig
    from holotron.model.processor.tiling import ImageConfig


def nested_decoder(data: Mapping[str, Any]) -> Any:
    """Vision-language files keep their decoder's configuration under one of these names."""
    inner = (data.get(name) for name in ("llm_config", "text_config", "language_config"))
    return next((found for found in inner if found is not None), None)


class ImageTokens(NamedTuple):
    """What a tokenizer calls the token that stands for a piece of a picture, and the tags around a picture."""

    image: str = "<image>"
    start: str = "<img>"
    end: str = "</img>"


class Chat(NamedTuple):
    """How conversations are written."""

    template: str  # one of ours, for checkpoints that bring none; see `ChatTemplate.builtin`
    mark: str  # a token by which a tokenizer shows that it was made for this format
    end: str  # the token that ends a turn, also where no file says so


@dataclass(frozen=True, slots=True)
class AgentDefaults:
    """How a model wants to be run as an agent, as plain data: `holotron.agent.profiles` makes a profile of it."""

    names: str  # regular expression: what occurs in the (lower-case) names of these models
    dialect: str
    frame: str | None = None  # None: the dialect's own
    history: str = "window:3"
    # None: what the checkpoint's own generation_config.json and chat template say.
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None  # of one reply, its reasoning included
    thinking: bool | None = None
    source: str = ""  # where this is written


class Family:
    """One family of models. The defaults describe one that is known by name only: nothing of it can be loaded."""

    name: ClassVar[str] = ""  # under which it is registered
    model_types: ClassVar[tuple[str, ...]] = ()  # what `model_type` and `architectures` say in its config.json
    image_tokens: ClassVar[ImageTokens] = ImageTokens()
    image_ids: ClassVar[tuple[int, int, int]] = (131_072, 131_073, 131_074)  # theirs, where config.json does not say
    chat: ClassVar[Chat | None] = None
    # The repository whose Python files open it in other tools; empty: they know the family themselves.
    code: ClassVar[str] = ""
    agents: ClassVar[tuple[AgentDefaults, ...]] = ()
    # How its files hold experts where not one by one: all of a layer in one tensor, gates and inner projections side by
    # side, every matrix as we have it ("stacked") or turned over ("transposed").
    fused_experts: ClassVar[Literal["stacked", "transposed"] | None] = None
    # What other tools put before the same names: a regular expression for their beginning, and ours. `weights.spelling`
    # takes the first that fits; none may fit a name of ours.
    spellings: ClassVar[tuple[tuple[str, str], ...]] = ()
    # Of the tensors that have no parameter here: those that published files may carry all the same.
    ignored: ClassVar[re.Pattern[str]] = re.compile(r"(^|\.)rotary_emb\.inv_freq$")
    # Of these again: factors, which may be left out only where they are all one.
    neutral: ClassVar[re.Pattern[str] | None] = None

    def recognises(self, data: Mapping[str, Any]) -> bool:
        """Is this its config.json? At most one family may say so."""
        return False

    def read(self, data: Mapping[str, Any], where: str, preprocessor: Mapping[str, Any] | None = None) -> ModelConfig:
        """`config.json` to our configuration; a `ConfigError` names the file (`where`), the key and what is wrong.
        `preprocessor_config.json` may say of images what `config.json` does not."""
        raise ConfigError(f"{where}: {type(self).__name__} is a family of models that are only reached by URL")

    def images(self, data: Mapping[str, Any], preprocessor: Mapping[str, Any] | None = None) -> ImageConfig | None:
        """How pictures are cut, from the same files; None: this family sees none."""
        return None

    def write(self, config: ModelConfig) -> dict[str, Any]:
        """Our configuration to what `config.json` holds in the published form."""
        raise ConfigError(f"{type(self).__name__} is a family of models that are only reached by URL")

    def tensor_key(self, parameter: str) -> str:
        """What a checkpoint calls one of our parameters. The module tree is named after the published vision-language
        checkpoint of Nemotron, so there a tensor's key *is* its parameter's name."""
        return parameter
