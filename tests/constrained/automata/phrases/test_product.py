"""Phrases within schemas and Lark grammars, against the sentences of these that hold what they should."""

from __future__ import annotations

import json
import logging
import random
from functools import cache
from unittest.mock import patch

import jsonschema
import lark
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, note, settings
from hypothesis import strategies as st

from constrained import (
    BudgetError,
    EmptyLanguage,
    LimitExceeded,
    TokenRejected,
    UnsupportedFeature,
    Vocabulary,
    compile,
)
from constrained.automata.phrases import ways
from grammars import Grammar, JsonSchema, Lark, OneOf, Phrases, Reasoning, Sequence, SpecialToken, library
from tests.constrained.automata.context_free.walks import (
    END,
    LETTERS,
    TOKENS,
    VOCABULARY,
    after,
    grammar_texts,
    parses,
    texts,
)
from tests.constrained.languages import Language, byte_vocabulary, fresh_constraint, json_languages, mask, vocabularies

PATIENT = settings(max_examples=100, phases=[Phase.generate], suppress_health_check=list(HealthCheck), deadline=None)


def _holds(text: bytes, phrases: Phrases) -> bool:
    wanted, unwanted = [one.encode() for one in phrases.required], [one.encode() for one in phrases.banned]
    return all(one in text for one in wanted) and not any(one in text for one in unwanted)


@st.composite
def _phrases(draw: st.DrawFn, language: Language) -> Phrases:
    """Pieces of sentences, across whatever borders they come to lie."""
    sentences = sorted(language.sentences)

    def piece() -> str:
        text = draw(st.sampled_from(sentences)).decode()
        start = draw(st.integers(0, max(len(text) - 1, 0)))
        return text[start : start + draw(st.integers(1, 4))] or "x"

    required = [piece() for _ in range(draw(st.integers(0, 2)))]
    banned = [piece() for _ in range(draw(st.integers(0, 2)))]
    return Phrases(required, banned, language.grammar)


@PATIENT
@given(st.data())
def test_at_every_prefix_of_a_schema_with_phrases_the_mask_is_its_definition(data: st.DataObject) -> None:
    language = data.draw(json_languages().filter(lambda one: bool(one.sentences)))
    phrases = data.draw(_phrases(language))
    note(repr(phrases))
    left = Language(phrases, frozenset(text for text in language.sentences if _holds(text, phrases)))
    vocabulary = data.draw(vocabularies(language))
    try:
        matcher = fresh_constraint(phrases, vocabulary).matcher()
        singles: dict[int, int] = {}
        for token, text in enumerate(vocabulary.tokens):
            if text is not None and len(text) == 1:
                singles.setdefault(text[0], token)
        for prefix in data.draw(st.permutations(sorted(left.prefixes)))[:40]:
            matcher.reset()
            for byte in prefix:
                matcher.accept(singles[byte])
            assert mask(matcher) == left.allowed(prefix, vocabulary), prefix
            assert matcher.is_accepting() == (prefix in left.sentences), prefix
            assert len(matcher.shortest_completion()) == left.shortest_completion(prefix), prefix
            assert prefix + matcher.shortest_completion() in left.sentences
    except EmptyLanguage:
        assert not left.sentences
    except LimitExceeded as error:
        assert "uniqueItems" in str(error)
        assert isinstance(language.grammar, JsonSchema)
        assert any(word in language.grammar.text for word in ("uniqueItems", "patternProperties"))
        assume(False)
    else:
        assert left.sentences


@settings(PATIENT, max_examples=25)
@given(st.data(), st.integers(0, 3), st.integers(0, 1000))
def test_with_a_budget_every_walk_ends_with_the_phrases(data: st.DataObject, more: int, seed: int) -> None:
    language = data.draw(json_languages().filter(lambda one: bool(one.sentences)))
    phrases = data.draw(_phrases(language))
    note(repr(phrases))
    left = [text for text in language.sentences if _holds(text, phrases)]
    assume(left)
    vocabulary = byte_vocabulary()
    least = min(map(len, left)) + 1
    choose = random.Random(seed)
    try:
        constraint = fresh_constraint(phrases, vocabulary)
        with pytest.raises(BudgetError):
            constraint.matcher(max_tokens=least - 1)
        matcher = constraint.matcher(max_tokens=least + more)
        while not matcher.is_finished():
            allowed = sorted(mask(matcher))
            assert allowed, matcher.text
            matcher.accept(choose.choice(allowed))
    except LimitExceeded as error:
        assert "uniqueItems" in str(error)
        assume(False)
    assert matcher.text in left


@pytest.mark.filterwarnings("ignore::grammars.lark.LarkWarning", "ignore::grammars.lark.CollisionWarning")
@settings(PATIENT, max_examples=50)
@given(
    grammar_texts(),
    st.sampled_from(["dynamic", "contextual"]),
    st.lists(st.text(LETTERS, min_size=1, max_size=2), max_size=1),
    st.lists(st.text(LETTERS, min_size=1, max_size=3), max_size=2),
)
def test_phrases_within_lark_grammars_with_ignored_text_and_lexers(
    text: str, lexer: str, required: list[str], banned: list[str]
) -> None:
    note(repr((text, lexer, required, banned)))
    logging.getLogger("lark").setLevel(logging.CRITICAL)
    kinds = {"dynamic": ("earley", "dynamic_complete"), "contextual": ("lalr", "contextual")}
    try:
        reference = lark.Lark(text, parser=kinds[lexer][0], lexer=kinds[lexer][1])  # type: ignore[arg-type]
    except lark.exceptions.LarkError:
        assume(False)
    phrases = Phrases(required, banned, Lark(text, lexer=lexer))  # type: ignore[arg-type]
    sentences = {one for one in texts(4) if parses(reference, one) and _holds(one.encode(), phrases)}
    try:
        with patch.object(ways, "MOST_STEPS", 2_000):
            constraint = compile(phrases, VOCABULARY)
    except EmptyLanguage:
        assert not sentences
        return
    except LimitExceeded:  # the stacks of ambiguous grammars can be endlessly many
        assume(False)
    queue = [""]
    while queue:
        start = queue.pop()
        matcher = after(constraint, start)
        allowed = mask(matcher)
        assert (END in allowed) == matcher.is_accepting() == (start in sentences), start
        whole = start + matcher.shortest_completion().decode()
        assert parses(reference, whole), whole
        assert _holds(whole.encode(), phrases), whole
        if len(start) == 3:
            continue
        for letter in LETTERS:
            if TOKENS.index(letter.encode()) in allowed:
                queue.append(start + letter)
            else:
                assert not any(one.startswith(start + letter) for one in sentences), start + letter


PERSON = JsonSchema(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 20},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
)
TEXT = JsonSchema(
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
)
WORDS = 'start: W+\nW: /[a-z]+/\n%ignore " "'
SAMPLES: list[tuple[Grammar, list[str], list[str]]] = [
    (Reasoning(then=Phrases("foo", "bar", TEXT)), ['<think>bar</think>{"a":"foo"}'], ['<think>foo</think>{"a":""}']),
    (Phrases("foo", "bar", Reasoning(then=TEXT)), ['<think>foo</think>{"a":""}'], ['<think>bar</think>{"a":"foo"}']),
    (Phrases('>{"a', ">\n", Reasoning(then=TEXT)), ['<think></think>{"a":""}'], ['<think></think>\n{"a":""}']),
    (Sequence("[", Phrases(banned='x"', within=TEXT), "]"), ['[{"a":"foo"}]'], ['[{"a":"x"}]']),
    (Phrases("a", (), Phrases("b", "ab", TEXT)), ['{"a":"ba"}'], ['{"a":"ab"}']),
    (
        Lark('start: "call " @x ";" start?', embedded={"x": Phrases("foo", (), TEXT)}),
        ['call {"a":"foo"};call {"a":"foo"};'],
        ['call {"a":"foo"};call {"a":""};'],
    ),
    (
        Phrases("foo", (), Lark('start: "call " @x ";" start?', embedded={"x": TEXT})),
        ['call {"a":"foo"};call {"a":""};'],
        ['call {"a":""};call {"a":""};'],
    ),
    (Phrases(banned="a b", within=Lark(WORDS)), ["ab", "a  b"], ["a b", "aa bb"]),
    (Phrases("a b", within=Lark(WORDS, lexer="contextual")), ["a b", "xa bb"], ["ab", "a  b"]),
    (Phrases("12", "0", JsonSchema({"type": "integer"})), ["12", "-512"], ["1", "120"]),
    (Phrases("é", within=JsonSchema({"type": "string"})), ['"xéx"'], ['"e"', '"\\u00e9"']),
    (Phrases(banned="secret", within=OneOf(TEXT, Lark(WORDS))), ['{"a":"x"}', "secre t"], ["secret", '{"a":"secret"}']),
    (Phrases(["a", "b"], within=JsonSchema(True)), ['{"a":["b"]}', '"ab"'], ['{"a":[]}', "1"]),
    (Phrases(banned='","', within=JsonSchema({"type": "array", "items": {"type": "string"}, "uniqueItems": True})),
     ['["a", "b"]'], ['["a","b"]', '["a", "a"]']),
    (Phrases(banned="ab", within=JsonSchema({"type": "object", "minProperties": 2})),
     ['{"a":1,"b":2}'], ['{"a":1}', '{"ab":1,"b":2}']),
]  # fmt: skip


@pytest.mark.parametrize(("grammar", "good", "bad"), SAMPLES)
def test_samples(grammar: Grammar, good: list[str], bad: list[str]) -> None:
    constraint = compile(grammar, byte_vocabulary())
    for text, expected in [*((one, True) for one in good), *((one, False) for one in bad)]:
        matcher = constraint.matcher()
        data = list(text.encode())
        assert (matcher.accept_many(data) == len(data) and matcher.is_accepting()) is expected, text


@cache
def _tokens() -> Vocabulary:
    pieces = [
        b'{"',
        b'":',
        b'", "',
        b"secret",
        b"secr",
        b"ets",
        b"et",
        b"tags",
        b"name",
        b'"}',
        b'"]}',
        b" [",
        b"e",
        b'e"',
    ]
    return Vocabulary.from_token_bytes([*(bytes([byte]) for byte in range(256)), None, *pieces], eos_token_ids=[256])


@pytest.mark.parametrize(
    ("required", "banned"), [((), ("secret", 's"')), (("secret", "tags"), ("x",)), (('", "',), ("a b",))]
)
def test_walks_write_valid_documents_with_the_phrases(required: tuple[str, ...], banned: tuple[str, ...]) -> None:
    chance = random.Random(repr((required, banned)))
    constraint = compile(Phrases(required, banned, PERSON), _tokens())
    vocabulary = constraint.vocabulary
    row = np.zeros(vocabulary.row_words, dtype=np.uint32)
    for _ in range(12):
        matcher = constraint.matcher()
        for _ in range(chance.randrange(1, 40)):
            matcher.fill_mask(row)
            allowed = [token for token in np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
                       if token > 255 or 32 <= token < 127]  # fmt: skip
            token = chance.choice([one for one in allowed if one > 256] * 5 + allowed)
            if token == 256:
                break
            matcher.accept(token)
        text = matcher.text + matcher.shortest_completion()
        jsonschema.validate(json.loads(text), json.loads(PERSON.text))
        assert _holds(text, Phrases(required, banned))


def test_a_special_token_between_is_no_text() -> None:
    tokens = [*(bytes([byte]) for byte in range(256)), None, None]
    vocabulary = Vocabulary.from_token_bytes(tokens, eos_token_ids=[256], special_tokens={"<x>": 257})
    constraint = compile(
        Phrases(banned="a1", within=Sequence("a", SpecialToken("<x>"), JsonSchema({"enum": ["b", 1]}))), vocabulary
    )
    matcher = constraint.matcher()
    assert matcher.accept_many([ord("a"), 257, *b'"b"']) == 5
    assert matcher.is_accepting()
    matcher.rollback(3)
    with pytest.raises(TokenRejected):
        matcher.accept(ord("1"))


@pytest.mark.parametrize(
    "phrases",
    [
        Phrases("xa", "a", TEXT), Phrases(banned='"a"', within=TEXT), Phrases("foo", within=JsonSchema({"type": "integer"})),
        Phrases("q", within=Lark('start: "a"*\n%ignore " "')),
        Phrases("ab", within=JsonSchema({"maxLength": 1, "type": "string"}, escapes="canonical")),
        Phrases(["abc", "def"], within=JsonSchema({"type": "string", "maxLength": 5}, escapes="canonical")),
    ],
)  # fmt: skip
def test_phrases_that_no_text_has_room_for_are_an_empty_language(phrases: Phrases) -> None:
    with pytest.raises(EmptyLanguage, match="no text of the grammar holds all of"):
        compile(phrases, byte_vocabulary())


def test_what_cannot_be_told_is_refused() -> None:
    with pytest.raises(UnsupportedFeature, match="phrases within a Lark grammar with an indenter"):
        compile(Phrases("a", within=library.load("python")), byte_vocabulary())
    with pytest.raises(UnsupportedFeature, match="put Phrases around the whole"):
        compile(Sequence("x", Phrases("a", within=Lark(WORDS)), "y"), byte_vocabulary())
    schema = {"type": "array", "items": {"enum": ["a", "b", "ab"]}, "uniqueItems": True, "minItems": 2}
    with pytest.raises(LimitExceeded, match="uniqueItems"):
        compile(Phrases(banned="b", within=JsonSchema(schema)), byte_vocabulary())
