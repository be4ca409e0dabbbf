"""What goes into the engine and what comes out: the types a server, an agent or a trainer meets.

    engine = Engine(model, processor)                     # holotron.engine.engine; a background thread runs the loop
    session = engine.open()
    session.append("Find a flight", screenshot_png)       # text, token ids, images; computed lazily
    for event in session.generate(SamplingParams(max_tokens=64)):
        print(event.text, end="")
    branches = session.fork(4)                            # share everything, copy on write

Everything here is plain data without torch. See `session` for the objects with methods.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from holotron.engine.schema import to_generate
from holotron.errors import CapacityError, ConfigError, HolotronError, InputError

FinishReason = Literal["stop", "length", "cancelled", "deadline", "error"]
# What a stateless request took over from an earlier one: all of it, all but the reply, all up to the picture it has
# dropped, a common beginning, or nothing. A named session has its own memory.
Resumed = Literal["session", "everything", "prompt", "window", "beginning", "nothing"]
OnUpdate = Literal["keep", "refresh"]  # when weights change, what sessions remember by the old ones is kept or void

# ------------------------------------------------------------------------------------------------------------- errors


class Overloaded(CapacityError):
    """No room now; the same request may succeed in about `retry_after` seconds."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class UnknownSession(InputError):
    """There is no session of this name (it was never opened, was closed, or expired)."""


class SessionBusy(InputError):
    """The session is generating. One thing at a time: wait for the generation, or cancel it."""


class EngineStopped(HolotronError):
    """The engine was closed while the request was waiting or running."""


class IntegrityError(HolotronError):
    """The accounting of pages and rows contradicts itself: a bug in the engine, never the caller's fault."""


# ----------------------------------------------------------------------------------------------------------- requests


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to choose tokens and when to stop.

    Penalties and biases come first (see `penalties`), then what a grammar forbids, then filters in the order
    temperature, min-p, top-k, top-p. The same seed gives the same tokens whatever else the
    engine is doing; without a seed one is drawn and reported in the result.
    """

    max_tokens: int = 256
    temperature: float = 1.0  # 0: greedy
    top_k: int = 0  # 0: off
    top_p: float = 1.0
    min_p: float = 0.0
    frequency_penalty: float = 0.0  # for each time a token was chosen in the reply
    presence_penalty: float = 0.0  # for having been chosen at all
    repetition_penalty: float = 1.0  # 1: off; divides positive logits of all tokens in prompt and reply
    logit_bias: Mapping[int, float] = field(default_factory=dict, hash=False)  # added, by token id
    seed: int | None = None
    stop: tuple[str, ...] = ()  # generation ends where one of these appears; it is not part of the text
    stop_token_ids: tuple[int, ...] = ()  # beside the model's own end-of-turn tokens
    ignore_eos: bool = False
    top_logprobs: int = 0  # alternatives reported beside each token; the chosen one's logprob always is
    # Report the chosen token's logprob among those it was drawn from, after grammar and temperature (filters apart),
    # not the model's own: what a policy gradient needs.
    policy_logprobs: bool = False

    def __post_init__(self) -> None:
        def need(good: bool, what: str) -> None:
            if not good:
                raise InputError(f"sampling: {what}")

        need(self.max_tokens >= 0, f"max_tokens must not be negative, got {self.max_tokens}")
        need(
            math.isfinite(self.temperature) and self.temperature >= 0,
            f"temperature must be 0 or more, got {self.temperature}",
        )
        need(self.top_k >= 0, f"top_k must be 0 (off) or more, got {self.top_k}")
        need(0 < self.top_p <= 1, f"top_p must be above 0 and at most 1, got {self.top_p}")
        need(0 <= self.min_p <= 1, f"min_p must be between 0 and 1, got {self.min_p}")
        for name in ("frequency_penalty", "presence_penalty"):
            need(math.isfinite(getattr(self, name)), f"{name} must be a number, got {getattr(self, name)}")
        need(
            math.isfinite(self.repetition_penalty) and self.repetition_penalty > 0,
            f"repetition_penalty must be above 0 (1: off), got {self.repetition_penalty}",
        )
        need(all(map(math.isfinite, self.logit_bias.values())), "logit_bias must hold finite numbers")
        need(0 <= self.top_logprobs <= 32, f"top_logprobs must be between 0 and 32, got {self.top_logprobs}")
        need(all(self.stop), "a stop string must not be empty")
        need(len(self.stop) <= 16, f"at most 16 stop strings, got {len(self.stop)}")
        need(max(map(len, self.stop), default=0) <= 1024, "a stop string may have at most 1,024 characters")


@dataclass(frozen=True, slots=True)
class Grammar:
    """What the output must look like. Compiled off the scheduling loop; a bad one raises `InputError`."""

    kind: Literal["json_schema", "regex", "lark"]
    source: str

    @staticmethod
    def json_schema(schema: Mapping[str, Any] | str, *, strict: bool = True) -> Grammar:
        """Compact JSON by this schema, see `schema`. A string is a schema too, as JSON."""
        try:
            given = json.loads(schema) if isinstance(schema, str) else schema
            ready = to_generate(given, strict=strict) if isinstance(given, Mapping) else given
            return Grammar("json_schema", json.dumps(ready))
        except (ValueError, RecursionError):
            if isinstance(schema, str):
                return Grammar("json_schema", schema)  # compiling it says what is wrong
            raise InputError("the json_schema is malformed: it is nested too deeply, or not JSON") from None

    @staticmethod
    def regex(pattern: str) -> Grammar:
        return Grammar("regex", pattern)

    @staticmethod
    def lark(source: str) -> Grammar:
        """llguidance's Lark dialect: text, regexes, `%json { ... }`, special tokens, in any combination."""
        return Grammar("lark", source)


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a session's log, `start` up to but not including `end`; what `compact` keeps."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A position to return to. `session.rewind(mark)` computes nothing again."""

    id: int
    position: int


# ------------------------------------------------------------------------------------------------------------ replies


class TokenEvent(NamedTuple):
    """One generated token, in the order they come.

    `logprob` is the model's own log probability: of the plain softmax over all logits, before temperature, filters
    and grammar (unless `SamplingParams.policy_logprobs`). A forced token (the grammar left no choice) was not sampled;
    its logprob is 0.
    `text` is what became certain with this token: text held back for an unfinished character or a possible stop
    string arrives with a later event.
    """

    token: int
    text: str
    logprob: float
    version: int  # of the weights that computed it
    forced: bool = False
    top_logprobs: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds, by the engine's clock."""

    queued: float = 0.0  # submitted until admitted
    first_token: float = 0.0  # submitted until the first token was sampled
    total: float = 0.0


@dataclass(frozen=True, slots=True)
class Result:
    """Everything about one finished generation. Token-wise fields have one entry per generated token."""

    text: str
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    versions: tuple[int, ...]
    forced: tuple[bool, ...]
    finish_reason: FinishReason
    stop: str | int | None  # the stop string or token that ended it
    prompt_tokens: int  # the whole context the reply continues
    cached_tokens: int  # of these, remembered from before
    computed_tokens: int  # of these, computed for this request
    seed: int
    timings: Timings
    top_logprobs: tuple[tuple[tuple[int, float], ...], ...] = ()
    error: HolotronError | None = None  # why, when finish_reason is "error"
    resumed: Resumed = "session"  # where the cached tokens come from
    warning: str | None = None  # something the client does that costs time, and what to do instead


@dataclass(frozen=True, slots=True)
class SessionInfo:
    id: str
    tokens: int  # length of the log
    computed: int  # of these, remembered
    pages: int
    bytes: int  # everything it holds, shared parts counted in full
    marks: tuple[Mark, ...]
    busy: bool
    oldest_version: int  # of the weights behind what it remembers
    newest_version: int
    host_bytes: int = 0  # of `bytes`, those in the host tier; the others are on the device


# ----------------------------------------------------------------------------------------------------------- settings


@dataclass(frozen=True)
class EngineConfig:
    """Sizes and limits. Memory is stated, not guessed: two device pools and one host tier behind both. Caches are what
    is left of it, unless stated."""

    page_size: int = 64  # tokens per KV page
    kv_tokens: int = 65_536  # device pool for keys and values, rounded up to whole pages
    state_rows: int = 64  # device pool for recurrent states: one per session on the device, one per snapshot
    host_bytes: int | None = None  # where states and pages go when the device is full; None: half of what is free now
    disk_folder: str | None = None  # where they go when the host is full too: files without a name; None: nowhere
    disk_bytes: int | None = None  # of these files; None: half of what is free there now
    state_dtype: str | None = None  # "float32" (default), "bfloat16", ...
    replay: bool = False  # decodes write the state every 16th time only, and keep the inputs since beside it
    weight_dtype: str | None = None  # of Mamba and MLP projections: "float8_e4m3fn" halves them and doubles their speed
    vision_dtype: str | None = None  # of the products of tower and projector: "float8_e4m3fn", for RADIO towers
    kv_dtype: str | None = None  # the model's own unless stated; "float8_e4m3fn" halves it

    drafts: int = 0  # tokens of a reply that are guessed and then read in one pass (see `drafts`); without overlap
    overlap: bool | None = None  # launch an iteration before the tokens of the last are read; None: on a GPU
    graphs: bool | None = None  # fill decodes up to a few batch sizes and replay captured graphs; None: on a GPU

    max_running: int = 64  # sequences in one iteration
    token_budget: int = 1024  # tokens in one iteration; prompts beyond it are computed in pieces
    gather: int = 0  # iterations for which prompts wait while others decode, to be computed together; see `scheduler`
    max_waiting: int = 1024  # requests in the queue before new ones are refused
    max_context: int | None = None  # tokens per session; the model's own limit unless smaller
    max_sessions: int = 4096  # open sessions, wherever they live
    session_ttl: float | None = None  # seconds after which an unused session is closed; None: never
    expected_tokens: int = 256  # how far ahead admission plans; longer replies may have to yield on the way

    # Finished stateless requests kept for the next one to resume. None: as long as nobody needs their room.
    prefix_cache_bytes: int | None = None
    vision_cache_bytes: int | None = None  # rows of pictures; None: three large screenshots for each running sequence
    picture_cache_bytes: int | None = None  # tiles of pictures that may be sent again; None: 1/16 of the free memory
    vision_batch: int = 32  # tiles encoded at once
    prefetch: bool = False  # compute appended tokens when nothing else is to be done, before generate asks for them
    workers: int = 2  # threads for images and grammars

    def __post_init__(self) -> None:
        for name in ("page_size", "kv_tokens", "state_rows", "max_running", "token_budget", "max_waiting"):
            if getattr(self, name) < 1:
                raise ConfigError(f"engine: {name} must be at least 1, got {getattr(self, name)}")
        for name in ("vision_batch", "workers", "max_sessions", "expected_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"engine: {name} must be at least 1, got {getattr(self, name)}")
        for name in ("host_bytes", "disk_bytes", "prefix_cache_bytes", "vision_cache_bytes", "picture_cache_bytes",
                     "gather", "drafts"):  # fmt: skip
            if (getattr(self, name) or 0) < 0:
                raise ConfigError(f"engine: {name} must not be negative, got {getattr(self, name)}")
        for name in ("weight_dtype", "vision_dtype"):
            if getattr(self, name) not in (None, "float8_e4m3fn"):
                raise ConfigError(f"engine: {name} can be float8_e4m3fn or nothing, got {getattr(self, name)!r}")
        if self.drafts and self.overlap:
            raise ConfigError("engine: drafts follow the last token, which with overlap is not known in time; take one")
        if self.token_budget < self.max_running:
            raise ConfigError(
                f"engine: token_budget ({self.token_budget}) must be at least max_running ({self.max_running}): "
                "every running sequence takes one token per iteration"
            )


@dataclass(slots=True)
class EngineStats:
    """Counters since the start, then levels at the moment of asking."""

    iterations: int = 0
    requests: int = 0
    prompt_tokens: int = 0  # asked for, cached and computed
    cached_tokens: int = 0
    computed_tokens: int = 0  # prompt tokens that went through the network
    recomputed_tokens: int = 0  # of these, seen before: rewind to no mark, compact, refresh (counted when decided)
    generated_tokens: int = 0
    host_seconds: float = 0.0  # of the loop, doing something
    wait_seconds: float = 0.0  # of the loop, waiting for the device to finish an iteration
    forced_tokens: int = 0  # of the generated, those a grammar left no choice about
    drafted_tokens: int = 0  # guessed, and read by the network
    drafts_kept: int = 0  # of these, those that were right
    tiles_encoded: int = 0
    tiles_reused: int = 0
    pictures_reused: int = 0  # sent again, and neither decoded nor cut again
    blocks_to_host: int = 0
    blocks_to_device: int = 0
    blocks_to_disk: int = 0
    blocks_from_disk: int = 0
    preemptions: int = 0
    evicted_sessions: int = 0
    forgotten_sessions: int = 0  # for lack of memory; computed again when they are needed
    resumed_everything: int = 0  # stateless requests by what they took over, see `Resumed`
    resumed_prompt: int = 0
    resumed_window: int = 0
    resumed_beginning: int = 0
    resumed_nothing: int = 0
    integrity_failures: int = 0

    version: int = 0
    running: int = 0
    waiting: int = 0
    sessions: int = 0
    cached_sessions: int = 0
    pages_used: int = 0
    pages_total: int = 0
    rows_used: int = 0
    rows_total: int = 0
    host_bytes_used: int = 0
    disk_bytes_used: int = 0
    vision_bytes_used: int = 0
    pixel_bytes_used: int = 0  # host memory: the tiles that logs show, to encode them again should it be needed
    picture_bytes_used: int = 0  # host memory: the tiles of pictures that may be sent again


@dataclass(frozen=True, slots=True)
class StepReport:
    """One iteration, for whoever keeps histograms."""

    seconds: float
    sequences: int
    decode_tokens: int
    prefill_tokens: int
    tiles: int
    finished: int = field(default=0)
