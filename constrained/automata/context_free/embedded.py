"""Grammars of their own inside a context-free one: frames that read a terminal from its first byte to its end."""

from __future__ import annotations

from collections.abc import Iterable

from constrained.automata.context_free.hypotheses import Outcome
from constrained.automata.context_free.parser import Parser
from constrained.automata.machine import Machine
from constrained.automata.schema_start import schema_start
from constrained.automata.state_keys import Key
from constrained.automata.transitions import Transitions
from constrained.kernels.tables import PASSING, pop_before, push
from grammars.combined import followed
from grammars.context_free.scans import Cut, Scan
from grammars.endings import Ending
from grammars.errors import UnsupportedFeature
from grammars.regular import ALL, Rx
from grammars.values import Phrases

_IN_NUMBERS = sum(1 << byte for byte in b"0123456789.eE+-")


def passing(machine: Machine, key: Key) -> int:
    """The state of a key that does the same thing before every byte."""
    known = machine.known(key)
    if known is not None:
        return known
    state = machine.state(key)
    machine.open(state, PASSING)
    # whatever comes next needs it
    if key[0] is expand_leave:
        machine.define_alike(state, pop_before(key[1]))
    else:
        machine.expand(state)
    return state


def expand_leave(machine: Machine, outcome: int, parser: Parser | None = None) -> Transitions:
    """The frame is left, whatever comes; `parser` knows the outcome, if it is one of its own."""
    made = Transitions()
    made.otherwise(pop_before(outcome))
    made.at_end(pop_before(outcome))
    return made


def embedded_start(machine: Machine, parser: Parser, number: int) -> int:
    """The state before a terminal that is a grammar of its own."""
    grammar = parser.embedded[number]
    if isinstance(grammar, Phrases):
        from constrained.automata.phrases.start import phrases_start

        phrases = followed(grammar)
        assert phrases is not None
        return phrases_start(machine, phrases)
    if not isinstance(grammar, Ending):
        return schema_start(machine, grammar)
    from constrained.automata.context_free.start import context_free_start  # which imports this

    return context_free_start(machine, grammar.grammar)


def enter_embedded(machine: Machine, made: Transitions, parser: Parser, number: int) -> None:
    """Edges into a terminal that is a grammar of its own."""
    start = embedded_start(machine, parser, number)
    outcome = parser.outcome(Outcome(cuts=(Cut(number),)))
    action = push(start, passing(machine, (expand_leave, outcome, parser)))
    for byte in unshared(made, parser, number, ALL):
        made.on(byte, byte, action)


def first_bytes_of(machine: Machine, parser: Parser, number: int) -> bytes:
    """The bytes with which a terminal begins that is a grammar of its own."""
    from constrained.automata.context_free.states import expand_enter

    start = embedded_start(machine, parser, number)
    while machine.key(start)[0] is expand_enter:
        start = machine.key(start)[3]
    begins = machine.transitions(start).groups
    return bytes(byte for byte in range(256) if begins[byte])


def unshared(made: Transitions, parser: Parser, number: int, rest: Rx) -> bytes:
    """The bytes with which a terminal begins that is a grammar of its own, where the text must be in `rest`.

    Raises:
        UnsupportedFeature: something else begins with one of them, or a condition on the text looks into it.
    """
    found = parser.entered(number, rest)
    shared = [byte for byte in found if made.groups[byte]]
    if shared:
        raise UnsupportedFeature(
            f"{parser.grammar.terminals[number].name} may begin with {bytes(shared[:1])!r}, and so may something else at the "
            "same place; a schema inside another grammar has to be told from others by its first character"
        )
    return found


def check_numbers(machine: Machine, parser: Parser, cut: Cut, scans: Iterable[Scan]) -> None:
    """Refuse what could go on with a number of a schema, where it cannot be told whether the number goes on.

    Raises:
        UnsupportedFeature: a number may end and what follows may begin as it goes on.
    """
    if not machine.transitions(embedded_start(machine, parser, cut.terminal)).groups[0x30]:
        return
    for scan in scans:
        for (bits, _), _ in parser.lexer.moves(scan):
            if bits & _IN_NUMBERS:
                raise UnsupportedFeature(
                    f"{parser.grammar.terminals[cut.terminal].name} may be a number, and what follows it may begin with a "
                    "character of numbers; put something between them"
                )
