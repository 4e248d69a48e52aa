"""Calls to tools as a value: which tools, in which format, and when."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from grammars.errors import GrammarError, SchemaError
from grammars.values.base import Grammar, check_text, one_of
from grammars.values.combined import Part, part
from grammars.values.json_schema import JsonSchema

ToolFormat = Literal[
    "json",
    "hermes",
    "qwen3_coder",
    "llama3_json",
    "pythonic",
    "mistral",
    "mistral_args",
    "deepseek",
    "deepseek_v31",
    "harmony",
]
"""How a call is written; `grammars.tool_calls.formats` has each in full."""

ToolMode = Literal["auto", "required", "none"]

TOOL_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")

_PARAMETERS = ("parameters", "input_schema", "inputSchema")
_NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class ToolSignature:
    """A tool's name and the language of its arguments.

    Attributes:
        name: letters, digits and `_ . : -`, 128 at most.
        arguments: an object schema.
    """

    name: str
    arguments: JsonSchema

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not TOOL_NAME.fullmatch(self.name):
            raise SchemaError(f"tool name {self.name!r}: letters, digits and _ . : - only, 128 at most")
        if not isinstance(self.arguments, JsonSchema):
            raise GrammarError(f"tool {self.name!r}: its arguments are a JsonSchema, not {self.arguments!r}")

    @staticmethod
    def of(value: Any) -> ToolSignature:
        """The signature of a tool given as dict in a usual form, or as anything with `name` and `grammar`.

        In a dict `"strict": false` leaves the arguments any JSON object: the schema is then for the prompt alone.

        Raises:
            SchemaError: neither, or a schema of something else than an object.
        """
        if isinstance(value, ToolSignature):
            return value
        if isinstance(value, Mapping):
            called, parameters, strict = tool_fields(value)
            return ToolSignature(called, held_arguments(parameters, strict))
        name, grammar = getattr(value, "name", None), getattr(value, "grammar", None)
        if name is None or grammar is None:
            raise SchemaError(f"a tool is a dict with name and parameters, not {value!r}")
        return ToolSignature(name, grammar)


def tool_fields(source: Mapping[str, Any]) -> tuple[str, dict[str, Any], bool]:
    """Name, object schema of the arguments, and whether they are held to it, of a tool dict.

    Raises:
        SchemaError: no name, or a schema of something else than an object.
    """
    inner = source.get("function", source)
    if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
        raise SchemaError(f"a tool dict needs a name: {str(dict(source))[:80]}")
    name = inner["name"]
    parameters = next((inner[key] for key in _PARAMETERS if inner.get(key) is not None), _NO_PARAMETERS)
    if not isinstance(parameters, Mapping):
        raise SchemaError(f"tool {name!r}: parameters is a JSON Schema object, not {parameters!r}")
    kind = parameters.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise SchemaError(f"tool {name!r}: arguments are an object, but parameters has type {kind!r}")
    strict = inner.get("strict", source.get("strict"))
    if strict not in (None, True, False):
        raise SchemaError(f"tool {name!r}: strict is {strict!r}; pass true or false")
    return name, {**parameters, "type": "object"}, strict is not False


def held_arguments(parameters: Mapping[str, Any], strict: bool) -> JsonSchema:
    """What arguments are held to: the schema; or, where they need not be `strict`, that they are an object.

    The names that the schema declares stay known to the formats that write each argument in a place of its own.
    """
    if strict:
        return JsonSchema(parameters)
    declared = parameters.get("properties")
    names = dict.fromkeys(declared, True) if isinstance(declared, Mapping) else {}
    loose = {"type": "object", **({"properties": names} if names else {})}
    return JsonSchema(loose, property_order="any")


@dataclass(frozen=True)
class ToolChoice:
    """What a `tool_choice` asks for.

    Attributes:
        mode: whether calls may or must be made.
        names: the tools that may be called; `None`: all.
        one_call: whether exactly one call is asked for.
    """

    mode: ToolMode
    names: tuple[str, ...] | None = None
    one_call: bool = False

    @staticmethod
    def of(value: str | Mapping[str, Any], tools: Iterable[str] = ()) -> ToolChoice:
        """Reads a mode; `{"name": ...}`, also in OpenAI's form; or OpenAI's `allowed_tools` in the form of either route.

        Raises:
            GrammarError: it is none of these.
            SchemaError: a name that is not among `tools`.
        """
        choice = _allowed(value) or _named(value)
        if choice is None and isinstance(value, str) and value in get_args(ToolMode):
            choice = ToolChoice(value)  # type: ignore[arg-type]
        if choice is None:
            raise GrammarError(
                f'tool_choice={value!r} is not accepted; pass "auto", "required", "none", {{"name": ...}} or allowed_tools'
            )
        known = tuple(tools)
        for name in choice.names or ():
            if name not in known:
                raise SchemaError(f"tool_choice names {name!r}; the tools are {', '.join(known)}")
        return choice


def _named(value: Any) -> ToolChoice | None:
    name = _name_of(value)
    return None if name is None else ToolChoice("required", (name,), one_call=True)


def _allowed(value: Any) -> ToolChoice | None:
    if not isinstance(value, Mapping) or value.get("type") != "allowed_tools":
        return None
    inner = value.get("allowed_tools", value)
    mode, tools = (inner.get("mode", "auto"), inner.get("tools")) if isinstance(inner, Mapping) else (None, None)
    names = [_name_of(tool) for tool in tools] if isinstance(tools, list) else []
    if mode not in ("auto", "required") or not names or None in names:
        raise GrammarError('allowed_tools has a mode, "auto" or "required", and a list of tools by their names')
    return ToolChoice(mode, tuple(dict.fromkeys(name for name in names if name is not None)))


def _name_of(value: Any) -> str | None:
    if not isinstance(value, Mapping) or value.get("type", "function") != "function":
        return None
    inner = value.get("function")
    name = value.get("name") or (inner.get("name") if isinstance(inner, Mapping) else None)
    return name if isinstance(name, str) else None


@dataclass(frozen=True, init=False)
class ToolCalls(Grammar):
    """What a model says that may call tools.

    Attributes:
        tools: the tools that may be called; under a choice that names some, those alone.
        format: how calls are written.
        tool_choice: `"auto"`: text, and then calls or none; `"required"`: calls alone; `"none"`: text in which no call
            begins.
        parallel: whether several calls may follow one another.
        content: what is said where no call is made.  `None` is free text, behind which calls may follow; a grammar of one's
            own is instead of a call, never before one.
        special: marks of the format that are tokens of their own in the vocabulary; the others are spelled as text.
        thoughts: whether thoughts may come before, in a format that has a place for them (`harmony`); before the others
            `Reasoning` brings them.
    """

    tools: tuple[ToolSignature, ...]
    format: ToolFormat
    tool_choice: ToolMode
    parallel: bool
    content: Part | None
    special: tuple[str, ...]
    thoughts: bool

    def __init__(
        self,
        tools: Iterable[Any],
        format: ToolFormat = "json",
        tool_choice: str | Mapping[str, Any] = "auto",
        parallel: bool = True,
        content: Part | None = None,
        special: Iterable[str] = (),
        thoughts: bool = True,
    ) -> None:
        """
        Args:
            tools: dicts in one of the usual forms, `ToolSignature`s, or anything with `name` and `grammar`.
            tool_choice: a mode; or `{"name": ...}` (also in OpenAI's form), which asks for one call to that tool; or OpenAI's
                `allowed_tools`, which names those that may be called.

        Raises:
            SchemaError: a tool that cannot be read, two of one name, or a choice that names none.
            GrammarError: an unknown option value.
        """
        if isinstance(tools, (str, Mapping)) or not isinstance(tools, Iterable):
            raise GrammarError(f"tools is {type(tools).__name__}; pass a list of tools")
        signatures = tuple(ToolSignature.of(tool) for tool in tools)
        names = [tool.name for tool in signatures]
        for name in names:
            if names.count(name) > 1:
                raise SchemaError(f"two tools are named {name!r}; names tell the calls apart, so give each its own")
        one_of("format", format, get_args(ToolFormat))
        choice = ToolChoice.of(tool_choice, names)
        if not names and choice.mode != "none":
            raise SchemaError('tools is empty; pass at least one tool, or tool_choice="none"')
        if choice.names is not None:
            signatures = tuple(tool for tool in signatures if tool.name in choice.names)
        if content is not None and choice.mode == "required":
            raise GrammarError("content is what is said instead of a call, which tool_choice requires; leave it out")
        put = object.__setattr__
        put(self, "tools", signatures)
        put(self, "format", format)
        put(self, "tool_choice", choice.mode)
        put(self, "parallel", bool(parallel) and not choice.one_call and format != "harmony")
        put(self, "content", None if content is None else part("content", content))
        put(self, "special", tuple(sorted({check_text("special", one) for one in special})))
        put(self, "thoughts", bool(thoughts))

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            ToolCalls,
            (self.tools, self.format, self.tool_choice, self.parallel, self.content, self.special, self.thoughts),
        )
