"""Tools that a model may call, read from Python functions, classes or dicts.

A function's parameters are described by its signature and its docstring, a class's by its fields; Pydantic turns them
into a JSON Schema and the generated arguments back into values of the annotated types.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from typing_extensions import is_typeddict

from constrained.errors import SchemaError
from constrained.schema_input import read_schema
from grammars import JsonSchema
from grammars.values.tool_calls import TOOL_NAME, held_arguments, tool_fields


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
        make: the instance for a finished JSON text, where the tool was a class; raises `ResultError`.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    grammar: JsonSchema = field(repr=False)
    parse: Callable[[str], dict[str, Any]] = field(repr=False, compare=False)
    function: Callable[..., Any] | None = field(default=None, repr=False, compare=False)
    make: Callable[[str], Any] | None = field(default=None, repr=False, compare=False)


def read_tools(tools: Sequence[Any]) -> list[Tool]:
    """Reads each of `tools`: a Python function, a class with fields, a dict in one of the usual forms, or a `Tool`.

    Classes: Pydantic models, dataclasses and TypedDicts; the call's arguments are their fields.

    Dicts: `{"type": "function", "function": {"name", "description", "parameters"}}`, or the inner object alone; the
    schema may also stand under `input_schema` or `inputSchema`.  `"strict": false` leaves the arguments any JSON object.

    Raises:
        SchemaError: a tool that cannot be read, or two of the same name.
        TypeError: nothing of these.
    """
    if isinstance(tools, str | Mapping) or not isinstance(tools, Iterable):
        raise TypeError(f"tools is {type(tools).__name__}; pass a list of functions, classes or dicts")
    if not tools:
        raise SchemaError("tools is empty; pass at least one function, class or tool dict")
    read = [_read(tool) for tool in tools]
    names = [tool.name for tool in read]
    for name in names:
        if not TOOL_NAME.fullmatch(name):
            raise SchemaError(f"tool name {name!r}: letters, digits and _ . : - only, 128 at most")
        if names.count(name) > 1:
            raise SchemaError(f"two tools are named {name!r}; names tell the calls apart, so give each its own")
    return read


def _read(tool: Any) -> Tool:
    if isinstance(tool, Tool):
        return tool
    if isinstance(tool, Mapping):
        return _from_dict(tool)
    return _from_class(tool) if isinstance(tool, type) else _from_function(tool)


def _from_dict(source: Mapping[str, Any]) -> Tool:
    name, schema, strict = tool_fields(source)
    inner = source.get("function", source)
    read = read_schema(held_arguments(schema, strict))
    return Tool(name, str(inner.get("description") or ""), schema, read.grammar, read.parse)


def _from_function(function: Any) -> Tool:
    if not callable(function):
        raise TypeError(f"a tool is a function or a dict with name and parameters, not {function!r}")
    from pydantic import ConfigDict, Field, create_model

    named = function
    while isinstance(named, functools.partial):
        named = named.func
    name = getattr(named, "__name__", type(named).__name__)
    try:
        signature = inspect.signature(function, eval_str=True)
    except (NameError, TypeError, ValueError) as error:
        raise SchemaError(f"tool {name!r}: its signature cannot be read: {error}") from error
    description, meanings = _read_docstring(inspect.getdoc(named) or "")
    members: dict[str, Any] = {}
    for parameter in signature.parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise SchemaError(
                f"tool {name!r}: parameter {str(parameter)!r} has no name to call it by; use named parameters only"
            )
        annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
        default = ... if parameter.default is parameter.empty else parameter.default
        # The alias lets a parameter have any name, also one that Pydantic keeps for itself.
        members[f"field_{len(members)}"] = (
            annotation,
            Field(default, alias=parameter.name, title=parameter.name, description=meanings.get(parameter.name)),
        )
    model = create_model(name, __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=False), **members)
    read = read_schema(model)

    def parse(text: str) -> dict[str, Any]:
        instance = read.parse(text)
        return {
            info.alias: getattr(instance, attribute)
            for attribute, info in type(instance).model_fields.items()
            if attribute in instance.model_fields_set
        }

    return Tool(name, description, read.description, read.grammar, parse, function)


def _from_class(source: type) -> Tool:
    name = source.__name__
    if not (hasattr(source, "model_fields") or is_dataclass(source) or is_typeddict(source)):
        raise SchemaError(
            f"tool {name!r}: a class is a tool where it is a Pydantic model, a dataclass or a TypedDict; "
            "pass one of these, or a function"
        )
    read = read_schema(source)
    root, document = read.grammar.document, read.grammar.document
    if "$ref" in root:  # a class that contains itself stands among the definitions
        root = document["$defs"][root["$ref"].rpartition("/")[2]]
    if root.get("type") != "object":
        raise SchemaError(f"tool {name!r}: arguments are an object, but the class is read from {root.get('type')!r}")
    shown = {key: value for key, value in read.description.items() if key not in ("title", "description")}
    return Tool(
        name, _own_docstring(source), shown, read.grammar, lambda text: _fields_of(read.parse(text)), None, read.parse
    )


def _fields_of(instance: Any) -> dict[str, Any]:
    """The fields that were given, in their order."""
    if isinstance(instance, dict):
        return dict(instance)
    if is_dataclass(instance):
        return {one.name: getattr(instance, one.name) for one in fields(instance)}
    given = instance.model_fields_set
    return {name: value for name, value in instance if name in given}


def _own_docstring(source: type) -> str:
    """The class's own description; what `dataclass` writes itself, or a base class says, is none."""
    text = inspect.cleandoc(source.__dict__.get("__doc__") or "")
    return "" if text.startswith(f"{source.__name__}(") else _read_docstring(text)[0]


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
