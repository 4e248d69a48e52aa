"""Languages given by a lazy automaton of somebody else: the door for what has no operator here.

Regular expressions with assertions in the middle or under repetition use it: their states are conditions on what lies
ahead and behind, which are finitely many but no expression of the algebra.
"""

from __future__ import annotations

from typing import Protocol

from grammars.regular.rx import BOOLEAN, MACHINE, Rx, intern


class State(Protocol):
    """A state of a lazy automaton: hashable, with equality that makes the reachable states finitely many."""

    @property
    def nullable(self) -> bool:
        """Whether the empty text is accepted here."""

    def moves(self) -> list[tuple[Rx, Rx]]:
        """Disjoint sets of code points (CHARS nodes) with the languages that follow; these may be empty."""

    def __hash__(self) -> int: ...

    def __eq__(self, other: object) -> bool: ...


def machine(state: State, order: int = 0) -> Rx:
    """The language that the automaton accepts from `state`; equal states give the same node.

    Args:
        state: must not refer to nodes made by `machine` from states that refer to it again, or neither is ever freed.
        order: a hash of the state that is the same in every process, for the order of operands.
    """
    nullable = state.nullable
    return intern((MACHINE, state), nullable, hash((MACHINE, order)), 0 if nullable else 1, None, BOOLEAN, state)
