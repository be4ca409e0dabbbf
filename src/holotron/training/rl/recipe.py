"""What a reinforcement-learning run can be asked for. As for fine-tuning: TOML, unknown keys fail.

recipe = read_recipe(Path("recipes/holotron-mini/4-rl.toml"), ["rollouts.sessions=8"], RlRecipe)
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from holotron.training.recipe import CommonRecipe, EveryPart, NonNegative, OptimiserPart, Part, Share, ViewPart

LearnFrom = Literal["success", "reward"]  # what the episodes of a group are compared by: 0 and 1, or any number


class TaskPart(Part):
    """What is played. A task is a name and a seed; difficulty is estimated by name, seeds are drawn anew each time."""

    suite: str = "miniwob"  # as for `holotron eval`; without a browser: "painted", or a folder of pages with questions
    names: str | tuple[str, ...] = "all"
    seeds: str = "0:100000"
    view: ViewPart = ViewPart()  # how it is shown; what is left open is the checkpoint's, then the suite's own
    learn_from: LearnFrom = "success"
    steps: PositiveInt | None = None  # of an episode; None: the suite's own limit
    seconds: PositiveFloat | None = None
    band: tuple[Share, Share] = (0.1, 0.9)  # tasks whose success is within it are drawn most
    outside: Share = 0.05  # how often others are, compared with them: estimates must not go stale
    memory: PositiveInt = 64  # episodes of a task that its estimate remembers

    @model_validator(mode="after")
    def _band(self) -> TaskPart:
        if self.band[0] >= self.band[1]:
            raise ValueError("tasks.band is written [lowest, highest]")
        return self


class AgentPart(Part):
    """How the policy speaks and how its replies are sampled. None: what the checkpoint says of itself."""

    dialect: str | None = None
    frame: str | None = None
    history: str | None = None
    thinking: bool = False
    max_tokens: PositiveInt = 64  # of one reply
    temperature: PositiveFloat = 1.0
    constrained: bool = False  # hold replies to the dialect's schema while decoding


class RolloutPart(Part):
    sessions: PositiveInt = 32  # episodes at once, in all processes together
    processes: Annotated[int, Field(ge=0)] = 0  # that play, each with an engine; 0: the trainer's own process plays
    group: Annotated[int, Field(ge=2)] = 8  # episodes of the same task and seed
    side_by_side: PositiveInt | None = None  # sessions that share a group; None: one for each member
    queue: PositiveInt = 16  # finished groups that wait for the trainer; beyond that the oldest is thrown away
    staleness: PositiveInt = 4  # updates that a group may be behind; older ones are thrown away
    straggler: PositiveFloat = 4.0  # the last quarter of a group gets so many times the longest of the others, in time
    successes: Annotated[int, Field(ge=0)] = 2  # kept of each task, for groups in which all fail; 0: none
    on_update: Literal["keep", "refresh"] = "keep"  # open sessions keep what they remember, or compute it again
    record_every: Annotated[int, Field(ge=0)] = 0  # store every n-th group's episodes, pictures included; 0: none


class EnginePart(Part):
    kv_tokens: PositiveInt = 65_536
    state_rows: PositiveInt = 128
    token_budget: PositiveInt = 2_048
    gather: Annotated[int, Field(ge=0)] = 0  # iterations for which prompts wait for decodes: small policies on a GPU
    host_bytes: Annotated[int, Field(ge=0)] = 4 << 30


class ObjectivePart(Part):
    truncate: Annotated[float, Field(ge=1)] = 2.0  # importance ratios are cut here
    clip_low: Share = 0.2  # no push on a token once its ratio is 1 - clip_low and the push would lower it further ...
    clip_high: PositiveFloat = 0.28  # ... or 1 + clip_high, and would raise it
    kl: NonNegative = 0.0  # weight of the divergence from the starting policy; above 0 a frozen copy is kept


class UpdatePart(Part):
    groups: PositiveInt = 8  # of one update
    # Of one forward pass; an update is as many passes as it takes. Longer episodes are not learnt from, and counted.
    tokens: PositiveInt = 16_384


class RlEvalPart(EveryPart):
    """Greedy episodes on seeds that are never trained on, played by the same engine between two updates; none if it is
    not said how often."""

    suite: str | None = None  # None: the one that is trained on; else another folder of pages
    names: str | tuple[str, ...] | None = None  # None: the tasks that are trained on
    seeds: str = "200000:200004"


class RlRecipe(CommonRecipe):
    tasks: TaskPart = TaskPart()
    agent: AgentPart = AgentPart()
    rollouts: RolloutPart = RolloutPart()
    engine: EnginePart = EnginePart()
    objective: ObjectivePart = ObjectivePart()
    update: UpdatePart = UpdatePart()
    optimiser: OptimiserPart = OptimiserPart(lr=1e-5, weight_decay=0.0)
    evaluate: RlEvalPart = RlEvalPart()

    def same_run(self, other: Self) -> bool:
        """Who plays makes no difference to what is learnt."""
        part = other.rollouts.model_copy(update={"processes": self.rollouts.processes})
        return super().same_run(other.model_copy(update={"rollouts": part}))

    @model_validator(mode="after")
    def _room(self) -> RlRecipe:
        if self.rollouts.processes > self.rollouts.sessions:
            raise ValueError("rollouts.processes are at most as many as rollouts.sessions: each plays at least one")
        if self.update.groups > self.rollouts.queue:
            raise ValueError("rollouts.queue must hold at least update.groups, or an update never comes together")
        if self.model.template:
            raise ValueError("model.template is for training from a preset; RL starts from a checkpoint")
        if self.model.balance:
            raise ValueError(
                "model.balance prepares a model for its first lessons; RL starts from a policy that had them"
            )
        if self.lora is not None and self.lora.dropout:
            raise ValueError(
                "lora.dropout must be 0: RL compares probabilities with those of the engine, which drops none"
            )
        return self
