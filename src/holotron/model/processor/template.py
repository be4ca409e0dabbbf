"""Chat templates: messages to the exact text a checkpoint was trained on.

The template is the checkpoint's own Jinja program, run in the same sandbox as in `transformers` (immutable data, plain
JSON types only, `tojson`, `raise_exception`, `strftime_now`, `{% generation %}`), so the text is the same. Checkpoints
differ in two conventions, and both are found out by looking at the template rather than by a list of model names:

* **Content**: some templates take a list of parts and place images themselves, some only strings. The latter get
  `<image>` and a line break wherever an image part stands.
* **Reasoning**: some read a variable (`enable_thinking`), some look for `/think` or `/no_think` in the system and user
  texts and strip it. `thinking=` decides either way, and alone: the same words in a message are text, and stay there.
  `thinking=None` leaves it to the template, which `thinks_by_default` or not.

What the template writes itself is told from the text of messages by `ink`: `inked` gives a text with it, `render` one
without, for people. In messages one thing is structure: a past reply may begin with its reasoning,
`<think>...</think>`, which templates cut off or rewrite. Tags anywhere else are text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from importlib import resources
from typing import Any

import jinja2
import jinja2.ext
import jinja2.filters
import jinja2.meta
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox
import jinja2.utils

from holotron.errors import ConfigError, InputError
from holotron.model.processor.ink import REPLY, REPLY_MARKUP, Inker, Role, ink, plain, runs, without_ink
from holotron.model.processor.reply import inked_reasoning

Message = Mapping[str, Any]

_PROBE = "\ud801"  # a text no template writes itself


class _GenerationBlock(jinja2.ext.Extension):
    """Lets `{% generation %}...{% endgeneration %}` through: training frameworks mark the reply with it."""

    tags = {"generation"}  # noqa: RUF012 (jinja's own convention)

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own filter escapes HTML, which no model was trained on.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _striptags(value: Any) -> str:
    # Piece by piece, so that a `<` in somebody's text cannot take what stands in ink behind it for the rest of a tag.
    return "".join(piece if inked else jinja2.filters.do_striptags(piece) for piece, inked in runs(str(value)))


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


class _Namespace(jinja2.utils.Namespace):
    """A template's variables. Names like `__html__` are refused: Python code outside the sandbox would call them."""

    def __setitem__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            raise jinja2.sandbox.SecurityError(f"a namespace must not hold {name!r}")
        super().__setitem__(name, value)


def _namespace(*args: Any, **variables: Any) -> _Namespace:
    namespace = _Namespace()
    for name, value in dict(*args, **variables).items():
        namespace[name] = value
    return namespace


def _environment() -> jinja2.sandbox.ImmutableSandboxedEnvironment:
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.filters["striptags"] = _striptags
    environment.globals["namespace"] = _namespace
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda format: datetime.now().strftime(format)
    return environment


class ChatTemplate:
    """One checkpoint's template, ready to render."""

    def __init__(
        self,
        source: str,
        special: Mapping[str, str] | None = None,
        image: str = "<image>",
        control: Iterable[str] = (),
        *,
        for_tools: ChatTemplate | None = None,
    ) -> None:
        """`special` are the token names a template may use (`bos_token`, ...); `image` is what stands for an image;
        `control` are the tokenizer's control tokens (a `Processor` adds its own); `for_tools` is the one to take where
        there are tools, if it is another."""
        self.source = source
        self.for_tools = for_tools
        self.special = dict(special or {})
        self.image = image
        self.control = frozenset(control)
        environment = _environment()
        inker = Inker({*self.control, *self.special.values(), image, *REPLY_MARKUP})
        try:
            self._template = environment.from_string(inker.template(source, environment))
            self._variables = jinja2.meta.find_undeclared_variables(environment.parse(source))
        except jinja2.TemplateSyntaxError as error:
            raise ConfigError(f"the chat template is not valid Jinja: {error.message} (line {error.lineno})") from error

    def knowing(self, control: Iterable[str]) -> ChatTemplate:
        """The same template for a tokenizer with these control tokens."""
        if self.control >= set(control):
            return self
        for_tools = self.for_tools.knowing(control) if self.for_tools is not None else None
        return ChatTemplate(self.source, self.special, self.image, control, for_tools=for_tools)

    @classmethod
    def builtin(cls, name: str, special: Mapping[str, str] | None = None, image: str = "<image>") -> ChatTemplate:
        """A template of ours: `nemotron-vl` (Holotron-12B's format), `chatml`, or `turns` (small policies)."""
        file = resources.files(__package__) / "templates" / f"{name}.jinja"
        if not file.is_file():
            raise ConfigError(f"there is no built-in chat template {name!r}; there are: nemotron-vl, chatml, turns")
        return cls(file.read_text(encoding="utf-8").replace("<image>", image), special, image)

    # -------------------------------------------------------------------------------------------------------- rendering

    def render(self, messages: Sequence[Message], **options: Any) -> str:
        """The prompt as text, for people; see `inked`."""
        return plain(self.inked(messages, **options))

    def inked(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        thinking: bool | None = False,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """The prompt, in ink what the template wrote itself. Messages hold plain JSON; content is a string or parts of
        type `text` and `image`."""
        return self._render(_turns(messages), tools, thinking, add_generation_prompt, variables)

    def inked_after_reply(
        self,
        messages: Sequence[Message] = (),
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        thinking: bool | None = False,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """What follows a reply in the prompt: its end, and these messages."""
        turns = [{"role": Role("user"), "content": ""}, {"role": Role("assistant"), "content": REPLY}]
        turns += _turns(messages)
        whole = self._render(turns, tools, thinking, add_generation_prompt, variables)
        _, found, after = whole.rpartition(REPLY)
        if not found:
            raise ConfigError("the chat template drops the assistant's reply; sessions cannot be continued with it")
        return after

    def _render(
        self,
        turns: list[dict[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        thinking: bool | None,
        add_generation_prompt: bool,
        variables: Mapping[str, Any],
    ) -> str:
        if tools and self.for_tools is not None:
            return self.for_tools._render(turns, tools, thinking, add_generation_prompt, variables)
        if self.toggles_thinking_by_text and thinking is not None:
            turns = _with_toggle(turns, thinking)
        if not self.takes_parts:
            turns = [turn | {"content": self._flat(turn.get("content"))} for turn in turns]
        given = {} if thinking is None else {"enable_thinking": thinking, "thinking": thinking}
        given |= without_ink(variables)
        return self._run(
            turns, tools=without_ink(tools) if tools else None, add_generation_prompt=add_generation_prompt, **given
        )

    def _run(self, messages: list[dict[str, Any]], **variables: Any) -> str:
        # Whoever asks cannot say what the tokens are called.
        special = {name: ink(token) for name, token in self.special.items()}
        try:
            return self._template.render(messages=messages, **variables | special)
        except jinja2.sandbox.SecurityError as error:
            raise ConfigError(f"the chat template tried something a template must not do: {error}") from error
        except jinja2.TemplateError as error:
            raise InputError(f"the chat template does not accept these messages: {plain(str(error))}") from error
        except (TypeError, ValueError, KeyError, AttributeError, LookupError, ArithmeticError, RecursionError) as error:
            # Python's own errors from inside the template: most often a message of a shape it does not expect.
            said = f"{type(error).__name__}: {plain(str(error))}"
            raise InputError(f"the chat template failed on these messages: {said}") from error

    def _flat(self, content: Any) -> str:
        if content is None or isinstance(content, str):
            return content or ""
        return "".join(part["text"] if part["type"] == "text" else f"{ink(self.image)}\n" for part in content)

    # ------------------------------------------------------------------------------------------------ what it is like

    @cached_property
    def toggles_thinking_by_text(self) -> bool:
        return "/no_think" in self.source and "enable_thinking" not in self._variables

    @cached_property
    def thinks_by_default(self) -> bool:
        """Whether a prompt is one for reasoning when nobody says: it ends (or, failing that, reads) as it does when
        reasoning is asked for, and not as when it is refused."""
        try:
            texts = [
                self._render([{"role": Role("user"), "content": _PROBE}], None, thinking, True, {})
                for thinking in (None, True, False)
            ]
        except InputError:
            return False
        ends = [text.rpartition(_PROBE)[2] for text in texts]
        unsaid, on, off = ends if ends[1] != ends[2] else texts
        return unsaid == on != off

    @cached_property
    def takes_parts(self) -> bool:
        """Whether content may be a list of parts: render one and see if it comes out as text or as Python's repr."""
        parts = [{"type": "text", "text": _PROBE}]
        try:
            text = self._run([{"role": Role("user"), "content": parts}], tools=None, add_generation_prompt=False)
        except InputError:
            return False
        return _PROBE in text and "'type'" not in text and '"type"' not in text


def _turns(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages as a template gets them: a copy without ink, but for the role and the tags of a past reply's
    reasoning."""
    turns: list[dict[str, Any]] = without_ink(messages)
    for turn in turns:
        if turn.get("role") == "assistant":
            turn["content"] = _with_reasoning(turn.get("content"))
        if isinstance(turn.get("role"), str):
            turn["role"] = Role(turn["role"])
    return turns


def _with_reasoning(content: Any) -> Any:
    if isinstance(content, str):
        return inked_reasoning(content)
    if isinstance(content, list) and (texts := [part for part in content if isinstance(part, dict) and "text" in part]):
        texts[0]["text"] = inked_reasoning(texts[0]["text"])
    return content


def _with_toggle(turns: list[dict[str, Any]], thinking: bool) -> list[dict[str, Any]]:
    """Say `/think` or `/no_think`, in ink, in the system message: such templates look there and take it out again."""
    toggle = ink("/think" if thinking else "/no_think")
    if not turns or turns[0]["role"] != "system":
        return [{"role": Role("system"), "content": toggle}, *turns]
    content = turns[0].get("content") or ""
    said = f"{toggle}{content}" if isinstance(content, str) else [{"type": "text", "text": toggle}, *content]
    return [turns[0] | {"content": said}, *turns[1:]]
