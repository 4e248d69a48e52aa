"""Arguments between tags, each on lines of its own, as Qwen3-Coder writes them:

    <parameter=city>
    Oslo
    </parameter>

A text stands there as it is; any other value, and a text that the schema describes in more than one way, as JSON.  Only
arguments that the schema declares are offered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from grammars.errors import UnsupportedFeature
from grammars.tool_calls.events import ToolTextError
from grammars.tool_calls.schema_parts import SchemaParts, is_annotation, types_of
from grammars.values import AnyText, Choice, OneOf, Part, Phrases, Regex, Sequence, ToolSignature

OPEN: Final = "<parameter="
CLOSE: Final = "\n</parameter>\n"
END: Final = "</function>"

_MARK: Final = CLOSE.rstrip("\n")
"""No text of an argument may hold it."""

Spelling = Literal["text", "text or null", "json"]


@dataclass(frozen=True)
class TaggedArgument:
    """How one argument is written.

    Attributes:
        name: of the argument.
        spelling: `"text"`: as it is; `"text or null"`: the same, where `null` alone means the value null; `"json"`.
        value: the language of what stands between the tags.
        needed: whether it must be there.
    """

    name: str
    spelling: Spelling
    value: Part
    needed: bool


def tagged_arguments(tool: ToolSignature) -> list[TaggedArgument]:
    """The arguments of a tool in the order of its schema.

    Raises:
        UnsupportedFeature: a name that the tags cannot hold, or a schema that says more of the object than its properties.
    """
    parts = SchemaParts(tool, "qwen3_coder")
    schema, pointer = parts.root()
    found = []
    for name, one, where, needed in parts.properties(schema, pointer):
        if not name or any(character in name for character in "<>\n"):
            raise UnsupportedFeature(
                f"tool {tool.name!r}: the format 'qwen3_coder' cannot name the argument {name!r}; take another format"
            )
        found.append(TaggedArgument(name, *_spelled(parts, one, where), needed))
    return found


def tagged(tool: ToolSignature) -> Part:
    """The language of all of them, up to the mark behind the last one."""
    pieces: list[Part] = []
    for one in tagged_arguments(tool):
        written = Sequence(f"{OPEN}{one.name}>\n", one.value, CLOSE)
        pieces.append(written if one.needed else OneOf("", written))
    return Sequence(*pieces, END)


def between_tags(tool: ToolSignature) -> Part:
    """The language of all of them between tags of somebody else's: a line break may stand before the first and behind each."""
    pieces: list[Part] = [OneOf("", "\n")]
    for one in tagged_arguments(tool):
        written = Sequence(f"{OPEN}{one.name}>\n", one.value, _MARK, OneOf("", "\n"))
        pieces.append(written if one.needed else OneOf("", written))
    return Sequence(*pieces)


def _spelled(parts: SchemaParts, schema: Any, pointer: str) -> tuple[Spelling, Part]:
    try:
        resolved, where = parts.resolved(schema, pointer, 0)
        text, nullable = _without_null(parts, resolved, where)
    except UnsupportedFeature:  # references with keywords beside them, or in circles: JSON holds them as they are
        return "json", parts.subschema(pointer)
    if text is not None:
        language = _text_language(text)
        if language is not None:
            return ("text or null", OneOf(language, "null")) if nullable else ("text", language)
    if types_of(resolved) == ("boolean",) and all(map(is_annotation, resolved)):
        return "json", OneOf("true", "false", "True", "False")  # templates print Python's own words
    return "json", parts.subschema(where)


def _without_null(parts: SchemaParts, schema: Any, pointer: str) -> tuple[Any, bool]:
    """The schema of the texts, where all else that may stand is null, and whether that may; `None` where more may stand."""
    if not isinstance(schema, Mapping):
        return None, False
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema and all(is_annotation(key) for key in schema if key != keyword) and "type" not in schema:
            options = [parts.resolved(one, pointer, 0)[0] for one in schema[keyword]]
            others = [one for one in options if types_of(one) != ("null",)]
            if len(others) == 1 and len(options) == 2:
                return _without_null(parts, others[0], pointer)[0], True
            return None, False
    values = _constants(schema)
    if values is not None:
        if all(isinstance(one, str) or one is None for one in values):
            return schema, None in values and "null" in (types_of(schema) or ("null",))
        return None, False
    kinds = types_of(schema)
    if kinds and set(kinds) <= {"string", "null"} and "string" in kinds:
        return schema, "null" in kinds
    return None, False


def _constants(schema: Mapping[str, Any]) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    return list(schema["enum"]) if isinstance(schema.get("enum"), list) else None


def _text_language(schema: Mapping[str, Any]) -> Part | None:
    """The texts of a schema of strings as they are; `None` where that is not to be had, and JSON has to do."""
    said = {key for key in schema if not is_annotation(key)}
    values = _constants(schema)
    if values is not None:
        kinds = types_of(schema)
        texts = [one for one in values if isinstance(one, str)]
        if len(said) > 1 or (kinds and "string" not in kinds) or not texts or any(_MARK in one for one in texts):
            return None
        return Choice(texts)
    if not said:
        return AnyText(stop=_MARK)
    if said <= {"minLength", "maxLength"}:
        least, most = int(schema.get("minLength", 0)), schema.get("maxLength")
        within = Regex(rf"[\s\S]{{{least},{'' if most is None else int(most)}}}")
    elif said == {"pattern"}:
        within = Regex(rf"[\s\S]*(?:{schema['pattern']})[\s\S]*", "ecma")
    else:
        return None
    return Phrases(banned=[_MARK], within=within)


class TaggedArguments:
    """Takes the arguments of one call apart, and writes them as a JSON object."""

    def __init__(self, tool: ToolSignature) -> None:
        self._spellings = {one.name: one.spelling for one in tagged_arguments(tool)}
        self._held = ""
        self._written = "{"
        self._open: Spelling | None = None
        self._begun = False
        self._count = 0
        self.is_whole = False

    def take(self, text: str) -> tuple[str, int]:
        """What the characters of `text` add to the object, and how many of them belong to it.

        Raises:
            ToolTextError: they are not of the format.
        """
        before = len(self._held)
        self._held += text
        while self._step():
            pass
        taken = before + len(text) - len(self._held) if self.is_whole else before + len(text)
        written, self._written = self._written, ""
        return written, taken - before

    def _step(self) -> bool:
        if self._open is not None:
            return self._take_value(self._open)
        if self._held.startswith(END):
            self._held = self._held[len(END) :]
            self._written += "}"
            self.is_whole = True
            return False
        if self._held.startswith(OPEN):
            name, found, rest = self._held[len(OPEN) :].partition(">\n")
            if not found:
                return False
            if name not in self._spellings:
                raise ToolTextError(f"{name[:60]!r} is an argument; there are {', '.join(self._spellings)}")
            self._held, self._open, self._begun = rest, self._spellings[name], False
            self._written += f"{', ' if self._count else ''}{json.dumps(name, ensure_ascii=False)}: "
            self._count += 1
            return True
        if not (OPEN.startswith(self._held) or END.startswith(self._held)):
            raise ToolTextError(f"{self._held[:40]!r} is found where an argument was to come")
        return False

    def _take_value(self, spelling: Spelling) -> bool:
        at = self._held.find(CLOSE)
        if at < 0:
            ready = len(self._held) - _overlap(self._held)
            if spelling == "text or null" and not self._begun and "null".startswith(self._held[:ready]):
                return False
            self._write(spelling, self._held[:ready])
            self._held = self._held[ready:]
            return False
        value, self._held = self._held[:at], self._held[at + len(CLOSE) :]
        self._open = None
        if spelling == "text or null" and not self._begun and value == "null":
            self._written += "null"
            return True
        self._write(spelling, value)
        if spelling != "json":
            self._written += '"' if self._begun else '""'
        return True

    def _write(self, spelling: Spelling, text: str) -> None:
        if not text:
            return
        if spelling == "json":
            # `True` and `False` differ from JSON's words in their first letter, with which no value begins.
            self._written += text if self._begun else text[0].lower() + text[1:]
        else:
            self._written += ("" if self._begun else '"') + json.dumps(text, ensure_ascii=False)[1:-1]
        self._begun = True


def _overlap(text: str) -> int:
    """How many characters at the end may be the beginning of `CLOSE`."""
    return next((size for size in range(min(len(CLOSE) - 1, len(text)), 0, -1) if text.endswith(CLOSE[:size])), 0)
