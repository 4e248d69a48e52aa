"""Tools that a model may call: read from dicts or Python functions, and the calls that come back.

A function's parameters are described by its signature and its docstring; Pydantic turns them into a JSON Schema and
the generated arguments back into values of the annotated types.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from constrained.errors import SchemaError, UnsupportedFeature
from constrained.schema_input import read_schema
from grammars import JsonSchema

_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


@dataclass(frozen=True)
class Tool:
    """A tool with the schema of its arguments.

    Attributes:
        name: what the model calls it.
        description: what it does, for the prompt.
        parameters: JSON Schema of the arguments, an object schema, for the prompt.
        grammar: the language that the arguments are generated in.
        parse: the arguments for a finished JSON text, checked; raises `ResultError`.
        function: what runs when a call is carried out, where the tool was a Python function.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    grammar: JsonSchema = field(repr=False)
    parse: Callable[[str], dict[str, Any]] = field(repr=False, compare=False)
    function: Callable[..., Any] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class ToolCall:
    """A call whose arguments fit the tool's schema.

    Attributes:
        name: the tool's name.
        arguments: the arguments by name; instances of the annotated types where the tool is a Python function.
        arguments_json: the same as the model wrote them.
        tool: the tool.
        generation: how it came about: metrics, token ids, finish reason.
    """

    name: str
    arguments: dict[str, Any]
    arguments_json: str
    tool: Tool = field(repr=False)
    generation: Any = field(default=None, repr=False, compare=False)

    def run(self) -> Any:
        """Calls the Python function with the arguments.

        Raises:
            TypeError: the tool came from a dict, so there is nothing to call.
        """
        if self.tool.function is None:
            raise TypeError(f"tool {self.name!r} was given as a schema; only tools given as functions can be run")
        return self.tool.function(**self.arguments)


def read_tools(tools: Sequence[Any]) -> list[Tool]:
    """Reads each of `tools`: a Python function, or a dict in one of the usual forms.

    Dicts: `{"type": "function", "function": {"name", "description", "parameters"}}`, or the inner object alone; the
    schema may also stand under `input_schema` or `inputSchema`.

    Raises:
        SchemaError: a tool that cannot be read, or two of the same name.
        TypeError: neither a dict nor a function.
    """
    if not tools:
        raise SchemaError("tools is empty; pass at least one function or tool dict")
    read = [_from_dict(tool) if isinstance(tool, Mapping) else _from_function(tool) for tool in tools]
    names = [tool.name for tool in read]
    for name in names:
        if not _NAME.fullmatch(name):
            raise SchemaError(f"tool name {name!r}: letters, digits and _ . : - only, 128 at most")
        if names.count(name) > 1:
            raise SchemaError(f"two tools are named {name!r}; names tell the calls apart, so give each its own")
    return read


def chosen_tools(tools: Sequence[Tool], tool_choice: Any) -> list[Tool]:
    """The tools that `tool_choice` leaves to the model.

    Args:
        tool_choice: `"required"` (any of them) or `{"name": ...}` (that one; the form
            `{"type": "function", "function": {"name": ...}}` means the same).
    """
    if tool_choice == "required":
        return list(tools)
    if tool_choice == "auto":
        raise UnsupportedFeature(
            'tool_choice="auto" (text or a call) is not available yet; use "required" or {"name": ...}'
        )
    if isinstance(tool_choice, Mapping):
        name = tool_choice.get("name") or dict(tool_choice.get("function") or {}).get("name")
        for tool in tools:
            if tool.name == name:
                return [tool]
        raise SchemaError(f"tool_choice names {name!r}; the tools are {', '.join(tool.name for tool in tools)}")
    raise TypeError(f'tool_choice is {tool_choice!r}; pass "required" or {{"name": ...}}')


def calls_grammar(tools: Sequence[Tool]) -> JsonSchema:
    """The language of one call, `{"name": ..., "arguments": {...}}`, to one of `tools`.

    Each tool's schema is a document of its own, so that its `#/...` references keep their meaning.
    """
    documents = {_document(tool): tool.grammar.text for tool in tools}
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": tool.name}, "arguments": {"$ref": _document(tool)}},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for tool in tools
    ]
    return JsonSchema(calls[0] if len(calls) == 1 else {"anyOf": calls}, resources=documents)


def read_call(tools: Sequence[Tool], text: str, generation: Any = None) -> ToolCall:
    """The call that a finished text stands for."""
    written = json.loads(text)
    tool = next(tool for tool in tools if tool.name == written["name"])
    arguments_json = _member(text, "arguments")
    return ToolCall(tool.name, tool.parse(arguments_json), arguments_json, tool, generation)


def _document(tool: Tool) -> str:
    return f"urn:tool:{tool.name}"


def _member(text: str, name: str) -> str:
    """The JSON text of one member of an object, as it was written (digits and escapes untouched)."""
    decoder = json.JSONDecoder()
    position = text.index("{") + 1
    while True:
        position = _skip(text, position, " \t\r\n,")
        key, position = decoder.raw_decode(text, position)
        position = _skip(text, position, " \t\r\n:")
        _, end = decoder.raw_decode(text, position)
        if key == name:
            return text[position:end]
        position = end


def _skip(text: str, position: int, characters: str) -> int:
    while text[position] in characters:
        position += 1
    return position


def _from_dict(source: Mapping[str, Any]) -> Tool:
    inner = source.get("function", source)
    if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
        raise SchemaError(f"a tool dict needs a name: {json.dumps(dict(source), default=repr)[:80]}")
    name = inner["name"]
    parameters = next(
        (inner[key] for key in ("parameters", "input_schema", "inputSchema") if inner.get(key) is not None),
        {"type": "object", "properties": {}, "additionalProperties": False},
    )
    if not isinstance(parameters, Mapping):
        raise SchemaError(f"tool {name!r}: parameters is a JSON Schema object, not {parameters!r}")
    kind = parameters.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise SchemaError(f"tool {name!r}: arguments are an object, but parameters has type {kind!r}")
    schema = {**parameters, "type": "object"}
    read = read_schema(schema)
    return Tool(name, str(inner.get("description") or ""), schema, read.grammar, read.parse)


def _from_function(function: Any) -> Tool:
    if not callable(function):
        raise TypeError(f"a tool is a function or a dict with name and parameters, not {function!r}")
    from pydantic import ConfigDict, Field, create_model

    name = getattr(function, "__name__", type(function).__name__)
    try:
        signature = inspect.signature(function, eval_str=True)
    except (NameError, TypeError, ValueError) as error:
        raise SchemaError(f"tool {name!r}: its signature cannot be read: {error}") from error
    description, meanings = _read_docstring(inspect.getdoc(function) or "")
    fields: dict[str, Any] = {}
    for parameter in signature.parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise SchemaError(
                f"tool {name!r}: parameter {str(parameter)!r} has no name to call it by; use named parameters only"
            )
        annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
        default = ... if parameter.default is parameter.empty else parameter.default
        # The alias lets a parameter have any name, also one that Pydantic keeps for itself.
        fields[f"field_{len(fields)}"] = (
            annotation,
            Field(default, alias=parameter.name, title=parameter.name, description=meanings.get(parameter.name)),
        )
    model = create_model(name, __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=False), **fields)
    read = read_schema(model)

    def parse(text: str) -> dict[str, Any]:
        instance = read.parse(text)
        return {
            info.alias: getattr(instance, attribute)
            for attribute, info in type(instance).model_fields.items()
            if attribute in instance.model_fields_set
        }

    return Tool(name, description, read.description, read.grammar, parse, function)


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The description and the meaning of each parameter, from a Google, NumPy or Sphinx style docstring."""
    meanings = {match[1]: match[2].strip() for match in re.finditer(r":param (?:[^:]+ )?(\w+):\s*(.+)", text)}
    section = re.search(
        r"^(?:Args|Arguments|Parameters):?\s*\n(?:-+\n)?((?:[ \t]*\S.*(?:\n|\Z)|[ \t]*\n(?=[ \t]))+)", text, re.M
    )
    if section is not None:
        for match in re.finditer(r"^\s*\*{0,2}(\w+)(?: ?\([^)]*\))?:[ \t]*(\S.*(?:\n\s{6,}\S.*)*)", section[1], re.M):
            meanings.setdefault(match[1], " ".join(match[2].split()))
        for match in re.finditer(r"^(\w+) : .*\n((?:\s{2,}\S.*\n?)+)", section[1], re.M):
            meanings.setdefault(match[1], " ".join(match[2].split()))
    description = re.split(
        r"^\s*(?:(?:Args|Arguments|Parameters|Returns|Raises|Yields|Examples?):?\s*$|:param |:returns?:)",
        text,
        flags=re.M,
    )[0]
    return " ".join(description.split()), meanings
