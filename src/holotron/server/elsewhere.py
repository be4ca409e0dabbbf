"""Fields that clients of other servers send: OpenAI's that we do not have, vLLM's, which come in `extra_body`, and
those of services for models of the same families.

Three kinds. Some cannot change a reply: they are accepted and ignored. Some mean what we have under another name: they
are translated (`structured_outputs`, `guided_json`). The others would change the reply in ways that are not supported:
they are accepted as long as they ask for nothing, and refused by name otherwise.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json

# Why, or what to use instead; the message begins "<name> is not supported".
NOT_SUPPORTED = {
    "add_generation_prompt": "only true",
    "allowed_token_ids": "use logit_bias",
    "audio": "",
    "bad_words": "use logit_bias",
    "best_of": "use n",
    "chat_template": "the checkpoint's own is used; chat_template_kwargs sets its variables",
    "continue_final_message": "only false",
    "documents": "put them into messages",
    "echo": "only false",
    "function_call": "use tool_choice",
    "functions": "use tools",
    "guided_grammar": "use a JSON schema or a regex",
    "include_stop_str_in_output": "only false",
    "length_penalty": "there is no beam search",
    "min_tokens": "",
    "mm_processor_kwargs": "pictures are cut as the checkpoint says",
    "modalities": 'only ["text"]',
    "moderation": "",
    "prompt_logprobs": "logprobs are those of the reply",
    "skip_special_tokens": "only true",
    "spaces_between_special_tokens": "only true",
    "suffix": "only an empty one",
    "thinking_budget": "max_tokens bounds reasoning and reply together",
    "truncate_prompt_tokens": "",
    "use_beam_search": "only false",
    "web_search_options": "",
}

Nothing = Annotated[None, Field(description="not supported")]
Ignored = Annotated[Any, Field(description="accepted, changes nothing")]
Empty = Annotated[list[Any], Field(max_length=0)]


class StructuredOutputs(BaseModel):
    """vLLM's way of asking for a form; one of them."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    json_: dict[str, Any] | str | None = Field(default=None, alias="json")
    regex: str | None = None
    choice: Annotated[list[str], Field(min_length=1, max_length=1024)] | None = None
    json_object: bool | None = None
    grammar: Nothing = None
    structural_tag: Nothing = None
    disable_any_whitespace: Ignored = None
    disable_additional_properties: Ignored = None
    whitespace_pattern: Ignored = None
    disable_fallback: Ignored = None

    def response_format(self) -> dict[str, Any] | None:
        """The same in OpenAI's words, and our own where it has none."""
        forms: list[dict[str, Any]] = []
        if self.json_ is not None:
            schema = from_json(self.json_) if isinstance(self.json_, str) else self.json_
            forms.append({"type": "json_schema", "json_schema": {"name": "guided", "schema": schema}})
        if self.regex is not None:
            forms.append({"type": "regex", "regex": self.regex})
        if self.choice is not None:
            forms.append({"type": "regex", "regex": "|".join(map(re.escape, self.choice))})
        if self.json_object:
            forms.append({"type": "json_object"})
        if len(forms) > 1:
            raise ValueError("one form at a time: json, regex, choice or json_object")
        return forms[0] if forms else None


class Thinking(BaseModel):
    model_config = ConfigDict(extra="forbid")

    type: Literal["enabled", "disabled", "auto"]


class ReasoningFields(BaseModel):
    """In requests for chat and for responses: reasoning as Alibaba's, Volcengine's and Moonshot's services switch it.
    Agents for browsers and desktops that were made for their models (Midscene, UI-TARS) say so in every request."""

    enable_thinking: bool | None = None
    thinking: Thinking | None = None
    thinking_budget: Nothing = None
    vl_high_resolution_images: Ignored = None  # as a picture's `detail`

    def asked_thinking(self) -> bool | None:
        if self.enable_thinking is not None or self.thinking is None:
            return self.enable_thinking
        return {"enabled": True, "disabled": False, "auto": None}[self.thinking.type]


class ElsewhereFields(BaseModel):
    """In requests for chat and for plain completions."""

    # Cannot change the reply.
    user: str | None = None
    metadata: dict[str, Any] | None = None
    priority: Ignored = None
    request_id: Ignored = None
    cache_salt: Ignored = None
    # Translated.
    structured_outputs: StructuredOutputs | None = None
    guided_json: dict[str, Any] | str | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_decoding_backend: Ignored = None
    guided_whitespace_pattern: Ignored = None
    # Accepted only when they ask for nothing.
    allowed_token_ids: Nothing = None
    bad_words: Empty | None = None
    guided_grammar: Nothing = None
    include_stop_str_in_output: Literal[False] | None = None
    length_penalty: Annotated[float, Field(ge=1, le=1)] | None = None
    min_tokens: Literal[0] | None = None
    prompt_logprobs: Nothing = None
    skip_special_tokens: Literal[True] | None = None
    spaces_between_special_tokens: Literal[True] | None = None
    truncate_prompt_tokens: Nothing = None
    use_beam_search: Literal[False] | None = None

    def asked_form(self) -> dict[str, Any] | None:
        """The response format in vLLM's words, if there is one."""
        if self.structured_outputs is not None:
            return self.structured_outputs.response_format()
        guided = {"json": self.guided_json, "regex": self.guided_regex, "choice": self.guided_choice}
        return StructuredOutputs.model_validate(guided).response_format()


class ChatElsewhereFields(ReasoningFields):
    """In requests for chat alone."""

    # Cannot change the reply.
    store: bool | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prediction: Ignored = None  # a guess of the reply, to make it faster
    prompt_cache_key: str | None = None
    prompt_cache_options: Ignored = None
    prompt_cache_retention: str | None = None
    include_reasoning: bool | None = None
    verbosity: str | None = None  # a wish that the family's models do not know
    # Accepted only when they ask for nothing.
    add_generation_prompt: Literal[True] | None = None
    audio: Nothing = None
    chat_template: Nothing = None
    continue_final_message: Literal[False] | None = None
    documents: Empty | None = None
    echo: Literal[False] | None = None
    function_call: Literal["none", "auto"] | None = None
    functions: Empty | None = None
    mm_processor_kwargs: Annotated[dict[str, Any], Field(max_length=0)] | None = None
    modalities: Annotated[list[Literal["text"]], Field(max_length=1)] | None = None
    moderation: Nothing = None
    web_search_options: Nothing = None
