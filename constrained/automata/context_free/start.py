"""From a grammar value to the state before its first character."""

from __future__ import annotations

import constrained.automata.context_free.bounds
import constrained.automata.context_free.costs  # noqa: F401  (both tell the searches for completions of their states)
from constrained.automata.context_free.kept_grammars import kept
from constrained.automata.context_free.parser import Parser
from constrained.automata.context_free.states import grammar_start
from constrained.automata.machine import Machine
from grammars.combined import load as load_combined
from grammars.combined import regular
from grammars.context_free import ContextFree, Embedded, SpecialToken
from grammars.context_free.inlining import Resolved, inlined
from grammars.values import Gbnf, Grammar, JsonSchema, Lark, Phrases


def is_context_free(grammar: Grammar) -> bool:
    """Whether the grammar is parsed as a context-free one: it is neither a schema nor plainly regular.

    Raises:
        GrammarError: what its parts raise.
    """
    if isinstance(grammar, (JsonSchema, Lark)):
        return isinstance(grammar, Lark)
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
    """The rules and terminals of a grammar; of those embedded in it, only schemas stay terminals of their own."""
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
    if isinstance(grammar, JsonSchema):
        return None
    return _loaded(grammar) if is_context_free(grammar) else regular(grammar)
