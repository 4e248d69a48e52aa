"""Special tokens in grammars: frames that read the bytes that stand for a token, and nothing else.

Which tokens may come at a place is one state, whatever terminals name them; the frame is left with the terminal that the
token was.  To text a special token is an end: what looks ahead of it sees no more text.
"""

from __future__ import annotations

from collections.abc import Iterable

from constrained.automata.context_free.hypotheses import Outcome
from constrained.automata.context_free.parser import Parser
from constrained.automata.machine import Machine
from constrained.automata.transitions import Transitions
from constrained.kernels.tables import goto, pop_after
from constrained.vocabulary.spelled import LENGTH, spelling
from grammars.context_free.grammar import SpecialToken
from grammars.context_free.scans import Cut
from grammars.errors import GrammarError

_MOST_NAMED = 12

Options = tuple[tuple[bytes, int], ...]
"""Tokens that may come: what is left of their bytes, and with which outcome the frame is left behind them."""


def token_number(machine: Machine, token: SpecialToken) -> int:
    """The id of a special token.

    Raises:
        GrammarError: the vocabulary has no token of this name or number, or it is one of text.
    """
    table = machine.tokens
    assert table is not None  # grammars that name tokens are compiled on vocabularies that spell them
    known = table.special_tokens
    if token.number is not None:
        if token.number >= len(table):
            raise GrammarError(f"the vocabulary has no token {token.number}; it has {len(table)} tokens")
        if table.text[token.number]:
            raise GrammarError(f"token {token.number} is text; write {table.token_bytes(token.number)!r} as a string")
        return token.number
    found = known.get(token.name)
    if found is None:
        names = sorted(known, key=lambda name: (known[name], name))
        shown = ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")
        raise GrammarError(f"the vocabulary has no special token {token.name}; it has {shown or 'none'}")
    return found


def special_start(machine: Machine, parser: Parser, terminals: Iterable[int]) -> int:
    """The state before the tokens that some terminals name.

    Raises:
        GrammarError: as `token_number`.
    """
    options: dict[bytes, int] = {}
    for number in sorted(terminals):
        token = spelling(token_number(machine, parser.special[number]))
        options.setdefault(token, parser.outcome(Outcome(cuts=(Cut(number),))))
    return machine.state((expand_special, tuple(sorted(options.items()))))


def expand_special(machine: Machine, options: Options) -> Transitions:
    """Within the bytes of a special token."""
    made = Transitions()
    left: dict[int, list[tuple[bytes, int]]] = {}
    for data, outcome in options:
        left.setdefault(data[0], []).append((data[1:], outcome))
    for byte, rest in left.items():
        action = goto(machine.state((expand_special, tuple(rest)))) if rest[0][0] else pop_after(rest[0][1])
        made.on(byte, byte, action)
    return made


def tokens_left(options: Options) -> int | None:
    """Tokens that leave the frame; None within a token, where no token ends."""
    return 1 if len(options[0][0]) == LENGTH else None
