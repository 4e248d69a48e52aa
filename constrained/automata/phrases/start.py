"""From a grammar with phrases to the state before its first byte."""

from __future__ import annotations

import constrained.automata.phrases.guides  # noqa: F401  (tells the searches for completions of these states)
from constrained.automata.machine import Machine
from constrained.automata.phrases.follower import Follower
from constrained.automata.phrases.product import ROOT, Phrased
from constrained.automata.schema_start import schema_start
from grammars.errors import EmptyLanguage
from grammars.values import Grammar, JsonSchema, Phrases


def phrases_start(machine: Machine, grammar: Phrases) -> int:
    """The state before the first byte of a text that has the required phrases and none of the banned ones.

    Raises:
        EmptyLanguage: there is none.
        UnsupportedFeature: it cannot be told of this grammar whether a text goes on.
        GrammarError: what the grammar raises.
    """
    phrased: Phrased = machine.kept(
        (Phrased, grammar), lambda: Phrased(machine, Follower(grammar.required, grammar.banned))
    )
    within = _start(machine, grammar.within)
    if any(banned in phrase for phrase in grammar.required for banned in grammar.banned) or not phrased.live(
        within, phrased.follower.start, ROOT
    ):
        raise EmptyLanguage(
            f"no text of the grammar holds all of {list(grammar.required)!r} and none of {list(grammar.banned)!r}"
        )
    return phrased.state(within, phrased.follower.start, ROOT)


def _start(machine: Machine, grammar: Grammar | str) -> int:
    assert isinstance(grammar, Grammar)  # a text alone is regular
    if isinstance(grammar, JsonSchema):
        return schema_start(machine, grammar)
    from constrained.automata.context_free.start import context_free_start  # which imports this

    return context_free_start(machine, grammar)
