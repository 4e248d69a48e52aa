"""Which symbols of a grammar count: those that derive a text and can be reached from the start (Hopcroft, Motwani and
Ullman, section 7.1)."""

from __future__ import annotations

from collections.abc import Collection

from grammars.context_free.grammar import ContextFree, Rule, Terminal
from grammars.errors import EmptyLanguage
from grammars.regular import NONE, Rx, is_empty

_MOST_NAMED = 5


def useful_rules(grammar: ContextFree) -> tuple[int, ...]:
    """Positions of the rules that some sentence uses.

    Raises:
        EmptyLanguage: the start symbol derives no text; names the nonterminals that it fails by.
    """
    rules = grammar.rules
    productive = _productive(grammar)
    if grammar.start not in productive:
        failing = _to_blame(grammar, productive)
        names = ", ".join(failing[:_MOST_NAMED]) + (", ..." if len(failing) > _MOST_NAMED else "")
        raise EmptyLanguage(f"no text is a sentence of the grammar: {names} cannot be derived to an end")
    usable = [at for at, rule in enumerate(rules) if _all_productive(rule, productive)]
    by_origin: dict[int, list[int]] = {}
    for at in usable:
        by_origin.setdefault(rules[at].origin, []).append(at)
    reached = {grammar.start}
    queue = [grammar.start]
    while queue:
        for at in by_origin[queue.pop()]:
            for symbol in rules[at].symbols:
                if symbol >= 0 and symbol not in reached:
                    reached.add(symbol)
                    queue.append(symbol)
    return tuple(at for at in usable if rules[at].origin in reached)


def has_text(terminal: Terminal) -> bool:
    """Whether the terminal can be read at all."""
    if not isinstance(terminal.language, Rx):
        return True
    return any(
        rx is not NONE and not is_empty(rx) for rx in (terminal.language, *(rx for rx, _ in terminal.conditional))
    )


def _productive(grammar: ContextFree) -> set[int]:
    """Symbols that derive a text: nonterminals, and terminals as ~number."""
    inserted: tuple[int, ...] = ()
    if grammar.indentation is not None:
        inserted = (grammar.indentation.indent, grammar.indentation.dedent)
    productive = {
        ~number for number, one in enumerate(grammar.terminals) if number in inserted or has_text(one)
    }  # fmt: skip
    waiting: dict[int, list[int]] = {}
    missing: list[int] = []
    ready: list[int] = []
    for at, rule in enumerate(grammar.rules):
        lacking = [symbol for symbol in rule.symbols if symbol not in productive]
        missing.append(len(lacking))
        for symbol in lacking:
            waiting.setdefault(symbol, []).append(at)
        if not lacking:
            ready.append(at)
    while ready:
        origin = grammar.rules[ready.pop()].origin
        if origin in productive:
            continue
        productive.add(origin)
        for at in waiting.get(origin, ()):
            missing[at] -= 1
            if missing[at] == 0:
                ready.append(at)
    return productive


def _all_productive(rule: Rule, productive: Collection[int]) -> bool:
    return all(symbol in productive for symbol in rule.symbols)


def _to_blame(grammar: ContextFree, productive: Collection[int]) -> list[str]:
    """Names of the symbols that derive nothing, those without any rule and empty terminals first."""
    defined = {rule.origin for rule in grammar.rules}
    used = {symbol for rule in grammar.rules for symbol in rule.symbols} | {grammar.start}
    lacking = [symbol for symbol in sorted(used) if symbol not in productive]
    roots = [symbol for symbol in lacking if symbol < 0 or symbol not in defined] or lacking
    return [grammar.nonterminals[one] if one >= 0 else grammar.terminals[~one].name for one in roots]
