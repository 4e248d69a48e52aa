"""Rules with choices, groups and repeats: folding and numbering keep the language."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from grammars.ebnf import Alternatives, Concatenation, Definition, Expression, Reference, Repeat, Text, flatten, fold
from grammars.ebnf.folding import SIZE_LIMIT
from grammars.regular import literal, longest_length, matches
from tests.grammars.recognisers import accepts

TEXTS = ["".join(word) for length in range(6) for word in itertools.product("ab", repeat=length)]
A, B = Text(literal("a")), Text(literal("b"))


def _expression(chance: random.Random, depth: int) -> tuple[Expression, str]:
    """An expression and the same for `re`."""
    roll = chance.random()
    if depth == 0 or roll < 0.2:
        text = chance.choice(["a", "b", "ab", ""])
        return Text(literal(text)), text
    body, pattern = _expression(chance, depth - 1)
    if roll < 0.5:
        other, other_pattern = _expression(chance, depth - 1)
        return Concatenation((body, other)), pattern + other_pattern
    if roll < 0.75:
        other, other_pattern = _expression(chance, depth - 1)
        return Alternatives((body, other)), f"(?:{pattern}|{other_pattern})"
    least, most = chance.choice([(0, None), (1, None), (0, 1), (2, 3), (0, 5), (3, None)])
    bounds = f"{{{least},{'' if most is None else most}}}"
    return Repeat(body, least, most), f"(?:{pattern}){bounds}"


@pytest.mark.parametrize("seed", range(60))
def test_a_regular_rule_is_one_expression_with_the_same_texts(seed: int) -> None:
    expression, pattern = _expression(random.Random(seed), 3)
    folded = fold({"r": Definition(expression)})["r"].expression
    assert isinstance(folded, Text)
    expected = {text for text in TEXTS if re.fullmatch(pattern, text)}
    assert {text for text in TEXTS if matches(folded.language, text)} == expected
    grammar = flatten({"r": Definition(expression)}, "r")
    assert {text for text in TEXTS if accepts(grammar, text)} == expected


@pytest.mark.parametrize("seed", range(40))
def test_repeats_of_what_is_not_regular_keep_their_counts(seed: int) -> None:
    chance = random.Random(seed)
    least = chance.randrange(4)
    most = chance.choice([None, least, least + chance.randrange(1, 9)])
    nested = Alternatives((A, Concatenation((B, Reference("x"), B))))
    rules = {"r": Definition(Repeat(Reference("x"), least, most)), "x": Definition(nested)}
    grammar = flatten(rules, "r")
    for count in range(14):
        assert accepts(grammar, "a" * count) is (count >= least and (most is None or count <= most)), count


def test_rules_that_recur_at_one_end_are_repeats() -> None:
    right = {"r": Definition(Alternatives((Concatenation((A, Reference("r"))), B)))}
    left = {"r": Definition(Alternatives((Concatenation((Reference("r"), A)), B, Reference("r"))))}
    for rules, pattern in ((right, "a*b"), (left, "ba*")):
        folded = fold(rules)["r"].expression
        assert isinstance(folded, Text)
        assert {text for text in TEXTS if matches(folded.language, text)} == {
            text for text in TEXTS if re.fullmatch(pattern, text)
        }


def test_rules_that_recur_in_the_middle_or_at_both_ends_stay() -> None:
    middle = Alternatives((Concatenation((A, Reference("r"), B)), Text(literal(""))))
    both = Alternatives((Concatenation((A, Reference("r"))), Concatenation((Reference("r"), B)), A))
    for expression, pattern in ((middle, r"|ab|aabb"), (both, "a+b*")):
        rules = {"r": Definition(expression)}
        assert not isinstance(fold(rules)["r"].expression, Text)
        grammar = flatten(rules, "r")
        assert {text for text in TEXTS if accepts(grammar, text)} == {
            text for text in TEXTS if re.fullmatch(pattern, text)
        }


def test_rules_that_double_do_not_blow_up() -> None:
    rules = {"r0": Definition(A)}
    for level in range(1, 60):
        rules[f"r{level}"] = Definition(Concatenation((Reference(f"r{level - 1}"), Reference(f"r{level - 1}"))))
    grammar = flatten(rules, "r59")
    assert len(grammar.rules) < 60
    assert max(longest_length(one.language) or 0 for one in grammar.terminals) <= 2 * SIZE_LIMIT  # type: ignore[arg-type]
