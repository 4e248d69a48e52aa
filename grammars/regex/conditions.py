"""Languages with assertions as a lazy alternating automaton.

A condition says what the rest of the text must be, given what came before: lookaheads are conjunctions and negations of
conditions, a lookbehind is a guard on the text so far, and a repeat whose body holds an assertion is a loop.  The text
so far matters only through the derivatives of "anything that ends as the lookbehind wants", which are followed along;
so each guard's truth is known when it is met, and every state is a boolean combination.  Kept as unions of
conjunctions, there are finitely many of them.

Conditions without guards and loops are plain languages; the constructors fold them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from grammars.errors import LimitExceeded
from grammars.memory import remembered
from grammars.regular import ALL, ANY, EPSILON, NONE, Rx, complement, concat, intersect, union
from grammars.regular.charset import join_all, meet, minus
from grammars.regular.derive import raw_moves

TERM_LIMIT = 2_000
"""Conjunctions in one condition; past it the assertions of an expression cost too much."""


@dataclass(frozen=True, slots=True)
class Then:
    """A plain language, then a condition on the rest."""

    head: Rx
    rest: Condition


@dataclass(frozen=True, slots=True)
class Either:
    """At least one condition holds."""

    options: frozenset[Condition]


@dataclass(frozen=True, slots=True)
class Both:
    """All conditions hold."""

    parts: frozenset[Condition]


@dataclass(frozen=True, slots=True)
class Not:
    """A condition that does not hold."""

    inner: Condition


@dataclass(frozen=True, slots=True)
class Guard:
    """The text before is in `past` (or is not), and the condition holds."""

    past: Rx
    positive: bool
    rest: Condition


@dataclass(frozen=True, slots=True)
class Loop:
    """The least condition X = rest or (body, then X).

    Attributes:
        key: what the loop is a loop of; equal keys are equal loops.
        unfold: from the loop itself to the condition `body, then X`.
    """

    key: object
    rest: Condition
    unfold: Callable[[Loop], Condition]

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Loop) and self.key == other.key and self.rest == other.rest)

    def __hash__(self) -> int:
        return hash((self.key, self.rest))


Condition: TypeAlias = Rx | Then | Either | Both | Not | Guard | Loop
Facts: TypeAlias = dict[Rx, bool]


def then(head: Rx, rest: Condition) -> Condition:
    """`head`, then the condition."""
    if isinstance(rest, Rx):
        return concat(head, rest)
    if head is EPSILON:
        return rest
    return NONE if head is NONE else Then(head, rest)


def guard(past: Rx, positive: bool, rest: Condition) -> Condition:
    """The condition, provided that the text before is in `past` (or is not)."""
    return NONE if rest is NONE else Guard(past, positive, rest)


def either(conditions: Iterable[Condition]) -> Condition:
    """At least one of them holds."""
    plain: list[Rx] = []
    heads: dict[Condition, list[Rx]] = {}
    guards: dict[tuple[Rx, bool], list[Condition]] = {}
    others: set[Condition] = set()
    stack = list(conditions)
    while stack:
        one = stack.pop()
        if isinstance(one, Rx):
            plain.append(one)
        elif isinstance(one, Either):
            stack.extend(one.options)
        elif isinstance(one, Then):
            heads.setdefault(one.rest, []).append(one.head)
        elif isinstance(one, Guard):
            guards.setdefault((one.past, one.positive), []).append(one.rest)
        else:
            others.add(one)
    language = union(*plain)
    if language is ALL:
        return ALL
    if language is not NONE:
        others.add(language)
    for rest, users in heads.items():
        others.add(then(union(*users), rest))
    for (past, positive), rests in guards.items():
        others.add(guard(past, positive, rests[0] if len(rests) == 1 else either(rests)))
    if not others:
        return NONE
    if len(others) > TERM_LIMIT:
        raise LimitExceeded(f"the assertions of a regular expression need more than {TERM_LIMIT} alternatives")
    return next(iter(others)) if len(others) == 1 else Either(frozenset(others))


def both(conditions: Iterable[Condition]) -> Condition:
    """All of them hold."""
    plain: list[Rx] = []
    others: set[Condition] = set()
    stack = list(conditions)
    while stack:
        one = stack.pop()
        if isinstance(one, Rx):
            plain.append(one)
        elif isinstance(one, Both):
            stack.extend(one.parts)
        else:
            others.add(one)
    language = intersect(*plain)
    if language is NONE:
        return NONE
    if not others:
        return language
    if language is not ALL:
        others.add(language)
    if len(others) == 1:
        return next(iter(others))
    for one in others:
        if isinstance(one, Either):
            rest = others - {one}
            return either(both((option, *rest)) for option in one.options)
        if isinstance(one, Not) and one.inner in others:
            return NONE
    guards = [one for one in others if isinstance(one, Guard)]
    if guards:
        first = min(guards, key=lambda one: (one.past.serial, one.positive))
        inner: list[Condition] = [one for one in others if one is not first]
        for index, one in enumerate(inner):
            if isinstance(one, Guard) and one.past is first.past:
                if one.positive is not first.positive:
                    return NONE
                inner[index] = one.rest
        return guard(first.past, first.positive, both((first.rest, *inner)))
    return Both(frozenset(others))


def negate(condition: Condition) -> Condition:
    """It does not hold."""
    if isinstance(condition, Rx):
        return complement(condition)
    if isinstance(condition, Not):
        return condition.inner
    if isinstance(condition, Either):
        return both(negate(one) for one in condition.options)
    if isinstance(condition, Both):
        return either(negate(one) for one in condition.parts)
    if isinstance(condition, Guard):
        return either(
            (
                guard(condition.past, not condition.positive, ALL),
                guard(condition.past, condition.positive, negate(condition.rest)),
            )
        )
    return Not(condition)


# --- what a condition says about the empty rest, and about the rest after one more character --------------------------


@remembered(1024)
def unfolded(loop: Loop) -> Condition:
    return either((loop.rest, loop.unfold(loop)))


def holds_for_empty(condition: Condition, facts: Facts, active: frozenset[Loop] = frozenset()) -> bool:
    if isinstance(condition, Rx):
        return condition.nullable
    if isinstance(condition, Then):
        return condition.head.nullable and holds_for_empty(condition.rest, facts, active)
    if isinstance(condition, Either):
        return any(holds_for_empty(one, facts, active) for one in condition.options)
    if isinstance(condition, Both):
        return all(holds_for_empty(one, facts, active) for one in condition.parts)
    if isinstance(condition, Not):
        return not holds_for_empty(condition.inner, facts, active)
    if isinstance(condition, Guard):
        return facts[condition.past] is condition.positive and holds_for_empty(condition.rest, facts, active)
    # A turn that consumes nothing leads back here and adds nothing.
    return condition not in active and holds_for_empty(unfolded(condition), facts, active | {condition})


_Steps: TypeAlias = list[tuple[Rx, Condition]]


def step(condition: Condition, facts: Facts, active: frozenset[Loop] = frozenset()) -> _Steps:
    """Disjoint sets of code points with the conditions on what follows."""
    if isinstance(condition, Rx):
        return list(raw_moves(condition))
    if isinstance(condition, Then):
        ahead: _Steps = [(chars, then(target, condition.rest)) for chars, target in raw_moves(condition.head)]
        if condition.head.nullable:
            return _overlay([ahead, step(condition.rest, facts, active)])
        return ahead
    if isinstance(condition, Either):
        return _overlay([step(one, facts, active) for one in condition.options])
    if isinstance(condition, Both):
        result: _Steps = [(ANY, ALL)]
        for one in condition.parts:
            steps = step(one, facts, active)
            result = [
                (chars, both((left, right)))
                for first, left in result
                for second, right in steps
                if (chars := meet(first, second)) is not NONE
            ]
        return result
    if isinstance(condition, Not):
        steps = step(condition.inner, facts, active)
        rest = minus(ANY, join_all([chars for chars, _ in steps]))
        out = [(chars, negate(target)) for chars, target in steps]
        return [*out, (rest, ALL)] if rest is not NONE else out
    if isinstance(condition, Guard):
        return step(condition.rest, facts, active) if facts[condition.past] is condition.positive else []
    if condition in active:
        return []
    return step(unfolded(condition), facts, active | {condition})


def _overlay(lists: list[_Steps]) -> _Steps:
    """Alternatives side by side: where sets overlap, either condition will do."""
    result: list[tuple[Rx, list[Condition]]] = []
    for steps in lists:
        following: list[tuple[Rx, list[Condition]]] = []
        for chars, targets in result:
            for other, target in steps:
                common = meet(chars, other)
                if common is not NONE:
                    following.append((common, [*targets, target]))
                    chars = minus(chars, common)
                    if chars is NONE:
                        break
            if chars is not NONE:
                following.append((chars, targets))
        covered = join_all([chars for chars, _ in result])
        for chars, target in steps:
            rest = minus(chars, covered)
            if rest is not NONE:
                following.append((rest, [target]))
        result = following
    return [(chars, either(targets)) for chars, targets in result]
