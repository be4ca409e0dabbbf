"""What clients may send, as types, and what they are told about models.

Unknown fields are refused: a typo must not silently change a reply.

Fields of OpenAI's and of vLLM's that cannot change what comes out, that mean something we have under another name, or
that are not supported stand in `elsewhere`. Extensions are at the end of each class. Null is as good as absence.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from holotron.server.elsewhere import ChatElsewhereFields, ElsewhereFields, Ignored

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")]
Count = Annotated[int, Field(ge=1, le=2**31)]
Item = TypeVar("Item")
Many = Annotated[list[Item], Field(fail_fast=True)]  # of a hundred thousand mistakes the first is enough


class Wire(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Lenient(BaseModel):
    """For objects that clients echo back with fields of their own."""

    model_config = ConfigDict(extra="ignore")


# ------------------------------------------------------------------------------------------------------- messages


class TextPart(Lenient):
    type: Literal["text", "input_text", "output_text"]
    text: str


class RefusalPart(Lenient):
    """What an assistant said when it refused; clients send it back as they got it."""

    type: Literal["refusal"]
    refusal: str


class ImageAddress(Lenient):
    url: str = Field(description="data:image/png;base64,... or, where the server allows it, an http(s) address")
    detail: str | None = None


class ImagePart(Lenient):
    type: Literal["image_url", "input_image"]
    image_url: ImageAddress | str


class CalledFunction(Lenient):
    name: str
    arguments: str | dict[str, Any] | None = "{}"


class Call(Lenient):
    id: str | None = None
    type: Literal["function"] | None = "function"
    function: CalledFunction


class Message(Lenient):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | Many[Annotated[TextPart | ImagePart | RefusalPart, Field(discriminator="type")]] | None = None
    name: str | None = None
    tool_calls: Many[Call] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    function_call: CalledFunction | None = Field(default=None, description="as before there were tools")


class Function(Lenient):
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Lenient):
    type: Literal["function"] | None = "function"
    function: Function


class NamedFunction(Lenient):
    name: str


class NamedTool(Lenient):
    type: Literal["function"]
    function: NamedFunction


# -------------------------------------------------------------------------------------------------- output formats


class PlainFormat(Lenient):
    type: Literal["text"]


class JsonFormat(Lenient):
    type: Literal["json_object"]
    schema_: dict[str, Any] | None = Field(default=None, alias="schema", description="as llama.cpp and others have it")


class NamedSchema(Lenient):
    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None


class SchemaFormat(Lenient):
    type: Literal["json_schema"]
    json_schema: NamedSchema


class RegexFormat(Lenient):
    """An extension: the reply matches a regular expression."""

    type: Literal["regex"]
    regex: str


Format = Annotated[PlainFormat | JsonFormat | SchemaFormat | RegexFormat, Field(discriminator="type")]


# -------------------------------------------------------------------------------------------------------- requests


class StreamOptions(Lenient):
    include_usage: bool | None = False


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Rewind = Annotated[int, Field(ge=0)] | Literal["prompt"]


class SessionFields(Wire):
    """The session extension, version 1. See docs/server.md."""

    session_id: Name | None = Field(default=None, description="continue this session; send only what is new")
    session_open: bool | None = Field(
        default=False, description="open the session first (without session_id: under a new name)"
    )
    fork: Name | bool | None = Field(
        default=False, description="continue a copy of the session, under this name or a new one"
    )
    rewind: Rewind | None = Field(default=None, description="turns to keep, or `prompt`: drop only the last reply")
    mark: bool | None = Field(
        default=False, description="keep a snapshot before the reply: returning there computes nothing again"
    )

    @property
    def in_session(self) -> bool:
        return self.session_id is not None or bool(self.session_open)

    @model_validator(mode="after")
    def _belongs_together(self) -> SessionFields:
        self.fork = False if self.fork is None else self.fork
        if not self.in_session and (self.fork is not False or self.rewind is not None or self.mark):
            raise ValueError("fork, rewind and mark need a session_id")
        if self.session_open and (self.fork is not False or self.rewind is not None):
            raise ValueError("a session that is opened here has nothing to fork or rewind")
        return self


TokenId = Annotated[str, Field(pattern=r"^[0-9]{1,9}$")]


class GenerationFields(SessionFields, ElsewhereFields):
    model: str | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    max_tokens: Count | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    logit_bias: Annotated[dict[TokenId, Annotated[float, Field(ge=-100, le=100)]], Field(max_length=1024)] | None = None
    n: Annotated[int, Field(ge=1)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**64)] | None = None
    stop: str | Annotated[list[str], Field(max_length=16)] | None = None
    response_format: Format | None = Field(default=None, description="for plain completions an extension")
    # Extensions.
    top_k: Annotated[int, Field(ge=-1, lt=2**31)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=10)] | None = None
    ignore_eos: bool | None = False
    stop_token_ids: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(max_length=64)] | None = None
    return_token_ids: bool | None = Field(
        default=False, description="token ids and the weights' version of each beside the text"
    )

    @model_validator(mode="after")
    def _one_form(self) -> GenerationFields:
        if (form := self.asked_form()) is not None:
            if self.response_format is not None and not isinstance(self.response_format, PlainFormat):
                raise ValueError("response_format and structured_outputs (or guided_...) are two ways to say one thing")
            self.response_format = _FORMAT.validate_python(form)
        if isinstance(self.response_format, JsonFormat) and self.response_format.schema_ is not None:
            named = NamedSchema(schema=self.response_format.schema_)
            self.response_format = SchemaFormat(type="json_schema", json_schema=named)
        return self


_FORMAT: TypeAdapter[Format] = TypeAdapter(Format)


class ChatRequest(GenerationFields, ChatElsewhereFields):
    messages: Many[Message] = Field(description="in a session: only the new ones")
    max_completion_tokens: Count | None = None
    logprobs: bool | None = False
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    tools: Many[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = True
    reasoning_effort: Effort | None = None
    # Extensions.
    chat_template_kwargs: dict[str, Any] | None = Field(default=None, description="variables of the chat template")


Tokens = Many[Annotated[int, Field(ge=0, lt=2**31)]]


class CompletionRequest(GenerationFields):
    prompt: str | Tokens | Many[str] | Many[Tokens]
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    # Accepted only when they ask for nothing.
    echo: Literal[False] | None = False
    suffix: Literal[""] | None = None
    best_of: Literal[1] | None = None


# ---------------------------------------------------------------------------------------------------------- tokens


class TokenizeRequest(Wire):
    model: str | None = None
    prompt: str | None = None
    messages: Many[Message] | None = None
    tools: Many[Tool] | None = None
    reasoning_effort: Effort | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    return_token_strs: bool | None = Field(default=False, description="the text of each token too")
    add_generation_prompt: Literal[True] | None = None
    continue_final_message: Literal[False] | None = None
    add_special_tokens: Ignored = None  # nothing is put before a prompt; a template writes what it needs

    @model_validator(mode="after")
    def _one_of_them(self) -> TokenizeRequest:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("send either prompt or messages")
        return self


class DetokenizeRequest(Wire):
    model: str | None = None
    tokens: Tokens


# -------------------------------------------------------------------------------------------------------- sessions


class OpenSession(Wire):
    id: Name | None = Field(default=None, description="none: the server chooses")


class ForkSession(Wire):
    n: Annotated[int, Field(ge=1, le=1024)] = 1
    ids: Annotated[list[Name], Field(min_length=1, max_length=1024)] | None = None


class RewindSession(Wire):
    to: Rewind


class AppendToSession(Wire):
    """The prompt of a turn, without a reply yet: the next request (or each fork's) generates it."""

    messages: Annotated[Many[Message], Field(min_length=1)]
    tools: Many[Tool] | None = None
    reasoning_effort: Effort | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    mark: bool = False


class CompactSession(Wire):
    keep_first: Annotated[int, Field(ge=1)] = Field(default=1, description="turns from the beginning")
    keep_last: Annotated[int, Field(ge=0)] = Field(
        default=..., description="turns at the end; those between are forgotten"
    )


# ---------------------------------------------------------------------------------------------------------- models


class SessionCapabilities(BaseModel):
    version: int
    fork: bool
    rewind: bool
    compact: bool


class ModelCapabilities(BaseModel):
    sessions: SessionCapabilities
    images: bool
    remote_images: bool
    response_formats: list[str]


class ModelObject(BaseModel):
    """OpenAI's model object. The last four fields are extensions."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int = Field(description="tokens one session may have")
    text_tokens: tuple[int, int] = Field(
        description="ids of plain text: from the first up to, not including, the second"
    )
    capabilities: ModelCapabilities
    agent: dict[str, Any] | None = Field(
        default=None,
        description="what the model wants from whoever drives it as an agent: dialect, frame, history, views, sampling",
    )


class ModelList(BaseModel):
    object: Literal["list"]
    data: list[ModelObject]
