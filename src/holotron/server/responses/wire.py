"""What clients of the Responses API may send, as types.

As in `server.wire`, unknown fields are refused. What exists at OpenAI and not here is refused by its name
(`refuse_unsupported`), unless it asks for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from holotron.server.elsewhere import ReasoningFields
from holotron.server.errors import ApiError
from holotron.server.wire import Count, JsonFormat, Lenient, Many, RegexFormat, Wire


def not_supported(what: str, param: str, instead: str = "") -> ApiError:
    return ApiError(400, f"{what} is not supported{instead and f': {instead}'}", code="not_supported", param=param)


# ---------------------------------------------------------------------------------------------------------- items


class Part(Lenient):
    """One piece of a message's or a function output's content."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | dict[str, Any] | None = None
    detail: str | None = None
    file_id: str | None = None

    @model_validator(mode="after")
    def _as_chat_has_it(self) -> Part:
        """Many clients (LangChain among them) write pictures in chat's form; from here on there is one."""
        if self.type == "image_url":
            self.type = "input_image"
        if isinstance(self.image_url, dict) and isinstance(url := self.image_url.get("url"), str):
            detail = self.image_url.get("detail")
            self.detail = self.detail or (detail if isinstance(detail, str) else None)
            self.image_url = url
        return self


class Summary(Lenient):
    type: str = "summary_text"
    text: str = ""


class MessageItem(Lenient):
    type: Literal["message"] = "message"
    id: str | None = None
    role: Literal["user", "assistant", "system", "developer"]
    content: str | Many[Part]
    status: str | None = None
    phase: str | None = None


class FunctionCallItem(Lenient):
    type: Literal["function_call"]
    id: str | None = None
    call_id: str
    name: str
    arguments: str
    status: str | None = None


class FunctionOutputItem(Lenient):
    type: Literal["function_call_output"]
    id: str | None = None
    call_id: str
    output: str | Many[Part]
    status: str | None = None


class ReasoningItem(Lenient):
    type: Literal["reasoning"]
    id: str | None = None
    summary: Many[Summary] = Field(default_factory=list)
    content: Many[Summary] | None = None
    encrypted_content: str | None = None
    status: str | None = None


class ComputerCallItem(Lenient):
    type: Literal["computer_call"]
    id: str | None = None
    call_id: str
    action: dict[str, Any] | None = None
    actions: Many[dict[str, Any]] | None = None
    pending_safety_checks: Many[dict[str, Any]] | None = None
    status: str | None = None


class Screenshot(Lenient):
    type: Literal["computer_screenshot", "input_image"]
    image_url: str | None = None
    file_id: str | None = None
    detail: str | None = None
    current_url: str | None = None


class ComputerOutputItem(Lenient):
    type: Literal["computer_call_output"]
    id: str | None = None
    call_id: str
    output: Screenshot
    acknowledged_safety_checks: Many[dict[str, Any]] | None = None
    status: str | None = None


class ReferenceItem(Lenient):
    """An item of a stored response, by its id."""

    type: Literal["item_reference"]
    id: str


class OtherItem(Lenient):
    """A kind of item that exists elsewhere; refused by name."""

    type: str


KINDS = {
    "message": "Message",
    "function_call": "FunctionCall",
    "function_call_output": "FunctionOutput",
    "reasoning": "Reasoning",
    "computer_call": "ComputerCall",
    "computer_call_output": "ComputerOutput",
    "item_reference": "Reference",
}


def _kind(value: Any) -> str:
    """Names of branches begin with a capital letter: errors leave those out of `param`."""
    named = value.get("type") if isinstance(value, Mapping) else getattr(value, "type", None)
    if named is None:  # the short form of a message; a bare reference has an id and nothing else
        return "Reference" if isinstance(value, Mapping) and set(value) == {"id"} else "Message"
    return KINDS.get(named, "Other") if isinstance(named, str) else "Other"


Item = Annotated[
    Annotated[MessageItem, Tag("Message")]
    | Annotated[FunctionCallItem, Tag("FunctionCall")]
    | Annotated[FunctionOutputItem, Tag("FunctionOutput")]
    | Annotated[ReasoningItem, Tag("Reasoning")]
    | Annotated[ComputerCallItem, Tag("ComputerCall")]
    | Annotated[ComputerOutputItem, Tag("ComputerOutput")]
    | Annotated[ReferenceItem, Tag("Reference")]
    | Annotated[OtherItem, Tag("Other")],
    Discriminator(_kind),
]

Input = Annotated[
    Annotated[str, Tag("Text")] | Annotated[Many[Item], Tag("Items")],
    Discriminator(lambda value: "Text" if isinstance(value, str) else "Items"),
]


# ---------------------------------------------------------------------------------------------------------- tools


class ToolSpec(Lenient):
    """A function, or the computer; others are refused by name."""

    type: str
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    display_width: Annotated[int, Field(ge=1, le=2**16)] | None = None
    display_height: Annotated[int, Field(ge=1, le=2**16)] | None = None
    environment: str | None = None


class ChosenTool(Lenient):
    type: str
    name: str | None = None


# --------------------------------------------------------------------------------------------------------- formats


class PlainText(Lenient):
    type: Literal["text"]


class JsonSchema(Lenient):
    type: Literal["json_schema"]
    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None


class TextConfig(Lenient):
    format: Annotated[PlainText | JsonFormat | JsonSchema | RegexFormat, Field(discriminator="type")] | None = None
    verbosity: str | None = None


class Reasoning(Lenient):
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    summary: str | None = None
    generate_summary: str | None = None
    mode: str | None = None


# --------------------------------------------------------------------------------------------------------- requests


class ResponsesRequest(Wire, ReasoningFields):
    model: str | None = None
    input: Input | None = Field(default=None, description="a text, or items: messages, calls and outputs")
    instructions: str | None = Field(default=None, description="not carried over from the previous response")
    previous_response_id: str | None = Field(default=None, description="continue from any stored response")
    store: bool | None = Field(default=True, description="keep it, to be continued and fetched")
    stream: bool | None = False
    tools: Many[ToolSpec] | None = None
    tool_choice: Literal["none", "auto", "required"] | ChosenTool | None = None
    parallel_tool_calls: bool | None = None
    text: TextConfig | None = None
    reasoning: Reasoning | None = None
    max_output_tokens: Count | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    include: list[str] | None = None
    metadata: dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]] | None = None
    # Cannot change the reply.
    stream_options: dict[str, Any] | None = None
    max_tool_calls: int | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    service_tier: str | None = None
    # Refused by name when they ask for something.
    background: bool | None = None
    conversation: Any = None
    prompt: Any = None
    context_management: Any = None
    moderation: Any = None
    access_programs: Any = None
    image: Any = None
    # Extensions, as in /v1/chat/completions.
    seed: Annotated[int, Field(ge=-(2**63), lt=2**64)] | None = None
    top_k: Annotated[int, Field(ge=-1, lt=2**31)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    ignore_eos: bool = False
    chat_template_kwargs: dict[str, Any] | None = None

    @field_validator("metadata")
    @classmethod
    def _few(cls, value: dict[str, str] | None) -> dict[str, str] | None:
        if value is not None and len(value) > 16:
            raise ValueError("metadata has at most 16 entries")
        return value


def refuse_unsupported(request: ResponsesRequest) -> None:
    """By name, and with what to do instead."""
    instead = {
        "background": "replies are waited for, or streamed",
        "conversation": "continue with previous_response_id",
        "prompt": "send instructions and input",
        "context_management": "truncation: auto drops what no longer fits",
        "moderation": "",
        "access_programs": "",
    }
    for name, hint in instead.items():
        if getattr(request, name):
            raise not_supported(name, name, hint)
    if isinstance(request.image, Mapping) and request.image.get("context_compression") == "enabled":
        raise not_supported("image.context_compression", "image")
    if "reasoning.encrypted_content" in (request.include or ()):
        hint = "store the response and continue it, or send its reasoning items back as they are"
        raise not_supported("include: reasoning.encrypted_content", "include", hint)
    if request.reasoning is not None and request.reasoning.mode not in (None, "standard"):
        raise not_supported(f"reasoning.mode {request.reasoning.mode!r}", "reasoning")
    for n, item in enumerate(request.input if isinstance(request.input, list) else ()):
        if isinstance(item, OtherItem):
            raise not_supported(f"an input item of type {item.type!r}", f"input[{n}]")
        if isinstance(item, ReasoningItem) and item.encrypted_content and not (item.content or item.summary):
            hint = "this server did not write it and cannot read it"
            raise not_supported("encrypted reasoning", f"input[{n}].encrypted_content", hint)
