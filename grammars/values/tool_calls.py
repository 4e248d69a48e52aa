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
    "json", "hermes", "llama3_json", "pythonic", "mistral", "mistral_args", "deepseek", "deepseek_v31", "harmony"
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
            return ToolSignature(called, JsonSchema(parameters if strict else {"type": "object"}))
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


@dataclass(frozen=True, init=False)
class ToolCalls(Grammar):
    """What a model says that may call tools.

    Attributes:
        tools: the tools that may be called; under a choice that names one, that one alone.
        format: how calls are written.
        tool_choice: `"auto"`: text, and then calls or none; `"required"`: calls alone; `"none"`: text in which no call
            begins.
        parallel: whether several calls may follow one another.
        content: what is said where no call is made.  `None` is free text, behind which calls may follow; a grammar of one's
            own is instead of a call, never before one.
        special: marks of the format that are tokens of their own in the vocabulary; the others are spelled as text.
    """

    tools: tuple[ToolSignature, ...]
    format: ToolFormat
    tool_choice: ToolMode
    parallel: bool
    content: Part | None
    special: tuple[str, ...]

    def __init__(
        self,
        tools: Iterable[Any],
        format: ToolFormat = "json",
        tool_choice: str | Mapping[str, Any] = "auto",
        parallel: bool = True,
        content: Part | None = None,
        special: Iterable[str] = (),
    ) -> None:
        """
        Args:
            tools: dicts in one of the usual forms, `ToolSignature`s, or anything with `name` and `grammar`.
            tool_choice: a mode, or `{"name": ...}` (also in OpenAI's form), which asks for one call to that tool.

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
        mode, named = read_choice(tool_choice)
        if not names and mode != "none":
            raise SchemaError('tools is empty; pass at least one tool, or tool_choice="none"')
        if named is not None:
            if named not in names:
                raise SchemaError(f"tool_choice names {named!r}; the tools are {', '.join(names)}")
            signatures, parallel = tuple(tool for tool in signatures if tool.name == named), False
        if content is not None and mode == "required":
            raise GrammarError("content is what is said instead of a call, which tool_choice requires; leave it out")
        put = object.__setattr__
        put(self, "tools", signatures)
        put(self, "format", format)
        put(self, "tool_choice", mode)
        put(self, "parallel", bool(parallel) and format != "harmony")
        put(self, "content", None if content is None else part("content", content))
        put(self, "special", tuple(sorted({check_text("special", one) for one in special})))

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            ToolCalls,
            (self.tools, self.format, self.tool_choice, self.parallel, self.content, self.special),
        )


def read_choice(tool_choice: str | Mapping[str, Any]) -> tuple[ToolMode, str | None]:
    """The mode that a `tool_choice` asks for, and the tool that it names, if it does.

    Raises:
        GrammarError: it is none.
    """
    if isinstance(tool_choice, Mapping):
        inner = tool_choice.get("function")
        name = tool_choice.get("name") or (inner.get("name") if isinstance(inner, Mapping) else None)
        if isinstance(name, str):
            return "required", name
    for mode in get_args(ToolMode):
        if tool_choice == mode:
            return mode, None
    raise GrammarError(
        f'tool_choice={tool_choice!r} is not accepted; pass "auto", "required", "none" or {{"name": ...}}'
    )
