"""Grammars without empty rules: every nonterminal that can be empty is left out where it may be."""

from __future__ import annotations

from collections.abc import Iterable

from grammars.context_free.grammar import Rule

_MOST_OPTIONAL = 3
"""With more symbols of one rule that may be left out, the rule is cut in two first, so that rules stay few."""


def nullable_symbols(rules: Iterable[Rule]) -> frozenset[int]:
    """Nonterminals that derive the empty text."""
    known: set[int] = set()
    rules = list(rules)
    changed = True
    while changed:
        changed = False
        for rule in rules:
            if rule.origin not in known and all(symbol in known for symbol in rule.symbols):
                known.add(rule.origin)
                changed = True
    return frozenset(known)


def without_empty_rules(rules: Iterable[Rule], nonterminals: int) -> tuple[list[Rule], int]:
    """Rules for the same texts but the empty one, none of them empty, and the number of nonterminals that they use.

    Rules that derive a symbol from itself alone are dropped: they add no text.
    """
    rules = list(rules)
    nullable = nullable_symbols(rules)
    cut: list[Rule] = []
    count = nonterminals
    for rule in rules:
        while sum(symbol in nullable for symbol in rule.symbols) > _MOST_OPTIONAL and len(rule.symbols) > 2:
            cut.append(Rule(rule.origin, (rule.symbols[0], count), rule.line))
            rule = Rule(count, rule.symbols[1:], rule.line)
            count += 1
        cut.append(rule)
    nullable = nullable_symbols(cut)
    found: dict[tuple[int, tuple[int, ...]], Rule] = {}
    for rule in cut:
        for symbols in _left_out(rule.symbols, nullable):
            if symbols and symbols != (rule.origin,):
                found.setdefault((rule.origin, symbols), Rule(rule.origin, symbols, rule.line))
    kept = list(found.values())
    while True:  # what derives the empty text alone has no rule left
        defined = {rule.origin for rule in kept}
        usable = [rule for rule in kept if all(symbol < 0 or symbol in defined for symbol in rule.symbols)]
        if len(usable) == len(kept):
            return kept, count
        kept = usable


def _left_out(symbols: tuple[int, ...], nullable: frozenset[int]) -> list[tuple[int, ...]]:
    made: list[tuple[int, ...]] = [()]
    for symbol in symbols:
        kept = [(*one, symbol) for one in made]
        made = kept + made if symbol in nullable else kept
    return made
