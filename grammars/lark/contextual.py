"""Lark's LALR(1) table and its contextual lexers, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lark
from lark.lexer import ContextualLexer
from lark.parsers.lalr_analysis import Shift

from grammars.context_free import END_MARK, LalrTable

_END = "$END"


def lexer_of(made: lark.Lark) -> ContextualLexer | None:
    """The contextual lexer, below a post-lexer if there is one; `None` where the grammar has none."""
    lexer: Any = getattr(made.parser, "lexer", None)
    lexer = getattr(lexer, "lexer", lexer)
    return lexer if isinstance(lexer, ContextualLexer) else None


def order_of_trial(made: lark.Lark) -> dict[str, int]:
    """The place of each terminal in the order in which the contextual lexer tries them."""
    lexer = lexer_of(made)
    if lexer is None:
        return {}
    return {one.name: place for place, one in enumerate(lexer.root_lexer.terminals)}  # type: ignore[attr-defined]


def lalr_table(made: lark.Lark, start: str, terminals: Mapping[str, int], nonterminals: Mapping[str, int]) -> LalrTable:
    """The parse table, its states numbered as Lark numbers them; reductions are positions in `made.rules`."""
    table: Any = made.parser.parser._parse_table
    rules = {rule: number for number, rule in enumerate(made.rules)}
    lexer = lexer_of(made)
    assert lexer is not None
    actions: list[dict[int, Any]] = []
    gotos: list[dict[int, int]] = []
    accepts: list[frozenset[int]] = []
    for state in range(len(table.states)):
        acts: dict[int, Any] = {}
        moves: dict[int, int] = {}
        for name, (kind, argument) in table.states[state].items():
            if name in nonterminals:
                moves[nonterminals[name]] = argument
                continue
            number = END_MARK if name == _END else terminals[name]
            acts[number] = ("shift", argument) if kind is Shift else ("reduce", rules[argument])
        actions.append(acts)
        gotos.append(moves)
        accepts.append(frozenset(terminals[one.name] for one in lexer.lexers[state].terminals))  # type: ignore[attr-defined]
    return LalrTable(table.start_states[start], table.end_states[start], tuple(actions), tuple(gotos), tuple(accepts))
