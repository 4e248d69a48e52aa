"""What Lark's contextual lexer tries in each state of the parser, and which strings it tells from names afterwards."""

from __future__ import annotations

from dataclasses import dataclass

from grammars.context_free.grammar import ContextFree, Terminal
from grammars.regular import Rx, matches, shortest


@dataclass(frozen=True, slots=True)
class Tried:
    """A terminal as the lexer tries it: its texts, and the keywords that are told from them after a match."""

    terminal: int
    rx: Rx
    conditional: tuple[tuple[Rx, Rx], ...]
    keywords: tuple[tuple[Rx, int], ...]


def tried_terminals(grammar: ContextFree) -> list[list[Tried]]:
    """For each state of the parse table, the terminals that are tried, in Lark's order.

    A string that a regular expression of the same priority matches whole is not tried itself: a match of the expression
    with just this text becomes it (`_create_unless` in Lark's lexer), if its flags are among the expression's.
    """
    assert grammar.lalr is not None
    inserted = set()
    if grammar.indentation is not None:
        inserted = {grammar.indentation.indent, grammar.indentation.dedent}
    made: dict[frozenset[int], list[Tried]] = {}
    by_state = []
    covered: dict[tuple[int, int], bool] = {}
    shared: dict[tuple[object, ...], Tried] = {}
    for accepts in grammar.lalr.accepts:
        key = frozenset(accepts) - inserted
        if key not in made:
            made[key] = _tried(grammar, key, covered, shared)
        by_state.append(made[key])
    return by_state


def _tried(
    grammar: ContextFree,
    accepts: frozenset[int],
    covered: dict[tuple[int, int], bool],
    shared: dict[tuple[object, ...], Tried],
) -> list[Tried]:
    terminals = grammar.terminals
    ordered = sorted(accepts, key=lambda number: terminals[number].order)
    strings = [number for number in ordered if terminals[number].literal]
    keywords: dict[int, list[tuple[Rx, int]]] = {}
    embedded = set()
    for number in ordered:
        if terminals[number].literal:
            continue
        for other in strings:
            if (number, other) not in covered:
                covered[number, other] = is_covered(terminals[number], terminals[other])
            if covered[number, other]:
                language = terminals[other].language
                assert isinstance(language, Rx)
                keywords.setdefault(number, []).append((language, other))
                if terminals[other].flags <= terminals[number].flags:
                    embedded.add(other)
    tried = []
    for number in ordered:
        language = terminals[number].language
        if number not in embedded and isinstance(language, Rx):
            own = tuple(keywords.get(number, ()))
            one = shared.get((number, own))
            if one is None:
                one = shared[number, own] = Tried(number, language, terminals[number].conditional, own)
            tried.append(one)
    return tried


def is_covered(expression: Terminal, string: Terminal) -> bool:
    """Whether the expression matches the whole string."""
    if expression.priority != string.priority:
        return False
    assert isinstance(expression.language, Rx)
    assert isinstance(string.language, Rx)
    text = string.pattern if matches(string.language, string.pattern) else shortest(string.language)
    if text is None:
        return False
    return matches(expression.language, text) or any(
        matches(rx, text) and rests.nullable for rx, rests in expression.conditional
    )
