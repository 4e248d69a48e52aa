"""The parse table is Lark's own, state for state."""

from __future__ import annotations

import lark
import pytest
from lark.exceptions import LarkError as LarkException
from lark.parsers.lalr_analysis import Shift

from grammars.context_free import END_MARK, Rule
from grammars.lark.lalr import lalr
from tests.grammars.lark.random_grammars import random_grammar
from tests.grammars.library.checkers import lark_parser


def _compare(made: lark.Lark) -> None:
    table = made.parser.parser._parse_table
    nonterminals = {name: number for number, name in enumerate(dict.fromkeys(rule.origin.name for rule in made.rules))}
    names = dict.fromkeys(symbol.name for rule in made.rules for symbol in rule.expansion if symbol.is_term)
    terminals = {"$END": END_MARK, **{name: number for number, name in enumerate(names)}}
    rules = [
        Rule(
            nonterminals[rule.origin.name],
            tuple(~terminals[one.name] if one.is_term else nonterminals[one.name] for one in rule.expansion),
        )
        for rule in made.rules
    ]
    ours = lalr(rules, [rule.options.priority or 0 for rule in made.rules], nonterminals["start"])
    numbers = {rule: number for number, rule in enumerate(made.rules)}
    same = {table.start_states["start"]: 0}
    for theirs in (queue := [table.start_states["start"]]):
        actions, gotos = {}, {}
        for name, (kind, argument) in table.states[theirs].items():
            if kind is Shift:
                found = ours.gotos if name in nonterminals else ours.actions
                number = nonterminals[name] if name in nonterminals else terminals[name]
                after = found[same[theirs]][number]
                target = after if isinstance(after, int) else after[1]
                if argument not in same:
                    same[argument] = target
                    queue.append(argument)
                if name in nonterminals:
                    gotos[number] = same[argument]
                else:
                    actions[number] = ("shift", same[argument])
            else:
                actions[terminals[name]] = ("reduce", numbers[argument])
        assert ours.actions[same[theirs]] == actions
        assert ours.gotos[same[theirs]] == gotos
    assert len(same) == len(ours.actions) == len(set(same.values()))
    assert ours.end == same[table.end_states["start"]]


@pytest.mark.parametrize("name", ["sql", "python", "yaml"])
def test_tables_of_large_grammars(name: str) -> None:
    _compare(lark_parser(name))


def test_tables_of_random_grammars_conflicts_included() -> None:
    compared = 0
    for seed in range(120):
        try:
            made = lark.Lark(random_grammar(seed), parser="lalr")
        except LarkException:
            continue
        compared += 1
        _compare(made)
    assert compared > 60
