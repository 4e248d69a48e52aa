"""Grammars inside grammars: what is regular becomes a terminal, rules are written out beside the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from grammars.context_free.grammar import ContextFree, Embedded, Rule, Terminal
from grammars.errors import UnsupportedFeature
from grammars.regular import NONE, Rx
from grammars.regular.booleans import difference
from grammars.regular.rx import EPSILON

Resolved = Rx | ContextFree | None
"""What an embedded grammar is: a language, rules, or neither (it stays a terminal of its own)."""


def inlined(grammar: ContextFree, resolve: Callable[[Embedded], Resolved]) -> ContextFree:
    """The same texts without embedded grammars, but for those that are neither regular nor rules.

    Ignored text becomes part of the rules where grammars with different ignored texts meet.

    Raises:
        UnsupportedFeature: a grammar with contextual lexing inside another.
    """
    found = {
        number: resolve(one.language) for number, one in enumerate(grammar.terminals) if isinstance(one.language, Embedded)
    }  # fmt: skip
    if not any(one is not None for one in found.values()):
        return grammar
    if grammar.lexing == "every" and any(isinstance(one, ContextFree) for one in found.values()):
        grammar = spelled_out(grammar)
    builder = _Builder(grammar)
    for number, one in found.items():
        if isinstance(one, Rx):
            builder.put_language(number, one)
        elif one is not None:
            if one.lexing == "contextual":
                raise UnsupportedFeature(
                    f"{grammar.terminals[number].name} has lexer='contextual'; inside another grammar it needs "
                    "lexer='dynamic'"
                )
            builder.put_rules(number, inlined(spelled_out(one) if one.lexing == "every" else one, resolve))
    return builder.made()


def spelled_out(grammar: ContextFree) -> ContextFree:
    """A grammar with ignored texts as one without: they are part of its rules."""
    if not grammar.ignored:
        return replace(grammar, lexing="none")
    skip, start = len(grammar.nonterminals), len(grammar.nonterminals) + 1
    rules = [
        Rule(rule.origin, tuple(part for one in rule.symbols for part in ((one,) if one >= 0 else (one, skip))), rule.line)
        for rule in grammar.rules
    ]  # fmt: skip
    rules += [Rule(skip, ())] + [Rule(skip, (skip, ~number)) for number in sorted(grammar.ignored)]
    rules.append(Rule(start, (skip, grammar.start)))
    return replace(
        grammar,
        nonterminals=(*grammar.nonterminals, "ignored text", grammar.nonterminals[grammar.start]),
        rules=tuple(rules),
        start=start,
        lexing="none",
        ignored=frozenset(),
    )


class _Builder:
    """A grammar into which others are put."""

    def __init__(self, grammar: ContextFree) -> None:
        self._grammar = grammar
        self._nonterminals = list(grammar.nonterminals)
        self._terminals: list[Terminal] = list(grammar.terminals)
        self._rules = list(grammar.rules)
        self._instead: dict[int, int] = {}

    def put_language(self, number: int, language: Rx) -> None:
        """A terminal is a regular language, which may hold the empty text."""
        old = self._terminals[number]
        rest = difference(language, EPSILON) if language.nullable else language
        self._terminals[number] = replace(old, language=rest)
        if language.nullable:
            origin = self._new(old.name)
            self._rules.append(Rule(origin, ()))
            if rest is not NONE:
                self._rules.append(Rule(origin, (~number,)))
            self._instead[~number] = origin

    def put_rules(self, number: int, inner: ContextFree) -> None:
        """A terminal is what the start of another grammar derives."""
        nonterminals, terminals = len(self._nonterminals), len(self._terminals)
        self._nonterminals += inner.nonterminals
        self._terminals += inner.terminals

        def moved(symbol: int) -> int:
            return symbol + nonterminals if symbol >= 0 else ~(~symbol + terminals)

        self._rules += [
            Rule(rule.origin + nonterminals, tuple(map(moved, rule.symbols)), rule.line) for rule in inner.rules
        ]
        self._instead[~number] = moved(inner.start)
        self._terminals[number] = replace(self._terminals[number], language=NONE)

    def _new(self, name: str) -> int:
        self._nonterminals.append(name)
        return len(self._nonterminals) - 1

    def made(self) -> ContextFree:
        """The whole."""
        instead = self._instead
        own = {origin for origin in instead.values()}
        rules = [
            rule if rule.origin in own and rule.symbols[:1] in [(symbol,) for symbol in instead]
            else Rule(rule.origin, tuple(instead.get(one, one) for one in rule.symbols), rule.line)
            for rule in self._rules
        ]  # fmt: skip
        return replace(
            self._grammar,
            nonterminals=tuple(self._nonterminals),
            terminals=tuple(self._terminals),
            rules=tuple(rules),
        )
