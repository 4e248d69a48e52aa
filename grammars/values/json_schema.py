"""JSON Schema as a value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from grammars.errors import GrammarError, LimitExceeded, SchemaError
from grammars.values.base import Grammar, one_of
from grammars.values.json_text import read_json

Whitespace = Literal["bounded", "compact", "any"]
PropertyOrder = Literal["schema", "any"]
Formats = Literal["assert", "declared", "annotate", "strict"]
Escapes = Literal["any", "canonical"]

_MAX_RESPELLED = 100_000

DRAFT_NAMES = ("4", "6", "7", "2019-09", "2020-12")


def _parse(text: str | bytes, what: str) -> Any:
    """The JSON value of `text`, numbers as `read_json` has them."""
    try:
        return read_json(text)
    except RecursionError:
        raise LimitExceeded(f"{what} is nested too deeply to be read", pointer="") from None
    except UnicodeDecodeError as error:
        raise SchemaError(f"{what} is not JSON: it is no {error.encoding} text at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise SchemaError(f"{what} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None


def _write(value: object, what: str) -> str:
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"), check_circular=False)
    except RecursionError:
        raise LimitExceeded(f"{what} is nested too deeply, or contains itself", pointer="") from None
    except (TypeError, ValueError) as error:
        raise SchemaError(f"{what} is not JSON: {error}") from None


def _schema_text(schema: object, what: str) -> tuple[str, Any]:
    """The text that stands for `schema`, and its parsed value where that is at hand already."""
    if isinstance(schema, (str, bytes, bytearray)):
        parsed = _parse(bytes(schema) if isinstance(schema, bytearray) else schema, what)
        try:  # one text for all spellings; where there are fractions, or very much text, the given one stays
            if len(schema) > _MAX_RESPELLED:
                raise TypeError
            text = json.dumps(parsed, separators=(",", ":"), check_circular=False)
        except TypeError:
            text = schema if isinstance(schema, str) else bytes(schema).decode(json.detect_encoding(schema))
        except RecursionError:
            raise LimitExceeded(f"{what} is nested too deeply", pointer="") from None
    else:
        text, parsed = _write(schema, what), None
    if text[:1] not in "{tf" and text.lstrip()[:1] not in "{tf":
        raise SchemaError(f"{what} is neither an object nor a boolean: {text[:40]}", pointer="")
    return text, parsed


@dataclass(frozen=True, init=False)
class JsonSchema(Grammar):
    """JSON documents that satisfy a JSON Schema.

    Attributes:
        text: the schema as JSON text; the caller's own objects are not kept.
        whitespace: between JSON tokens: `"bounded"`, `"compact"` (none), `"any"`, or a regular expression (ECMA
            dialect, whole match) over JSON's four whitespace characters.
        property_order: `"schema"`: declared properties in the order of `properties`, then names that are only
            `required`, then the rest; `"any"`: every order.
        formats: `"assert"` holds known formats and warns of unknown ones, `"strict"` refuses unknown ones,
            `"annotate"` ignores `format`; `"declared"` is `"assert"` save for schemas that declare a draft in which
            `format` is an annotation (2019-09 and 2020-12, by `$schema` or `draft`): there it warns.
        draft: one of `DRAFT_NAMES`; `None` goes by `$schema`, and without it reads as 2020-12 with the idioms of
            earlier drafts.
        resources: pairs of URI and JSON text that references may name; nothing is ever fetched.
        escapes: `"any"` string escape that JSON knows, or `"canonical"`: only those that are needed.

    Raises `SchemaError` where the schema is not JSON, `GrammarError` for an unknown option value.
    """

    text: str
    whitespace: str
    property_order: PropertyOrder
    formats: Formats
    draft: str | None
    resources: tuple[tuple[str, str], ...]
    escapes: Escapes
    _parsed: list[Any] = field(repr=False, compare=False)

    def __init__(
        self,
        schema: Mapping[str, Any] | bool | str | bytes,
        whitespace: str = "bounded",
        property_order: PropertyOrder = "schema",
        formats: Formats = "assert",
        draft: str | None = None,
        resources: Mapping[str, Any] | None = None,
        escapes: Escapes = "any",
    ) -> None:
        if not isinstance(whitespace, str):
            raise GrammarError(f"whitespace={whitespace!r} is not a string")
        if whitespace not in get_args(Whitespace):
            _check_whitespace(whitespace)
        one_of("property_order", property_order, get_args(PropertyOrder))
        one_of("formats", formats, get_args(Formats))
        one_of("escapes", escapes, get_args(Escapes))
        if draft is not None:
            one_of("draft", draft, DRAFT_NAMES)
        text, parsed = _schema_text(schema, "the schema")
        # Past the frozen dataclass's own guard; nothing else ever writes.
        put = object.__setattr__
        put(self, "text", text)
        put(self, "whitespace", whitespace)
        put(self, "property_order", property_order)
        put(self, "formats", formats)
        put(self, "draft", draft)
        put(self, "resources", _resource_texts(resources) if resources else ())
        put(self, "escapes", escapes)
        put(self, "_parsed", [] if parsed is None else [parsed])

    @property
    def document(self) -> Any:
        """The parsed schema, made at first use and shared: not to be changed.  Fractions are `Decimal`."""
        if not self._parsed:
            self._parsed.append(_parse(self.text, "the schema"))
        return self._parsed[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            JsonSchema,
            (self.text, self.whitespace, self.property_order, self.formats, self.draft, dict(self.resources),
             self.escapes),
        )  # fmt: skip


def _resource_texts(resources: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    pairs = []
    for uri, schema in resources.items():
        if not isinstance(uri, str):
            raise GrammarError(f"resources= has a key that is no URI: {uri!r}")
        pairs.append((uri, _schema_text(schema, f"the resource {uri!r}")[0]))
    return tuple(pairs)


def _check_whitespace(pattern: str) -> None:
    from grammars.regex import parse
    from grammars.regular import chars, is_subset, repeat

    spaces = repeat(chars([(9, 10), (13, 13), (32, 32)]), 0, None)
    if not is_subset(parse(pattern, dialect="ecma", mode="fullmatch"), spaces):
        raise GrammarError(
            f"whitespace={pattern!r} is none of 'bounded', 'compact', 'any', and as a regular expression it admits "
            "more than space, tab, line feed and carriage return"
        )
