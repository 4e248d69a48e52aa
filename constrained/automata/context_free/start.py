"""From a grammar value to the state before its first character."""

from __future__ import annotations

from constrained.automata.context_free.parser import Parser
from constrained.automata.context_free.states import grammar_start
from constrained.automata.machine import Machine
from grammars.context_free import ContextFree
from grammars.values import Grammar, Lark


def is_context_free(grammar: Grammar) -> bool:
    """Whether the grammar is parsed as a context-free one."""
    return isinstance(grammar, Lark)


def context_free_start(machine: Machine, grammar: Grammar) -> int:
    """The state before the first character of a sentence.

    Raises:
        GrammarError: a subclass that names the place in the grammar.
    """
    return grammar_start(machine, machine.kept((Parser, grammar), lambda: Parser(loaded(grammar))))


def loaded(grammar: Grammar) -> ContextFree:
    """The rules and terminals of a grammar."""
    assert isinstance(grammar, Lark)
    from grammars.lark import load

    return load(grammar)
