"""Small finite languages with all their sentences, and small awkward vocabularies to write them in.

The sentences are enumerated here from the grammar's own text, by code that shares nothing with what is tested.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from hypothesis import assume, reject
from hypothesis import strategies as st
from numpy.typing import NDArray

from constrained.compile import Constraint, Grammar, start_state
from constrained.limits import Limits
from constrained.masks.row_store import RowStore
from constrained.matcher import Matcher
from constrained.vocabulary import Vocabulary
from grammars import Choice, JsonSchema, Regex

SMALL = Limits(states=400_000, stack_depth=200, bytes=4 << 20)
MOST_SENTENCES = 250
Schema = dict[str, Any] | bool


class TooMany(Exception):
    """A language with more sentences than a test wants to look at."""


@dataclass(frozen=True)
class Language:
    """A grammar and every sentence of it (bytes)."""

    grammar: Grammar
    sentences: frozenset[bytes]

    @cached_property
    def prefixes(self) -> frozenset[bytes]:
        return frozenset(s[:end] for s in self.sentences for end in range(len(s) + 1))

    def allowed(self, prefix: bytes, vocabulary: Vocabulary) -> set[int]:
        """The definition of a mask: which tokens may follow `prefix`."""
        tokens = {i for i, data in enumerate(vocabulary.tokens) if data and prefix + data in self.prefixes}
        return tokens | set(vocabulary.eos_token_ids) if prefix in self.sentences else tokens

    def shortest_completion(self, prefix: bytes) -> int:
        return min(len(s) for s in self.sentences if s.startswith(prefix)) - len(prefix)


def fresh_constraint(grammar: Grammar, vocabulary: Vocabulary, limits: Limits = SMALL) -> Constraint:
    """A constraint on a store of its own."""
    return constraint_on(RowStore(vocabulary, limits), grammar, vocabulary)


def constraint_on(store: RowStore, grammar: Grammar, vocabulary: Vocabulary) -> Constraint:
    """A constraint on a given store."""
    return Constraint(grammar, vocabulary, store, start_state(store.machine, grammar))


def empty_row(vocabulary: Vocabulary) -> NDArray[np.uint32]:
    return np.full(vocabulary.row_words, 0xFFFFFFFF, dtype=np.uint32)


def mask(matcher: Matcher) -> set[int]:
    """The bits of the next mask, those past the logits included."""
    row = empty_row(matcher.constraint.vocabulary)
    matcher.fill_mask(row)
    return bits(row)


def bits(row: NDArray[np.uint32]) -> set[int]:
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


# ---- vocabularies


@st.composite
def vocabularies(draw: st.DrawFn, language: Language) -> Vocabulary:
    """Every byte of the language as a token, and pieces of its sentences and of other things, in any order."""
    sentences = sorted(language.sentences)
    alphabet = sorted(set(b"".join(sentences)) | {0x61, 0x22, 0xC3})
    sentence = st.sampled_from(sentences)
    piece = st.tuples(sentence, st.integers(0, 12), st.integers(1, 9)).map(lambda c: c[0][c[1] : c[1] + c[2]])
    noise = st.lists(st.sampled_from(alphabet), min_size=2, max_size=5).map(bytes)
    joined = st.tuples(piece, noise).map(b"".join) | st.tuples(piece, piece).map(b"".join)
    more = draw(st.lists(piece | joined | noise | st.none() | st.just(b""), max_size=18))
    repeats = draw(st.lists(st.sampled_from([bytes([byte]) for byte in alphabet]), max_size=2))
    tokens: list[bytes | None] = [bytes([byte]) for byte in alphabet]
    tokens = draw(st.permutations([*tokens, *more, *repeats]))
    ends = draw(st.integers(1, 2))
    tokens[1:1] = [None] * ends
    return Vocabulary.from_token_bytes(
        tokens, eos_token_ids=range(1, 1 + ends), logits_size=len(tokens) + draw(st.sampled_from([0, 0, 1, 40]))
    )


def byte_vocabulary() -> Vocabulary:
    """All 256 bytes (token = byte) and one end token, 256."""
    return Vocabulary.from_token_bytes([*(bytes([byte]) for byte in range(256)), None], eos_token_ids=[256])


# ---- plain text

TEXT_ALPHABET = "ab-é\U0001f600"


@st.composite
def choices(draw: st.DrawFn) -> Language:
    options = draw(st.lists(st.text(TEXT_ALPHABET + '\n"', max_size=6), min_size=1, max_size=6))
    return Language(Choice(options), frozenset(option.encode() for option in options))


def _concatenations(parts: Iterable[set[str]]) -> set[str]:
    words = {""}
    for part in parts:
        words = {a + b for a in words for b in part}
        assume(len(words) <= MOST_SENTENCES)
    return words


@st.composite
def _expressions(draw: st.DrawFn, depth: int) -> tuple[str, set[str]]:
    kind = draw(st.sampled_from(["text", "class", "or", "then", "repeat"] if depth else ["text", "class"]))
    if kind == "text":
        text = draw(st.text(TEXT_ALPHABET, max_size=3))
        return re.escape(text), {text}
    if kind == "class":
        letters = draw(st.sets(st.sampled_from(TEXT_ALPHABET), min_size=1, max_size=4))
        return "[" + "".join(map(re.escape, sorted(letters))) + "]", letters
    if kind == "repeat":
        source, words = draw(_expressions(depth - 1))
        least = draw(st.integers(0, 2))
        most = least + draw(st.integers(0, 2))
        found = set().union(*(_concatenations([words] * count) for count in range(least, most + 1)))
        return f"(?:{source}){{{least},{most}}}", found
    parts = draw(st.lists(_expressions(depth - 1), min_size=2, max_size=3))
    if kind == "or":
        return "(?:" + "|".join(source for source, _ in parts) + ")", set().union(*(words for _, words in parts))
    return "".join(source for source, _ in parts), _concatenations(words for _, words in parts)


@st.composite
def regexes(draw: st.DrawFn) -> Language:
    source, words = draw(_expressions(3))
    assume(len(words) <= MOST_SENTENCES)
    assert all(re.fullmatch(source, word) for word in words)
    return Language(Regex(source), frozenset(word.encode() for word in words))


# ---- JSON

STRING_ALPHABET = "abé\U0001f600"
WORDS = ["".join(letters) for size in range(4) for letters in itertools.product(STRING_ALPHABET, repeat=size)]


def string_texts(value: str, canonical: bool) -> list[str]:
    """Every way to write a string that the grammar offers (see `constrained.automata.strings`)."""
    if canonical:
        return [json.dumps(value, ensure_ascii=False)]
    letters = []
    for letter in value:
        units = json.dumps(letter)[1:-1] if ord(letter) > 0x7E else f"\\u{ord(letter):04x}"
        cased = [""]
        for at, digit in enumerate(units):
            both = {digit, digit.upper()} if digit in "abcdef" and units[at - 1] != "\\" else {digit}
            cased = [text + one for text in cased for one in sorted(both)]
        short = json.dumps(letter, ensure_ascii=False)[1:-1]
        if ord(letter) > 0x7E or letter in '"\\' or ord(letter) < 0x20:
            letters.append([short, *(text for text in cased if text != short)])
        else:
            letters.append([letter])
    return ['"' + "".join(text) + '"' for text in itertools.product(*letters)]


@dataclass(frozen=True)
class Writer:
    """How documents are written: the order of keys, the escapes."""

    any_order: bool
    canonical: bool
    most: int = MOST_SENTENCES

    def texts(self, schema: Schema, root: Schema, depth: int = 3) -> set[str]:
        """All documents of a schema of the kinds below; references are followed `depth` times."""
        found = set(itertools.islice(self._texts(schema, root, depth), self.most * 2))
        if len(found) > self.most:
            raise TooMany
        return found

    def _texts(self, schema: Schema, root: Schema, depth: int) -> Iterator[str]:
        if isinstance(schema, bool):
            assert not schema, "true has infinitely many documents"
        elif "$ref" in schema:
            assert schema["$ref"] == "#"
            if depth:
                yield from self.texts(root, root, depth - 1)
        elif "anyOf" in schema:
            for one in schema["anyOf"]:
                yield from self.texts(one, root, depth)
        elif "const" in schema:
            yield from self._values(schema["const"])
        elif "enum" in schema:
            for value in schema["enum"]:
                yield from self._values(value)
        elif schema["type"] == "string":
            for word in WORDS:
                if (
                    re.search(schema.get("pattern", ""), word)
                    and schema.get("minLength", 0) <= len(word) <= schema.get("maxLength", 3)
                ):  # fmt: skip
                    yield from string_texts(word, self.canonical)
        elif schema["type"] == "array":
            yield from self._arrays(schema, root, depth)
        elif schema["type"] == "object":
            yield from self._objects(schema, root, depth)
        else:
            yield from {"boolean": ("true", "false"), "null": ("null",)}[schema["type"]]

    def _values(self, value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield from string_texts(value, self.canonical)
        elif isinstance(value, list):
            for items in itertools.product(*(list(self._values(item)) for item in value)):
                yield "[" + ",".join(items) + "]"
        else:
            yield json.dumps(value)

    def _arrays(self, schema: dict[str, Any], root: Schema, depth: int) -> Iterator[str]:
        prefix, rest = schema.get("prefixItems", []), schema.get("items")
        most = schema.get("maxItems", len(prefix) if rest is False else 99)
        lists: list[tuple[str, ...]] = [()]
        for count in range(most + 1):
            if not lists:
                return
            if count >= schema.get("minItems", 0):
                yield from (f"[{','.join(items)}]" for items in lists if _counts_hold(schema, items))
            if count < most:
                item = self.texts(prefix[count] if count < len(prefix) else rest, root, depth)
                lists = [(*items, one) for items in lists for one in item]
                if len(lists) > self.most:
                    raise TooMany

    def _objects(self, schema: dict[str, Any], root: Schema, depth: int) -> Iterator[str]:
        names = list(schema["properties"])
        others = [name for name in UNDECLARED if "patternProperties" in schema]
        values = {name: self.texts(schema["properties"][name], root, depth) for name in names}
        values |= {name: self.texts(schema["patternProperties"][UNDECLARED_PATTERN], root, depth) for name in others}
        required = set(schema.get("required", []))
        for count in range(schema.get("minProperties", 0), schema.get("maxProperties", len(names) + len(others)) + 1):
            for chosen in self._orders(names, others, count):
                if required <= set(chosen):
                    keys = [json.dumps(name, ensure_ascii=False) for name in chosen]
                    for members in itertools.product(*(values[name] for name in chosen)):
                        yield "{" + ",".join(f"{key}:{member}" for key, member in zip(keys, members, strict=True)) + "}"

    def _orders(self, names: list[str], others: list[str], count: int) -> Iterator[tuple[str, ...]]:
        """Choices of `count` names in the orders in which they may come."""
        if self.any_order:
            yield from itertools.permutations(names + others, count)
            return
        for declared in range(count + 1):
            for first, then in itertools.product(
                itertools.combinations(names, declared), itertools.permutations(others, count - declared)
            ):
                yield first + then


def _counts_hold(schema: dict[str, Any], items: tuple[str, ...]) -> bool:
    """`uniqueItems` and `contains` of a constant."""
    values = [json.dumps(json.loads(item), sort_keys=True) for item in items]
    if schema.get("uniqueItems") and len(set(values)) < len(values):
        return False
    if "contains" not in schema:
        return True
    found = values.count(json.dumps(schema["contains"]["const"]))
    return schema.get("minContains", 1) <= found <= schema.get("maxContains", 99)


UNDECLARED_PATTERN, UNDECLARED = "^(x|xy)$", ["x", "xy"]
NAMES = ["a", "ab", "é", "b", 'q"', "a\\"]
_SCALARS = st.sampled_from([None, True, False, "", "a", "ab", "aé", "b", 'say "a"\n', "\U0001f600", "a\u0001"])


PATTERNS = ["^[ab]*$", "^a*$", "^[é\U0001f600]{0,2}$", "^(a|ab)?b*$", "^(aé|a\U0001f600)*b?$"]


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3) -> Schema:
    """A schema of the kinds that `Writer` knows."""
    kinds = ["const", "enum", "literal", "string", "false"]
    if depth:
        kinds += ["array", "object", "array", "object", "anyOf", "anyOf"]
    kind = draw(st.sampled_from(kinds))
    inner = schemas(depth - 1)
    if kind == "false":
        return False if draw(st.integers(0, 3)) == 0 else {"type": "null"}
    if kind == "const":
        return {"const": draw(_SCALARS | st.lists(_SCALARS, max_size=2))}
    if kind == "enum":
        values = _SCALARS | st.lists(_SCALARS, max_size=2)
        return {"enum": draw(st.lists(values, min_size=1, max_size=3, unique_by=repr))}
    if kind == "literal":
        return {"type": draw(st.sampled_from(["null", "boolean"]))}
    if kind == "string":
        least = draw(st.integers(0, 1))
        pattern = draw(st.sampled_from(PATTERNS))
        return {"type": "string", "pattern": pattern, "minLength": least, "maxLength": least + draw(st.integers(0, 2))}
    if kind == "anyOf":
        return {"anyOf": draw(st.lists(inner, min_size=2, max_size=3))}
    if kind == "array":
        least = draw(st.integers(0, 2))
        schema: dict[str, Any] = {
            "type": "array", "prefixItems": draw(st.lists(inner, max_size=2)), "items": draw(inner | st.just(False)),
            "minItems": least, "maxItems": least + draw(st.integers(0, 2)),
        }  # fmt: skip
        if not schema["prefixItems"]:
            del schema["prefixItems"]
        if draw(st.integers(0, 3)) == 0:
            schema["uniqueItems"] = True
        if draw(st.integers(0, 4)) == 0:
            schema |= {"contains": {"const": draw(_SCALARS)}, "minContains": draw(st.integers(0, 2))}
            schema["maxContains"] = schema["minContains"] + draw(st.integers(0, 1))
        return schema
    names = draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True))
    schema = {
        "type": "object", "properties": {name: draw(inner) for name in names}, "additionalProperties": False,
        "required": [name for name in names if draw(st.booleans())],
    }  # fmt: skip
    if draw(st.integers(0, 3)) == 0:
        schema["patternProperties"] = {UNDECLARED_PATTERN: draw(inner)}
    if draw(st.integers(0, 3)) == 0:
        schema["minProperties"] = draw(st.integers(0, 2))
        schema["maxProperties"] = draw(st.integers(1, 3))
    return schema


@st.composite
def json_languages(draw: st.DrawFn) -> Language:
    schema = draw(schemas())
    order = draw(st.sampled_from(["schema", "any"]))
    escapes = draw(st.sampled_from(["canonical", "any"]))
    try:
        texts = Writer(order == "any", escapes == "canonical").texts(schema, schema)
    except TooMany:
        reject()
    grammar = JsonSchema(schema, whitespace="compact", property_order=order, escapes=escapes)
    return Language(grammar, frozenset(text.encode() for text in texts))


def languages() -> st.SearchStrategy[Language]:
    """Languages of every kind with at least one sentence."""
    return st.one_of(choices(), regexes(), json_languages(), json_languages()).filter(lambda one: bool(one.sentences))
