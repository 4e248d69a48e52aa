"""States of the lazy alternating automaton of expressions with assertions: a condition and what it looks back on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from grammars.memory import remembered
from grammars.regex.conditions import (
    Both,
    Condition,
    Either,
    Facts,
    Guard,
    Not,
    Then,
    both,
    either,
    holds_for_empty,
    negate,
    step,
    unfolded,
)
from grammars.regular import ANY, NONE, Rx
from grammars.regular.charset import join_all, meet, minus
from grammars.regular.derive import raw_moves
from grammars.regular.unfold import Unfolding, unfold


def _resolve(condition: Condition, facts: Facts) -> Condition:
    """The condition with the guards decided that stand at the present place."""
    if isinstance(condition, Guard):
        return _resolve(condition.rest, facts) if facts[condition.past] is condition.positive else NONE
    if isinstance(condition, Either):
        return either(_resolve(one, facts) for one in condition.options)
    if isinstance(condition, Both):
        return both(_resolve(one, facts) for one in condition.parts)
    if isinstance(condition, Not):
        return negate(_resolve(condition.inner, facts))
    return condition


@remembered(4096)
def _guards(condition: Condition) -> tuple[Rx, ...]:
    """The pasts that guards anywhere in the condition ask about."""
    found: set[Rx] = set()
    seen: set[Condition] = set()
    stack = [condition]
    while stack:
        one = stack.pop()
        if isinstance(one, Rx) or one in seen:
            continue
        seen.add(one)
        if isinstance(one, Guard):
            found.add(one.past)
            stack.append(one.rest)
        elif isinstance(one, Then):
            stack.append(one.rest)
        elif isinstance(one, Either):
            stack.extend(one.options)
        elif isinstance(one, Both):
            stack.extend(one.parts)
        elif isinstance(one, Not):
            stack.append(one.inner)
        else:
            stack.append(unfolded(one))
    return tuple(sorted(found, key=lambda one: one.serial))


@dataclass(frozen=True, slots=True)
class Conditions(Unfolding):
    """A state: a condition on the rest, and the residual of every past that its guards ask about."""

    live: ClassVar[bool] = False

    condition: Condition
    pasts: tuple[tuple[Rx, Rx], ...]

    @property
    def nullable(self) -> bool:
        """Whether the text may end here."""
        return holds_for_empty(self.condition, self._facts())

    def _facts(self) -> Facts:
        return {past: residual.nullable for past, residual in self.pasts}

    @property
    def order(self) -> int:
        """A structural hash, the same in every process."""
        return hash((_order(self.condition), *[residual.order for _, residual in self.pasts]))

    def moves(self) -> Iterable[tuple[int, int, Rx]]:
        """The moves by ranges of code points."""
        return [(lo, hi, target) for chars, target in self.set_moves() for lo, hi in chars.a]

    def set_moves(self) -> list[tuple[Rx, Rx]]:
        """Disjoint sets of code points with what may follow."""
        out: list[tuple[Rx, Rx]] = []
        for chars, target in step(self.condition, self._facts()):
            splits: list[tuple[Rx, dict[Rx, Rx]]] = [(chars, {})]
            for past, residual in self.pasts:
                splits = [
                    (common, {**residuals, past: following})
                    for one, residuals in splits
                    for other, following in _complete(residual)
                    if (common := meet(one, other)) is not NONE
                ]
            out.extend((one, _state(target, residuals)) for one, residuals in splits)
        return out


def _order(condition: Condition) -> int:
    if isinstance(condition, Rx):
        return condition.order
    if isinstance(condition, Then):
        return hash((1, condition.head.order, _order(condition.rest)))
    if isinstance(condition, (Either, Both)):
        members = condition.options if isinstance(condition, Either) else condition.parts
        return hash((2 if isinstance(condition, Either) else 3, *sorted(map(_order, members))))
    if isinstance(condition, Not):
        return hash((4, _order(condition.inner)))
    if isinstance(condition, Guard):
        return hash((5, condition.past.order, condition.positive, _order(condition.rest)))
    return hash((6, _order(condition.rest)))


def _complete(rx: Rx) -> list[tuple[Rx, Rx]]:
    moves = list(raw_moves(rx))
    rest = minus(ANY, join_all([chars for chars, _ in moves]))
    return [*moves, (rest, NONE)] if rest is not NONE else moves


def _state(condition: Condition, residuals: dict[Rx, Rx]) -> Rx:
    condition = _resolve(condition, {past: residual.nullable for past, residual in residuals.items()})
    if isinstance(condition, Rx):
        return condition
    return unfold(Conditions(condition, tuple((past, residuals[past]) for past in _guards(condition))))


def language(condition: Condition) -> Rx:
    """The texts that satisfy a condition at their start."""
    if isinstance(condition, Rx):
        return condition
    return _state(condition, {past: past for past in _guards(condition)})
