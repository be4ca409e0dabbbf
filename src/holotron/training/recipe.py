"""What a training run can be asked for. Recipes are TOML files; unknown keys fail, and so do values of the wrong type.

    recipe = read_recipe("holotron-mini/0-reading", ["optimiser.lr=5e-4", "data.0.weight=2"])

Everything a run does follows from its recipe and the files it names: two runs of one recipe give the same numbers.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, overload

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError, model_validator

from holotron.errors import ConfigError
from holotron.model.processor import Deltas
from holotron.training.recipe_errors import complaints
from holotron.training.recipes import find_recipe, kind_of, recipe_text
from holotron.view import View

NonNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelPart(Part):
    source: str  # a folder, a hub id, or a preset (random weights; preset:NAME where a model of that name is bundled)
    template: Literal["", "chatml", "turns", "nemotron-vl"] = ""  # of a preset's chat; "" is the preset's own
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"  # of the forward pass; auto: bf16 on a GPU, fp32 on a CPU
    learn: tuple[Literal["vision_model", "mlp1", "language_model"], ...] = ("vision_model", "mlp1", "language_model")
    grow: str = ""  # a deeper pattern: the source's layers, and new ones in brackets that begin by doing nothing
    max_tiles: PositiveInt | None = None  # cut pictures into up to so many tiles; None: as the source does
    thumbnail: bool | None = None  # show a picture of several tiles once more, small; None: as the source does
    sparse: bool | None = None  # leave out what is blank in pictures, see docs/sparse-pictures.md; None: as the source
    max_positions: PositiveInt | None = None  # tokens of one conversation, at most; None: as the source says
    balance: bool = False  # scale rows of pictures and of text to size one before the first step, see `balance`
    compile: bool = False  # fuse what moves much memory, see `compiling`; for long runs of one vision tower on a GPU
    checkpoint_layers: bool = False  # recompute the decoder's activations in the backward pass instead of keeping them


class LoraPart(Part):
    rank: PositiveInt = 16
    alpha: PositiveInt = 32
    dropout: Share = 0.0
    targets: tuple[str, ...] = (
        "in_proj", "in_proj_qkv", "in_proj_z", "out_proj", "q_proj", "k_proj", "v_proj", "o_proj",
        "gate_proj", "up_proj", "down_proj",
    )  # fmt: skip  # the large matrices of every family, but for routed experts, which stay as they are
    merge: bool = True  # export the whole model with the adapter merged in; without, the adapter alone


class ConversationData(Part):
    """JSON lines as `holotron export` writes them: messages, images, and which replies to learn from."""

    kind: Literal["conversations"]
    files: tuple[Path, ...] = Field(min_length=1)
    weight: PositiveFloat = 1.0


class DrawnData(Part):
    """Pages painted on the fly, never the same one twice, with every character's place known."""

    kind: Literal["drawn"]
    weight: PositiveFloat = 1.0
    seed: int = 0
    fonts: Path | None = None  # a folder of font files; None: the system's
    sizes: tuple[str, ...] = ("160x160@2",)  # CSS pixels and scale
    type_sizes: tuple[PositiveFloat, ...] = ()  # of body text, in CSS pixels; () is what is usual at that size of page
    languages: tuple[str, ...] = ()  # of their words, such as "en"; () is all there are
    # Pages near each other share a choice of fonts, whose letters stay drawn. With as many lanes as workers, each of
    # them walks along a stretch of pages of its own.
    lanes: PositiveInt = 1
    held_out: bool = False  # use the fonts that are kept for evaluation, and no others
    questions: Annotated[int, Field(ge=0)] = 0  # per page; 0 leaves the page to the reading loss
    turns: PositiveInt = 1  # questions in one conversation, asked one after the other about the same picture
    census: Annotated[int, Field(ge=0)] = 0  # further conversations per page, each about all that is written where
    kinds: tuple[Literal["click", "absent", "find", "read"], ...] = ()  # of questions; () is all
    dialect: str = "compact"


class PageData(Part):
    """Stored pages of `holotron data synth`, with instructions made on the fly."""

    kind: Literal["pages"]
    folder: Path
    weight: PositiveFloat = 1.0
    questions: PositiveInt = 8
    turns: PositiveInt = 1
    census: Annotated[int, Field(ge=0)] = 0
    kinds: tuple[Literal["click", "absent", "find", "read"], ...] = ()
    dialect: str = "compact"


class EpisodeData(Part):
    """Recorded episodes, from run directories or packed ones. Episodes that succeeded are cloned; in episodes with
    labels (`holotron rollout --label`) the teacher's word is learnt in the states that the learner reached."""

    kind: Literal["episodes"]
    runs: tuple[Path, ...] = Field(min_length=1)
    weight: PositiveFloat = 1.0
    seeds: str = ""  # A:B, those to use; "" is all
    tasks: tuple[str, ...] = ()  # () is all
    task_weights: dict[str, NonNegative] = {}  # tasks are drawn alike but for this
    steps: PositiveInt = 40  # episodes are cut after this many
    shift: tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]] = (0, 0)  # greatest, in pixels of the image
    shifted: Share = 0.5  # of the episodes
    dialect: str = "compact"
    history: str = "append"


class TextData(Part):
    """Copying, transforming and small sums as text alone: the words of an episode with its pictures left out."""

    kind: Literal["text"]
    weight: PositiveFloat = 1.0
    seed: int = 0
    dialect: str = "compact"


Data = Annotated[ConversationData | DrawnData | PageData | EpisodeData | TextData, Field(discriminator="kind")]


class BatchPart(Part):
    tokens: PositiveInt = 16_384  # at most this many tokens in one forward pass
    samples: PositiveInt | None = None  # at most this many samples; None: each once a step, if there are few
    accumulate: PositiveInt = 1  # forward passes per step, over all ranks together; at least one for each of them
    sequences: PositiveInt = 2  # at most this many of a sample's sequences at a time
    reuse: PositiveFloat = 1.0  # how often a sample is shown, on average, while it stays in the replay buffer
    replay: PositiveInt = 4_096  # samples in that buffer, on all ranks together, when reuse is above 1
    workers: Annotated[int, Field(ge=0)] = 0  # processes that make samples; 0: the trainer makes them itself
    too_long: Literal["skip", "fail"] = "fail"  # what to do with a sample that no batch can hold

    @model_validator(mode="after")
    def _reuse_needs_a_size(self) -> BatchPart:
        if self.reuse > 1 and self.samples is None:
            raise ValueError("reuse above 1 needs batch.samples")
        return self


class AugmentPart(Part):
    """Changes of light that keep the meaning. Geometry is never touched: coordinates are labels."""

    invert: Share = 0.0  # share of pictures turned to their negative; not for tasks that name colours
    tint: NonNegative = 0.0  # greatest change of a channel's gain
    brightness: NonNegative = 0.0  # greatest shift, of 1
    noise: NonNegative = 0.0  # greatest standard deviation, of 1


class LossPart(Part):
    reply: NonNegative = 1.0
    reading: NonNegative = 0.0  # on the tower's patches, where a sample knows its characters
    reading_rows: NonNegative = 0.0  # on the rows that the language model gets
    place: NonNegative = 0.0  # on the same rows: where in the tile each of them is
    tile: NonNegative = 0.0  # on image tokens inside the decoder: which tile of its picture each belongs to
    pointing: NonNegative = 0.0  # on the same tokens: which of them the click falls into
    aiming: NonNegative = 0.0  # the same, asked by the reply itself for each place it names


class OptimiserPart(Part):
    lr: PositiveFloat = 1e-4
    betas: tuple[Share, Share] = (0.9, 0.95)
    eps: PositiveFloat = 1e-8
    weight_decay: NonNegative = 0.05  # on matrices only
    clip: PositiveFloat = 1.0


class SchedulePart(Part):
    """Warm-up, then a plateau, then decay. The end is a number of steps, or a time on the clock."""

    steps: PositiveInt | None = None
    minutes: PositiveFloat | None = None
    warmup: Annotated[int, Field(ge=0)] = 100  # steps
    decay: Literal["cosine", "linear"] = "cosine"
    decay_share: Share = 1.0  # the part of the run, at its end, over which the rate falls
    final: Share = 0.0  # where it falls to, as a share of the peak

    @model_validator(mode="after")
    def _one_end(self) -> SchedulePart:
        if self.steps is None and self.minutes is None:
            raise ValueError("say when to stop: schedule.steps or schedule.minutes")
        return self


class SavePart(Part):
    every_steps: PositiveInt | None = None
    every_minutes: PositiveFloat | None = None
    keep: PositiveInt = 2
    dtype: Literal["", "bfloat16", "float32"] = ""  # of the exported matrices; "" keeps the model's own


class ReadingEval(Part):
    """Fresh pages of random strings, or stored ones: which share of the characters is named right?"""

    kind: Literal["reading"]
    name: str = "reading"
    data: Annotated[DrawnData | PageData, Field(discriminator="kind")]
    samples: PositiveInt = 256


class LossEval(Part):
    """Held-out samples: loss and exact replies, teacher-forced."""

    kind: Literal["loss"]
    name: str = "held_out"
    data: Data
    samples: PositiveInt = 256


class ReplyEval(Part):
    """Held-out samples answered greedily: exact texts, and clicks that land in the box. Lessons of text begin with a
    reply that nobody could know; their measure is `steps`."""

    kind: Literal["replies"]
    name: str = "replies"
    data: Annotated[ConversationData | DrawnData | PageData | EpisodeData, Field(discriminator="kind")]
    samples: PositiveInt = 128


class StepEval(Part):
    """Held-out episodes or lessons of text: the share of steps that the policy would take as its teacher did (the same
    text, or the same kind of action at a point not further away than `near` thousandths of the screen), over all steps
    and as the mean over tasks. The past is the teacher's."""

    kind: Literal["steps"]
    name: str = "steps"
    data: Annotated[EpisodeData | TextData, Field(discriminator="kind")]
    samples: PositiveInt = 512
    near: PositiveInt = 25


Eval = Annotated[ReadingEval | LossEval | ReplyEval | StepEval, Field(discriminator="kind")]


class EveryPart(Part):
    """How often a run is judged: after so many steps, after so much time, or after either."""

    every_steps: PositiveInt | None = None
    every_seconds: PositiveFloat | None = None


class EvalPart(EveryPart):
    suites: tuple[Eval, ...] = ()


class ViewPart(Part):
    """How a suite's screens are shown; see `holotron.view`."""

    width: PositiveInt | None = None
    height: PositiveInt | None = None
    scale: PositiveFloat | None = None
    crop: bool | None = None
    format: Literal["png", "jpeg"] | None = None

    def view(self) -> View:
        return View(**self.model_dump())


class AgentPart(Part):
    """How the exported policy is to be used; written to its agent.json."""

    dialect: str = "compact"
    history: str = "append"
    views: dict[str, ViewPart] = {}  # by suite: how it wants to be shown it
    # Screenshots told as changes to the one before, in episodes and conversations, and so when it is served. A number
    # is the tolerance: 0, the same as true, for pictures without loss; 8 for JPEG.
    deltas: bool | Annotated[int, Field(ge=0, le=255)] = False

    @property
    def tolerance(self) -> int | None:
        return None if self.deltas is False else int(self.deltas) if self.deltas is not True else 0


class CommonRecipe(Part):
    """What every kind of training is asked for, see `loop`."""

    name: str = Field(pattern=r"^[\w.-]+$")
    about: str = ""  # for the model card
    seed: int = 0
    model: ModelPart
    lora: LoraPart | None = None
    optimiser: OptimiserPart = OptimiserPart()
    schedule: SchedulePart
    save: SavePart = SavePart()
    evaluate: EveryPart = EveryPart()

    def same_run(self, other: Self) -> bool:
        """Whether a run of this recipe can go on by the other one: its end may be moved."""
        return self == other.model_copy(update={"schedule": self.schedule})

    @model_validator(mode="after")
    def _adapters_go_where_learning_does(self) -> Self:
        if self.lora is not None and "language_model" not in self.model.learn:
            raise ValueError("lora puts its adapters on the language model, which model.learn does not name")
        return self


class Recipe(CommonRecipe):
    """Supervised fine-tuning."""

    data: tuple[Data, ...] = Field(min_length=1)
    batch: BatchPart = BatchPart()
    augment: AugmentPart = AugmentPart()
    loss: LossPart = LossPart()
    evaluate: EvalPart = EvalPart()
    agent: AgentPart | None = None  # None: what the checkpoint it began with says of itself, if it says anything

    @property
    def deltas(self) -> Deltas | None:
        tolerance = self.agent.tolerance if self.agent is not None else None
        return None if tolerance is None else Deltas(tolerance)


# ------------------------------------------------------------------------------------------------------ files and flags


K = TypeVar("K", bound=Part)
NEXT = "\n  "


@overload
def read_recipe(path: str | Path, overrides: Sequence[str] = ()) -> Recipe: ...
@overload
def read_recipe(path: str | Path, overrides: Sequence[str], kind: type[K]) -> K: ...
def read_recipe(path: str | Path, overrides: Sequence[str] = (), kind: type[Any] = Recipe) -> Any:
    """A recipe file, or one of the package by name, with `dotted.key=value` overrides; `dotted.key=` takes the key out.
    Relative paths in it count from the working directory."""
    path = find_recipe(path)
    try:
        data = tomllib.loads(recipe_text(path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    if kind_of(data) == "rl" and kind is Recipe and "data" not in data:
        raise ConfigError(f"{path} is a recipe of reinforcement learning; it is for `holotron train rl`")
    if kind_of(data) == "sft" and kind is not Recipe and "data" in data:
        raise ConfigError(f"{path} is a recipe of supervised fine-tuning; it is for `holotron train sft`")
    for override in overrides:
        _override(data, override)
    return make_recipe(data, str(path), kind)


@overload
def make_recipe(data: dict[str, Any], origin: str = "the recipe") -> Recipe: ...
@overload
def make_recipe(data: dict[str, Any], origin: str, kind: type[K]) -> K: ...
def make_recipe(data: dict[str, Any], origin: str = "the recipe", kind: type[Any] = Recipe) -> Any:
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        found = complaints(kind, error)
        raise ConfigError(f"{origin} is wrong:{' ' if len(found) == 1 else NEXT}" + NEXT.join(found)) from None


def _override(data: dict[str, Any], text: str) -> None:
    key, found, value = text.partition("=")
    if not found or not key.strip():
        raise ConfigError(f"an override is written key=value, such as optimiser.lr=1e-4; found {text!r}")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value  # a bare word is a string
    *path, last = key.strip().split(".")
    place: Any = data
    try:
        for name in path:
            place = place[int(name)] if isinstance(place, list) else place.setdefault(name, {})
        if isinstance(place, list):
            place[int(last)] = parsed
        elif not value:
            place.pop(last, None)
        else:
            place[last] = parsed
    except (ValueError, IndexError, TypeError, AttributeError):
        raise ConfigError(f"there is no place {key!r} in the recipe") from None
