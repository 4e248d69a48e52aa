"""A regular text before a grammar with contextual lexing: one more terminal, which is read first and nowhere else."""

from __future__ import annotations

from dataclasses import replace

from grammars.context_free import END_MARK, ContextFree, LalrTable, Rule, Terminal
from grammars.regular import Rx


def prefixed(grammar: ContextFree, prefix: Rx, name: str) -> ContextFree:
    """The texts of a language, each as long as can be, followed by the sentences of a grammar.

    Args:
        grammar: with contextual lexing.
        prefix: without the empty text.
        name: what messages call it.
    """
    old = grammar.lalr
    assert old is not None
    terminal, rule, origin = len(grammar.terminals), len(grammar.rules), len(grammar.nonterminals)
    first, last = len(old.actions), len(old.actions) + 1
    actions = [dict(one) for one in old.actions]
    # Where the old grammar would have accepted, the new rule is complete.
    actions[old.end][END_MARK] = ("reduce", rule)
    table = LalrTable(
        first,
        last,
        (*actions, {terminal: ("shift", old.start)}, {}),
        (*old.gotos, {origin: last}, {}),
        (*old.accepts, frozenset({terminal}), frozenset()),
    )
    return replace(
        grammar,
        nonterminals=(*grammar.nonterminals, f"{name} and {grammar.nonterminals[grammar.start]}"),
        terminals=(*grammar.terminals, Terminal(name, prefix, order=-1)),
        rules=(*grammar.rules, Rule(origin, (~terminal, grammar.start))),
        start=origin,
        lalr=table,
    )
