"""A model in this process, to talk to.

    with Model("holotron-mini") as model:
        reply = model.chat("What is written on the button?", images=[screenshot])
        print(reply.content)

        class Place(BaseModel):
            x: int
            y: int
        model.chat("Where is it?", images=[screenshot], schema=Place).parsed          # a Place

        for part in model.stream("Describe the page.", images=[screenshot]):
            print(part.content, end="")

        with model.session() as session:                  # remembers: every turn computes what is new, and no more
            session.chat("Here is the page.", images=[first])
            other = session.fork()                        # goes on on its own from here
            session.chat("And now?", images=[second])

Messages are a text, or a list in OpenAI's form (roles, content parts, tool calls). What the model needs to be served at
scale is `model.engine`; many threads may use one `Model`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypedDict, Unpack, cast, overload

from pydantic import BaseModel, ValidationError
from typing_extensions import TypeVar  # with defaults, in Python 3.11 too; pydantic brings it

from holotron.engine import Engine, EngineConfig, Generation, Grammar, SamplingParams
from holotron.engine import Session as EngineSession
from holotron.engine.reasoning import behind_reasoning
from holotron.errors import ConfigError, HolotronError, InputError
from holotron.model.bundled import BUNDLED
from holotron.model.loading import load_model
from holotron.model.processor import Transcript
from holotron.model.processor.messages import ImageSource
from holotron.model.processor.reply import ReplyParser, ReplyPart, ToolCall
from holotron.registry import did_you_mean

Messages = str | Sequence[Mapping[str, Any]]
Schema = Mapping[str, Any] | type[BaseModel]
Tools = Sequence[Mapping[str, Any]]
Object = TypeVar("Object", bound=BaseModel)
Parsed = TypeVar("Parsed", default=Any)
Images = ImageSource | Path | list[Any] | tuple[Any, ...]  # of ImageSource and Path


class SchemalessOptions(TypedDict, total=False):
    """What may be said beside the messages and a schema; `Model.chat` describes it."""

    images: Images
    tools: Tools | None
    sampling: SamplingParams | None
    thinking: bool


class ChatOptions(SchemalessOptions, total=False):
    """What may be said beside the messages."""

    schema: Schema | None


@dataclass(frozen=True, slots=True)
class ChatReply(Generic[Parsed]):
    content: str
    reasoning: str
    tool_calls: tuple[ToolCall, ...]
    parsed: Parsed  # with a schema: the JSON, or an object of the class that was given
    finish_reason: str
    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int


class Model:
    def __init__(self, source: str = BUNDLED, *, device: str | None = None, config: EngineConfig | None = None) -> None:
        """`source`: bundled, a folder, a hub id or a preset. `config`: how much memory sessions get."""
        if config is not None and not isinstance(config, EngineConfig):
            raise ConfigError(f"config is a holotron.EngineConfig; not {config!r:.60}")
        model, self.processor = load_model(source, device=device)
        self.engine = Engine(model, self.processor, config)
        self.name = source
        self._closed = False

    @overload
    def chat(
        self, messages: Messages, *, schema: type[Object], **options: Unpack[SchemalessOptions]
    ) -> ChatReply[Object]: ...

    @overload
    def chat(
        self, messages: Messages, *, schema: None = None, **options: Unpack[SchemalessOptions]
    ) -> ChatReply[None]: ...

    @overload
    def chat(self, messages: Messages, **options: Unpack[ChatOptions]) -> ChatReply: ...

    def chat(self, messages: Messages, **options: Any) -> ChatReply:
        """One reply to a whole conversation. For one that goes on, a `session` computes only what is new.

        images    bytes, arrays, PIL images, files or data URLs, one or a list; they go before the last message's text
        schema    the reply is JSON that fits it: a JSON schema, or a pydantic class
        tools     that the reply may call, in OpenAI's form
        sampling  see `Model.sampling`
        thinking  let it reason first
        """
        with self.session() as session:
            return session.chat(messages, **options)

    def stream(self, messages: Messages, **options: Unpack[ChatOptions]) -> Iterator[ReplyPart]:
        """The same, as it is generated. Leaving the loop stops it."""
        with self.session() as session:
            yield from session.stream(messages, **options)

    def session(self) -> ChatSession:
        """A conversation that is remembered. Close it when done: it holds memory."""
        return ChatSession(self, self.engine.open(), Transcript(), None)

    def sampling(self, **changes: Any) -> SamplingParams:
        """As the model's publishers sample from it, with changes: `model.sampling(max_tokens=64, temperature=0)`."""
        own = self.processor.sampling
        usual = SamplingParams(
            max_tokens=1024,
            temperature=own.temperature if own.temperature is not None else 0.0,
            top_p=own.top_p if own.top_p is not None else 1.0,
            top_k=own.top_k or 0,
            min_p=own.min_p or 0.0,
            repetition_penalty=own.repetition_penalty or 1.0,
        )
        known = {field.name for field in fields(SamplingParams)}
        for name in changes.keys() - known:
            raise InputError(f"sampling has no {name!r}: {did_you_mean(name, sorted(known))}")
        return replace(usual, **changes)

    def close(self) -> None:
        """Give the memory back. Once is enough, twice does no harm."""
        if not self._closed:
            self._closed = True
            self.engine.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class ChatSession:
    """A conversation with a `Model`. One reply at a time; a turn that fails leaves it as it was."""

    def __init__(self, model: Model, session: EngineSession, said: Transcript, tools: Tools | None) -> None:
        self._model = model
        self._session = session
        self._said = said
        self._tools = tools  # they stand at the beginning of the conversation

    @overload
    def chat(
        self, messages: Messages, *, schema: type[Object], **options: Unpack[SchemalessOptions]
    ) -> ChatReply[Object]: ...

    @overload
    def chat(
        self, messages: Messages, *, schema: None = None, **options: Unpack[SchemalessOptions]
    ) -> ChatReply[None]: ...

    @overload
    def chat(self, messages: Messages, **options: Unpack[ChatOptions]) -> ChatReply: ...

    def chat(self, messages: Messages, **options: Any) -> ChatReply:
        """The reply to what is new; options as in `Model.chat`."""
        with _Turn(self, messages, cast(ChatOptions, options)) as turn:
            result = turn.generation.result()
            cut = result.finish_reason != "stop"
            part = turn.parser.push(result.text, result.tokens) + turn.parser.finish(cut=cut)
            schema = options.get("schema")
            return ChatReply(
                part.content,
                part.reasoning,
                part.tool_calls,
                None if schema is None else _parsed(part.content, schema, result.finish_reason),
                "tool_calls" if part.tool_calls else result.finish_reason,
                result.prompt_tokens,
                result.cached_tokens,
                len(result.tokens),
            )

    def stream(self, messages: Messages, **options: Unpack[ChatOptions]) -> Iterator[ReplyPart]:
        """The same, as it is generated. Leaving the loop takes the turn back."""
        with _Turn(self, messages, options) as turn:
            for event in turn.generation:
                if part := _something(turn.parser.push(event.text, (event.token,))):
                    yield part
            cut = turn.generation.result().finish_reason != "stop"
            if part := _something(turn.parser.finish(cut=cut)):
                yield part

    def fork(self) -> ChatSession:
        """Another conversation with the same beginning. Nothing is copied."""
        (fork,) = self._session.fork()
        return ChatSession(self._model, fork, self._said, self._tools)

    def close(self) -> None:
        self._session.close()

    def __enter__(self) -> ChatSession:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class _Turn:
    """One turn of a session, begun: its prompt appended, its reply on the way. Whatever ends the block early, an error
    or Ctrl-C, takes the turn back."""

    def __init__(self, session: ChatSession, messages: Messages, options: ChatOptions) -> None:
        _check(options)
        tools, thinking, schema = options.get("tools"), options.get("thinking", False), options.get("schema")
        model, engine_session, said = session._model, session._session, session._said
        if said.begun and tools is not None and tools != session._tools:
            raise InputError("tools belong to the first turn of a session and cannot change later")
        tools = tools if not said.begun else session._tools
        prompt = said.next(model.processor, _with_images(messages, options.get("images", ())), tools, thinking)
        grammar = None
        if schema is not None:
            plain = Grammar.json_schema(schema.model_json_schema() if isinstance(schema, type) else schema)
            grammar = behind_reasoning(plain, thinking=thinking, opens_reasoning=prompt.opens_reasoning)
        matcher = model.engine.compile(grammar)
        self.parser = ReplyParser(
            opens_reasoning=prompt.opens_reasoning,
            tools=tools,
            tokenizer=model.processor.tokenizer,
            bound=grammar is not None,
        )
        self._session, self._said, self._tools = session, said.asked(prompt), tools
        self._start = engine_session.info().tokens
        engine_session.append(prompt, confirm=True)
        try:
            self.generation: Generation = engine_session.generate(
                options.get("sampling") or model.sampling(), grammar=matcher
            )
        except HolotronError:
            engine_session.rewind(self._start)
            raise

    def __enter__(self) -> _Turn:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self._session._said = self._said.replied(self.generation.result().tokens)
            self._session._tools = self._tools
        else:
            self.generation.cancel()
            self._session._session.rewind(self._start)


def _check(options: ChatOptions) -> None:
    known = ChatOptions.__annotations__
    for name in options.keys() - known.keys():
        if name in {field.name for field in fields(SamplingParams)}:
            raise InputError(f"{name} belongs to sampling: write sampling=model.sampling({name}=...)")
        raise InputError(f"chat has no option {name!r}: {did_you_mean(name, known)}")
    sampling = options.get("sampling")
    if sampling is not None and not isinstance(sampling, SamplingParams):
        raise InputError(f"sampling is a holotron.SamplingParams, see Model.sampling; not {sampling!r:.60}")


def _readable(image: ImageSource | str | Path) -> ImageSource:
    """A picture that is a file is read; everything else is the processor's to understand."""
    if isinstance(image, Path) or (isinstance(image, str) and not image.startswith(("data:", "http:", "https:"))):
        try:
            return Path(image).read_bytes()
        except OSError as error:
            raise InputError(f"the picture {image!s:.100} cannot be read: {error.strerror}") from None
    return image


def _with_images(messages: Messages, images: Images) -> list[Mapping[str, Any]]:
    if not isinstance(messages, str | Sequence):
        raise InputError(f"messages are a text, or a list of messages in OpenAI's form; not {messages!r:.60}")
    several = images if isinstance(images, list | tuple) else (images,)
    plain: list[Mapping[str, Any]] = (
        [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
    )
    if not len(several):
        return plain
    if not plain or not isinstance(plain[-1], Mapping) or plain[-1].get("role") != "user":
        raise InputError("images belong to the user's message, which must be the last one")
    content = plain[-1].get("content") or ()
    text = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    shown = [{"type": "image", "image": _readable(image)} for image in several]
    return [*plain[:-1], {**plain[-1], "content": [*shown, *text]}]


def _something(part: ReplyPart) -> ReplyPart | None:
    return part if part != ReplyPart() else None


def _parsed(content: str, schema: Schema, finish_reason: str) -> Any:
    try:
        return schema.model_validate_json(content) if isinstance(schema, type) else json.loads(content)
    except (ValueError, ValidationError) as error:
        cut = "; the reply was cut off: allow more tokens" if finish_reason == "length" else ""
        raise InputError(f"the reply does not fit the schema{cut}: {error}") from None
