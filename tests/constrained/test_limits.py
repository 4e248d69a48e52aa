"""Hostile input stays inside the limits, which say what they are."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from constrained import Choice, JsonSchema, Lark, Limits, Regex, Vocabulary, compile
from constrained.automata import machine as machine_module
from constrained.compile import Constraint
from grammars import Grammar
from grammars.errors import GrammarError, LimitExceeded
from tests.constrained.languages import SMALL, fresh_constraint, mask

WORDS = Vocabulary.from_token_bytes(
    [*(bytes([byte]) for byte in range(256)), b'":', b'{"', b"aa", b"aaaa", b'","', None], eos_token_ids=[261]
)
END = 261


def walk(constraint: Constraint, tokens: int, seed: int = 5) -> bytes:
    """The text of a random walk of at most so many tokens."""
    chance = random.Random(seed)
    matcher = constraint.matcher()
    for _ in range(tokens):
        allowed = sorted(mask(matcher) - {END})
        if not allowed:
            break
        matcher.accept(chance.choice(allowed))
    return matcher.text


def definitions(count: int) -> str:
    """A schema of `count` definitions that refer to each other, more than a kilobyte each."""
    chance = random.Random(1)
    made = {}
    for number in range(count):
        kinds = [
            {"type": "string", "description": "x" * 80},
            {"type": "integer", "minimum": number},
            {"$ref": f"#/$defs/d{chance.randrange(count)}"},
            {"type": "array", "items": {"$ref": f"#/$defs/d{chance.randrange(count)}"}},
            {"enum": [f"value {number} {place}" for place in range(12)]},
        ]
        properties = {f"property_{number}_{place}": chance.choice(kinds) for place in range(14)}
        made[f"d{number}"] = {"type": "object", "properties": properties, "required": list(properties)[:3]}
    return json.dumps({"$ref": "#/$defs/d0", "$defs": made})


HOSTILE: dict[str, Callable[[], Grammar]] = {
    "items": lambda: JsonSchema('{"items":' * 100_000 + "true" + "}" * 100_000),
    "allOf": lambda: JsonSchema('{"allOf":[' * 20_000 + "{}" + "]}" * 20_000),
    "not": lambda: JsonSchema('{"not":' * 50_000 + "{}" + "}" * 50_000),
    "groups": lambda: Regex("(" * 100_000 + "a" + ")" * 100_000),
    "alternatives": lambda: JsonSchema(
        {"allOf": [{"anyOf": [{"properties": {f"a{n}": {"const": m}}} for m in (1, 2)]} for n in range(24)]}
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_nested_or_combined_beyond_reason_is_refused_with_a_reason(kind: str) -> None:
    with pytest.raises(LimitExceeded, match=r"nested|at most|more than"):
        walk(fresh_constraint(HOSTILE[kind](), WORDS), 100)


@pytest.mark.parametrize(
    ("grammar", "states"),
    [
        (Regex("(a{1000}){1000}"), 2_000),
        (JsonSchema({"type": "string", "pattern": "^(a{1000}){1000}$"}), 2_000),
        (Regex("(a|b)*a(a|b){40}c"), 3_000),
        (Regex("(((((a*)*)*)*)*)*b"), 100),
        (Regex("(.*a){40}(.*b){40}"), 2_000),
        (JsonSchema({"type": "string", "not": {"pattern": "(a|b)*a(a|b){30}c"}}), 1_000),
        (JsonSchema({"type": "array", "minItems": 10**9, "items": {"type": "integer"}}), 2_000),
        (JsonSchema({"type": "string", "minLength": 10**8, "maxLength": 10**9}), 2_000),
        (Lark('start: start start | start start start | "a"'), 3_000),
        (Lark('start: s\ns: s s | s "b" s | "(" s ")" | NAME | NAME NAME\nNAME: /a+/'), 3_000),
        (Lark('start: a a a a a a a a\na: a? "x" | b?\nb: a? b? "y"?'), 3_000),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_large_counts_and_ambiguity_make_few_states(grammar: Grammar, states: int) -> None:
    try:
        constraint = fresh_constraint(grammar, WORDS)
    except GrammarError as error:  # a grammar may also be refused, with a reason
        assert str(error)
        return
    assert walk(constraint, 60)
    assert constraint.store.counters().states < states


@pytest.mark.parametrize("kind", ["choice", "strings", "numbers"])
def test_a_hundred_thousand_alternatives_are_read_as_one_trie(kind: str) -> None:
    if kind == "numbers":
        grammar: Grammar = JsonSchema({"enum": [number * 7919 for number in range(100_000)]})
    else:
        options = [f"value {number * 7919}" for number in range(100_000)]
        grammar = Choice(options) if kind == "choice" else JsonSchema({"enum": options})
    constraint = fresh_constraint(grammar, WORDS)
    text = walk(constraint, 40).decode()
    if kind != "numbers":  # which may go on with zeros
        assert int(text.strip('"').removeprefix("value ")) % 7919 == 0
    assert constraint.store.counters().states < 1_000


def test_of_a_large_schema_only_what_is_reached_is_worked_out() -> None:
    text = definitions(3_000)
    assert len(text) > 4_000_000
    constraint = fresh_constraint(JsonSchema(text), WORDS)
    mask(constraint.matcher())
    assert constraint.store.counters().states < 120
    few = fresh_constraint(JsonSchema(definitions(30)), WORDS)
    mask(few.matcher())
    assert constraint.store.counters().states <= few.store.counters().states + 5
    assert walk(constraint, 60).startswith(b'{"property_0_0"')


class Clock:
    """A clock that goes on by a second whenever it is looked at."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def slow_schema(count: int) -> JsonSchema:
    return JsonSchema({"type": "string", "allOf": [{"pattern": f"a.{{{number}}}b"} for number in range(count)]})


def test_a_step_that_takes_too_long_is_given_up_and_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = replace(SMALL, step_seconds=5.0)
    constraint = fresh_constraint(slow_schema(9), WORDS, limits)
    matcher = constraint.matcher()
    matcher.accept(ord('"'))
    monkeypatch.setattr("grammars.effort.thread_time", Clock())
    monkeypatch.setattr("grammars.effort._STEPS_BETWEEN_LOOKS", 1)
    given_up = 0
    while True:
        try:
            found = mask(matcher)
            break
        except LimitExceeded as error:
            assert str(error) == "a step takes more than 5 s (Limits.step_seconds)"
            assert error.__notes__ == ["in the mask after '\"'"]
            given_up += 1
            assert matcher.text == b'"'
    assert given_up > 0
    monkeypatch.undo()
    unhurried = fresh_constraint(slow_schema(9), WORDS).matcher()
    unhurried.accept(ord('"'))
    assert found == mask(unhurried)


def test_compiling_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grammars.effort.thread_time", Clock())
    monkeypatch.setattr("grammars.effort._STEPS_BETWEEN_LOOKS", 1)
    limits = replace(SMALL, step_seconds=3.0)
    rules = "\n".join(f'r{number}: r{number + 1} r{number + 1} | "x{number}"' for number in range(200))
    with pytest.raises(LimitExceeded, match=r"Limits\.step_seconds") as caught:
        compile(Lark(f'start: r0\n{rules}\nr200: "z"'), WORDS, limits)
    assert caught.value.__notes__[0].startswith("when compiling Lark(")


def test_a_mask_that_makes_too_many_states_is_given_up() -> None:
    constraint = fresh_constraint(Regex("[ab]{9}(ab|ba|c){9}"), WORDS, replace(SMALL, step_states=1))
    with pytest.raises(LimitExceeded, match=r"more than 1 states \(Limits\.step_states\)"):
        walk(constraint, 30)


def test_states_are_bounded() -> None:
    constraint = fresh_constraint(Regex("[ab]{9}(ab|ba|c){9}"), WORDS, replace(SMALL, states=20))
    with pytest.raises(LimitExceeded, match=r"more than 20 states \(Limits\.states\)"):
        walk(constraint, 30)


def test_nesting_is_bounded_and_the_matcher_stays_as_it_was() -> None:
    nested = JsonSchema({"type": "array", "items": {"$ref": "#"}})
    matcher = fresh_constraint(nested, WORDS, replace(SMALL, stack_depth=50)).matcher()
    with pytest.raises(LimitExceeded, match=r"nested deeper than 50 \(Limits\.stack_depth\)"):
        for _ in range(200):
            matcher.accept(ord("["))
    depth = len(matcher.tokens)
    assert 48 <= depth <= 50
    assert ord("]") in mask(matcher)
    for _ in range(depth):
        matcher.accept(ord("]"))
    assert matcher.is_accepting()


def test_past_the_bytes_new_grammars_get_a_fresh_store_and_old_matchers_go_on() -> None:
    words = Vocabulary.from_token_bytes([*(bytes([byte]) for byte in range(256)), None], eos_token_ids=[256])
    limits = Limits(states=50_000, stack_depth=50, bytes=200_000)
    first = compile(Regex("[ab]*c"), words, limits)
    matcher = first.matcher()
    before = mask(matcher)
    stores = {id(first.store): first.store}
    for number in range(60):
        constraint = compile(Regex(f"(x{number}|y[a-f]{{9}}z){{1,{number + 1}}}"), words, limits)
        walk_on = constraint.matcher()
        for byte in f"x{number}".encode():
            walk_on.accept(byte)
            mask(walk_on)
        stores[id(constraint.store)] = constraint.store
        assert constraint.store.bytes_used() < 2 * limits.bytes
    assert len(stores) > 1
    assert mask(matcher) == before
    matcher.accept(ord("a"))
    assert mask(matcher) == before


def test_class_maps_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_module, "_MAPS", 264)
    constraint = fresh_constraint(Regex("[a-c][d-f][a-f][^a][^b][^c][^d][^e]{3}"), WORDS)
    with pytest.raises(LimitExceeded, match="264 distinct class maps"):
        walk(constraint, 20)
