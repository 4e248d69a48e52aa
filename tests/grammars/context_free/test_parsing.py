"""Automata and sets of stacks against a recogniser of three lines: which terminals may come next, what is a sentence."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from grammars import EmptyLanguage
from grammars.context_free import ContextFree, Rule, Terminal
from grammars.context_free.finishing import FAR, Finishing, nothing_below
from grammars.context_free.lr import Automaton
from grammars.context_free.nullable import nullable_symbols, without_empty_rules
from grammars.context_free.stacks import BASE, Stacks
from grammars.context_free.trim import useful_rules
from grammars.regular import NONE, literal

TERMINALS = 2


@st.composite
def rule_lists(draw: st.DrawFn) -> tuple[Rule, ...]:
    """Rules over a few nonterminals: cyclic, ambiguous, left and right recursive, empty."""
    count = draw(st.integers(1, 3))
    symbols = st.one_of(st.integers(0, count - 1), st.integers(0, TERMINALS - 1).map(lambda number: ~number))
    made = []
    for origin in range(count):
        for option in draw(st.lists(st.lists(symbols, max_size=3), min_size=1, max_size=3)):
            made.append(Rule(origin, tuple(option)))
    return tuple(made)


def grammar(rules: tuple[Rule, ...]) -> ContextFree:
    names = tuple(f"n{number}" for number in range(1 + max(rule.origin for rule in rules)))
    return ContextFree(names, tuple(Terminal(one, literal(one)) for one in "ab"), rules, 0)


def sentences(rules: tuple[Rule, ...], length: int) -> set[tuple[int, ...]]:
    """Sentences of at most that many terminals, by closure under the rules."""
    found: dict[int, set[tuple[int, ...]]] = {rule.origin: set() for rule in rules}
    changed = True
    while changed:
        changed = False
        for rule in rules:
            parts = [{(~one,)} if one < 0 else found.get(one, set()) for one in rule.symbols]
            for choice in product(*parts):
                text = tuple(terminal for part in choice for terminal in part)
                if len(text) <= length and text not in found[rule.origin]:
                    found[rule.origin].add(text)
                    changed = True
    return found[0]


def stacks_of(rules: tuple[Rule, ...]) -> Stacks:
    whole = grammar(rules)
    useful = [rules[number] for number in useful_rules(whole)]
    plain, _ = without_empty_rules(useful, len(whole.nonterminals))
    return Stacks(Automaton(list(enumerate(plain)), 0, TERMINALS, empty=0 in nullable_symbols(useful)))


@settings(max_examples=60)
@given(rule_lists())
def test_sets_of_stacks_accept_the_sentences_and_know_what_may_come_next(rules: tuple[Rule, ...]) -> None:
    note(rules)
    every = sentences(rules, 6)
    try:
        stacks = stacks_of(rules)
    except EmptyLanguage:
        assert not every
        return
    automaton = stacks.automaton
    for length in range(4):
        for text in product(range(TERMINALS), repeat=length):
            tops = [stacks.node(0, ())]
            for terminal in text:
                tops = stacks.advance(terminal, tops).tops
            assert stacks.advance(TERMINALS, tops).accepted is (text in every) if tops else text not in every
            viable = 0
            for top in tops:
                viable |= automaton.states[stacks.state[top]].viable
            for terminal in range(TERMINALS):
                goes_on = any(one[: length + 1] == (*text, terminal) for one in every)
                assert goes_on <= bool(viable >> terminal & 1), (text, terminal)
                if tops and viable >> terminal & 1:
                    assert stacks.advance(terminal, tops).tops


@settings(max_examples=100)
@given(rule_lists())
def test_what_stacks_need_is_the_length_of_a_shortest_completion(rules: tuple[Rule, ...]) -> None:
    note(rules)
    every = sentences(rules, 7)
    try:
        stacks = stacks_of(rules)
    except EmptyLanguage:
        return
    finishing = Finishing(stacks, [1] * TERMINALS)
    for length in range(1, 3):
        for text in product(range(TERMINALS), repeat=length):
            tops = [stacks.node(0, ())]
            for terminal in text:
                tops = stacks.advance(terminal, tops).tops
            completions = [len(one) - length for one in every if one[:length] == text]
            needed = min((finishing.on_top(top, nothing_below) for top in tops), default=FAR)
            if completions:
                assert needed == min(completions), text
            else:
                assert needed + length > 7, text


@settings(max_examples=150)
@given(rule_lists())
def test_without_empty_rules_the_same_texts_are_derived_but_the_empty_one(rules: tuple[Rule, ...]) -> None:
    plain, _ = without_empty_rules(rules, 1 + max(rule.origin for rule in rules))
    assert all(rule.symbols for rule in plain)
    after = sentences(tuple(plain), 5) if any(rule.origin == 0 for rule in plain) else set()
    assert after == sentences(rules, 5) - {()}


def test_a_piece_of_a_graph_cut_at_its_joint_is_the_whole_again_when_attached() -> None:
    stacks = stacks_of((Rule(0, (~0, 0, ~1)), Rule(0, ())))
    tops = [stacks.node(0, ())]
    for terminal in (0, 0, 0):
        tops = stacks.advance(terminal, tops).tops
    (top,) = tops
    pieces = stacks.chain(top)
    assert len(pieces) == stacks.height[top] == 4
    whole = BASE
    for piece in pieces:
        whole = stacks.attached(piece, whole)
    assert whole == top


def test_ambiguous_grammars_take_a_number_of_nodes_that_grows_slowly() -> None:
    stacks = stacks_of((Rule(0, (0, 0)), Rule(0, (~0,)), Rule(0, ())))
    tops = [stacks.node(0, ())]
    for _ in range(100):
        tops = stacks.advance(0, tops).tops
        assert stacks.advance(TERMINALS, tops).accepted
    assert len(stacks.state) < 4_000


def test_a_grammar_that_derives_no_text_says_which_symbol_is_to_blame() -> None:
    with pytest.raises(EmptyLanguage, match="n1 cannot be derived to an end"):
        useful_rules(grammar((Rule(0, (~0, 1)), Rule(1, (~1, 1)))))
    nothing = ContextFree(("s",), (Terminal("NOTHING", NONE),), (Rule(0, (~0,)),), 0)
    with pytest.raises(EmptyLanguage, match="NOTHING"):
        useful_rules(nothing)


def test_rules_that_take_part_in_no_sentence_are_left_out() -> None:
    rules = (Rule(0, (~0,)), Rule(0, (1,)), Rule(1, (1, ~0)), Rule(2, (~1,)))
    assert useful_rules(grammar(rules)) == (0,)
