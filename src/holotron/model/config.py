"""What a model is, in plain frozen dataclasses. Reading and writing Hugging Face's `config.json` is in
`families`.

A decoder is a string of letters, one mixer per layer, each wrapped in a norm and a residual connection:

    M   Mamba-2            -   MLP            *   attention            E   mixture of experts
    G   Gated DeltaNet

These are the letters of Megatron's hybrid models. Holotron-12B is `M-M-M-M*-M-M-M-M*-...`; a plain transformer layer is
two letters, `*-`; Qwen3.5 is `G-G-G-*-...`, or `GEGEGE*E...` with experts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from holotron.errors import ConfigError
from holotron.model.processor.tiling import ImageConfig


@dataclass(frozen=True)
class MambaConfig:
    heads: int
    head_dim: int
    state: int
    groups: int
    kernel: int = 4
    conv_bias: bool = True
    chunk: int = 128

    @property
    def inner(self) -> int:
        return self.heads * self.head_dim

    @property
    def conv_channels(self) -> int:
        return self.inner + 2 * self.groups * self.state

    @property
    def projected(self) -> int:
        """Outputs of `in_proj`: gate, convolved channels, one step size per head."""
        return self.inner + self.conv_channels + self.heads


@dataclass(frozen=True)
class DeltaConfig:
    """Gated DeltaNet. Value heads are a multiple of key heads: neighbours share one."""

    key_heads: int
    value_heads: int
    key_dim: int  # of one head
    value_dim: int
    kernel: int = 4
    chunk: int = 64

    @property
    def keys(self) -> int:
        """Channels of all keys together, and of all queries."""
        return self.key_heads * self.key_dim

    @property
    def inner(self) -> int:
        return self.value_heads * self.value_dim

    @property
    def conv_channels(self) -> int:
        return 2 * self.keys + self.inner


@dataclass(frozen=True)
class AttentionConfig:
    heads: int
    kv_heads: int
    head_dim: int
    rope_theta: float | None = None  # None: no positions at all, as in Nemotron-H
    qk_norm: bool = False
    rotary_dim: int | None = None  # only so many dimensions of a head are rotated; None: all
    gated: bool = False  # what a head read passes a gate of its own, which `q_proj` computes beside the query
    # M-RoPE: how many pairs of dimensions turn with time, row and column of a token; None: all with its index.
    sections: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class MLPConfig:
    width: int
    activation: Literal["relu2", "swiglu"] = "relu2"


@dataclass(frozen=True)
class MoEConfig:
    experts: int
    top_k: int
    width: int
    shared_width: int
    scale: float = 1.0
    groups: int = 1
    top_groups: int = 1
    normalise: bool = True
    latent: int | None = None  # routed experts work in this smaller space when set
    activation: Literal["relu2", "swiglu"] = "relu2"
    scoring: Literal["sigmoid", "softmax"] = "sigmoid"  # sigmoid: with a learned bias for the choice alone
    shared_gate: bool = False  # the shared expert (none if `shared_width` is 0) counts as much as a gate says

    def __post_init__(self) -> None:
        size, rest = divmod(self.experts, self.groups)
        if rest or (self.groups > 1 and size < 2) or self.top_groups > self.groups:
            raise ConfigError(
                f"{self.experts} experts in {self.groups} groups, of which {self.top_groups} are chosen: groups must "
                "be of one size, two experts at least, and no more can be chosen than there are"
            )
        if self.top_k > (readable := size * self.top_groups):
            raise ConfigError(f"{self.top_k} experts to a token, and only {readable} of {self.experts} can be chosen")


@dataclass(frozen=True)
class DecoderConfig:
    vocab: int
    hidden: int
    pattern: str
    mamba: MambaConfig | None = None
    attention: AttentionConfig | None = None
    mlp: MLPConfig | None = None
    moe: MoEConfig | None = None
    delta: DeltaConfig | None = None
    eps: float = 1e-5
    centred_norms: bool = False  # norms (of layers and heads) multiply by one plus their weight
    tied_embeddings: bool = False
    max_positions: int = 131_072

    def __post_init__(self) -> None:
        unknown = set(self.pattern) - set("M-*EG")
        if unknown or not self.pattern:
            raise ConfigError(
                f"layer pattern {self.pattern!r} may only hold the letters M - * E G, found {unknown or 'nothing'}"
            )
        needs = {"M": self.mamba, "*": self.attention, "-": self.mlp, "E": self.moe, "G": self.delta}
        for letter, part in needs.items():
            if letter in self.pattern and part is None:
                raise ConfigError(
                    f"layer pattern {self.pattern!r} has {letter!r} but the configuration does not describe it"
                )
        if self.mamba and self.mamba.heads % self.mamba.groups:
            raise ConfigError(f"{self.mamba.heads} Mamba heads cannot be split into {self.mamba.groups} groups")
        if self.delta and self.delta.value_heads % self.delta.key_heads:
            raise ConfigError(
                f"{self.delta.value_heads} value heads of Gated DeltaNet cannot share {self.delta.key_heads} key heads "
                "evenly"
            )
        if self.attention and self.attention.heads % self.attention.kv_heads:
            raise ConfigError(
                f"{self.attention.heads} query heads cannot share {self.attention.kv_heads} key heads evenly"
            )
        turned = self.attention.rotary_dim if self.attention else None
        if self.attention and turned is not None and not (0 < turned <= self.attention.head_dim and turned % 2 == 0):
            raise ConfigError(f"{turned} of {self.attention.head_dim} dimensions of a head cannot be rotated in pairs")

    def layers(self, letter: str) -> list[int]:
        return [i for i, found in enumerate(self.pattern) if found == letter]

    @property
    def recurrent(self) -> bool:
        """Whether a sequence has a state that only moves forward."""
        return "M" in self.pattern or "G" in self.pattern

    @property
    def chunk(self) -> int | None:
        """Tokens that a recurrent layer takes at once; pieces of prompts best end at a multiple of it."""
        chunks = [
            part.chunk for letter, part in (("M", self.mamba), ("G", self.delta)) if part and letter in self.pattern
        ]
        return max(chunks, default=None)


@dataclass(frozen=True)
class VisionConfig:
    """A RADIO-style vision transformer."""

    hidden: int = 1280
    layers: int = 32
    heads: int = 16
    mlp: int = 5120
    patch: int = 16
    grid: int = 128  # side of the learned position table
    prefix: int = 16  # class and register tokens, dropped after the last block
    eps: float = 1e-6
    # How the position table was resampled when the tower was trained; see docs/architecture.md, "Positions".
    align_corners: bool = True


@dataclass(frozen=True)
class QwenVisionConfig:
    """The vision transformer of Qwen3-VL and Qwen3.5; see `qwen_vision`."""

    hidden: int = 1152
    layers: int = 27
    heads: int = 16
    mlp: int = 4304
    patch: int = 16
    frames: int = 2  # of a video in one patch; a picture is shown so many times
    merge: int = 2  # a square of merge x merge patches becomes one token
    grid: int = 48  # side of the learned position table
    # Deepstack: what these layers say of a picture is added to its tokens behind the decoder's first ones, one each.
    deepstack: tuple[int, ...] = ()
    eps: float = 1e-6
    prefix: int = 0  # no tokens but the picture's own

    def __post_init__(self) -> None:
        if self.hidden % self.heads or (self.hidden // self.heads) % 4:
            raise ConfigError(
                f"{self.heads} heads of a vision tower of width {self.hidden} cannot be rotated in two axes"
            )
        ordered = sorted({layer for layer in self.deepstack if 0 <= layer < self.layers})
        if list(self.deepstack) != ordered:
            raise ConfigError(
                f"deepstack layers {list(self.deepstack)} must be of the tower's {self.layers}, each once and in order"
            )


@dataclass(frozen=True)
class ProjectorConfig:
    width: int = 20480
    eps: float = 1e-5
    shuffle: int = 2  # a square of shuffle x shuffle patches becomes one token


@dataclass(frozen=True)
class TokenIds:
    image: int = 131_072
    image_start: int = 131_073
    image_end: int = 131_074
    bos: int | None = 1
    eos: tuple[int, ...] = (12,)
    # Ids from here on are never sampled, whatever the tokenizer says of them: padding rows of the vocabulary.
    first_unsampled: int | None = None
    unsampled: frozenset[int] = frozenset()  # nor are these: ids that the tokenizer does not have


@dataclass(frozen=True)
class ModelConfig:
    decoder: DecoderConfig
    vision: VisionConfig | QwenVisionConfig | None = None
    projector: ProjectorConfig | None = None  # of a RADIO tower; Qwen's merger follows from its tower
    image: ImageConfig = field(default_factory=ImageConfig)
    tokens: TokenIds = field(default_factory=TokenIds)
    name: str = ""
    family: str = "nemotron_vl"  # see `families`
    raw: dict[str, Any] | None = field(default=None, compare=False, repr=False)  # the config.json it came from

    def __post_init__(self) -> None:
        if isinstance(self.vision, VisionConfig) != (self.projector is not None):
            raise ConfigError("a RADIO tower and a projector belong together: give both or neither")
        if isinstance(self.vision, QwenVisionConfig):
            layers = sum(letter in "-E" for letter in self.decoder.pattern)
            if len(self.vision.deepstack) > layers:
                raise ConfigError(f"{len(self.vision.deepstack)} deepstack levels do not fit {layers} decoder layers")
            self._check_pictures(self.vision.patch, self.vision.merge)
        elif self.vision is not None and self.projector is not None:
            self._check_pictures(self.vision.patch, self.projector.shuffle)

    def _check_pictures(self, patch: int, merge: int) -> None:
        """Pictures have to be cut for the tower that reads them."""
        cut, joined = self.image.patch_size, self.image.downsample
        if (patch, merge) != (cut, joined):
            raise ConfigError(
                f"the vision tower reads patches of {patch} pixels and makes a token of {merge} x {merge}, but "
                f"pictures are cut for {cut} pixels and {joined} x {joined}"
            )

    @property
    def axes(self) -> bool:
        """Whether tokens have positions in three axes (M-RoPE), so that pictures shift what follows them."""
        return self.decoder.attention is not None and self.decoder.attention.sections is not None

    @property
    def text_tokens(self) -> range:
        """Ids that mean text, and neither the end of it nor a picture: what made-up prompts are drawn from."""
        tokens = self.tokens
        top = min(tokens.first_unsampled or self.decoder.vocab, self.decoder.vocab)
        special = (tokens.image, tokens.image_start, tokens.image_end, tokens.bos, *tokens.eos)
        known = [id for id in special if id is not None]
        low = max((id for id in known if id < top // 2), default=-1)
        return range(low + 1, min((id for id in known if id >= top // 2), default=top))

    @property
    def levels(self) -> int:
        """Vectors that a picture gives for every token of its own: one in its place, the others for deepstack."""
        return 1 + (len(self.vision.deepstack) if isinstance(self.vision, QwenVisionConfig) else 0)

    @property
    def tokens_per_tile(self) -> int:
        return self.image.tokens_per_tile
