"""From a grammar value to the state before its first character."""

from __future__ import annotations

from dataclasses import replace

import constrained.automata.context_free.bounds
import constrained.automata.context_free.costs  # noqa: F401  (both tell the searches for completions of their states)
from constrained.automata.context_free.kept_grammars import kept
from constrained.automata.context_free.parser import Parser
from constrained.automata.context_free.states import grammar_start
from constrained.automata.machine import Machine
from grammars.combined import followed, regular
from grammars.combined import load as load_combined
from grammars.context_free import ContextFree, Embedded, Rule, SpecialToken, Terminal
from grammars.context_free.inlining import Resolved, inlined
from grammars.context_free.nullable import nullable_symbols
from grammars.endings import Ending
from grammars.errors import UnsupportedFeature
from grammars.values import Gbnf, Grammar, JsonSchema, Lark, Phrases


def is_context_free(grammar: Grammar) -> bool:
    """Whether the grammar is parsed as a context-free one: it is no schema, not plainly regular, and has no phrases that are
    followed beside a machine.

    Raises:
        GrammarError: what its parts raise.
    """
    if isinstance(grammar, (JsonSchema, Lark)):
        return isinstance(grammar, Lark)
    if followed(grammar) is not None:
        return False
    return regular(grammar.within if isinstance(grammar, Phrases) else grammar) is None


def context_free_start(machine: Machine, grammar: Grammar) -> int:
    """The state before the first character of a sentence.

    Raises:
        GrammarError: a subclass that names the place in the grammar.
    """
    return grammar_start(machine, machine.kept((Parser, grammar), lambda: Parser(kept(grammar, loaded))))


def check_context_free(grammar: Grammar) -> None:
    """Load the grammar and prepare it for parsing.

    Raises:
        GrammarError: a subclass that names the place in the grammar.
    """
    Parser(kept(grammar, loaded))


def special_tokens_of(grammar: Grammar) -> list[SpecialToken]:
    """The special tokens that a context-free grammar names.

    Raises:
        GrammarError: as `check_context_free`.
    """
    terminals = kept(grammar, loaded).grammar.terminals
    return [one.language for one in terminals if isinstance(one.language, SpecialToken)]


def loaded(grammar: Grammar) -> ContextFree:
    """The rules and terminals of a grammar; schemas in it stay terminals of their own, and so does what has contextual lexing."""
    return inlined(_loaded(grammar), _resolved)


def _loaded(grammar: Grammar) -> ContextFree:
    if isinstance(grammar, Lark):
        from grammars.lark import load

        return load(grammar)
    if isinstance(grammar, Gbnf):
        from grammars.gbnf import load as load_gbnf

        return load_gbnf(grammar)
    return load_combined(grammar)


def _resolved(embedded: Embedded) -> Resolved:
    grammar = embedded.grammar
    if isinstance(grammar, Ending):
        return _ending(grammar)
    if isinstance(grammar, JsonSchema):
        return None
    phrases = followed(grammar)
    if phrases is not None:
        if isinstance(phrases.within, JsonSchema):
            return None
        raise UnsupportedFeature(
            f"Phrases within {type(phrases.within).__name__} as a part of another grammar, where they are followed byte by byte; "
            "put Phrases around the whole, or around its schemas"
        )
    if not is_context_free(grammar):
        return regular(grammar)
    found = _loaded(grammar)
    if any(isinstance(one.language, Embedded) and isinstance(one.language.grammar, Ending) for one in found.terminals):
        raise UnsupportedFeature(
            "a grammar within a Lark grammar has a part with lexer='contextual'; there it needs lexer='dynamic'"
        )
    return found


def _ending(value: Ending) -> ContextFree | None:
    """Rules for what is read by a parser of its own, if it may be empty; terminals are not."""
    inner = kept(value.grammar, loaded).grammar
    if value.is_empty_apart or inner.start not in nullable_symbols(inner.rules):
        return None
    terminal = Terminal("Lark", Embedded(replace(value, is_empty_apart=True)))
    return ContextFree(("ending",), (terminal,), (Rule(0, ()), Rule(0, (~0,))), 0)
