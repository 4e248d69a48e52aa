"""From syntax to languages: assertions are translated with their continuation, the language of the rest of the text.

`(?=x)` followed by K is K ∩ x·ANY*; `(?<=y)` followed by K is K guarded by "the text so far is in ANY*·y".  Guards
whose truth is plain from the pattern itself (an anchor at its start, a word boundary after a known character) are
decided here, so that most patterns come out as plain expressions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from grammars.errors import LimitExceeded, UnsupportedFeature
from grammars.regex.conditional_states import language
from grammars.regex.conditions import Condition, Loop, both, either, guard, negate, then
from grammars.regex.syntax import (
    Choice,
    Look,
    Node,
    Repeat,
    Sequence,
    can_be_empty,
    holds_ahead,
    holds_behind,
    last_characters,
)
from grammars.regular import ALL, ANY, EPSILON, NONE, Rx, concat, repeat
from grammars.regular.charset import join, meet, minus
from grammars.regular.rx import CHARS

UNROLL_LIMIT = 64
"""Bounded repeats of a body with assertions are written out; this is how often at most."""

NESTING_LIMIT = 60
"""Assertions and groups with assertions inside one another."""


@dataclass(frozen=True, slots=True)
class Before:
    """What is known of the text before a place: whether it may be empty, and what its last character may be."""

    start: bool
    last: Rx

    def after(self, node: Node) -> Before:
        """The same behind a match of the node."""
        last = last_characters(node)
        return Before(self.start, join(self.last, last)) if can_be_empty(node) else Before(False, last)


AT_START = Before(True, NONE)
INSIDE = Before(False, ANY)


def fullmatch(node: Node) -> Rx:
    """The texts that match from end to end."""
    return node if isinstance(node, Rx) else language(_translate(node, EPSILON, AT_START, 0))


def search(node: Node) -> Rx:
    """The texts that have a match somewhere."""
    if isinstance(node, Rx):
        return concat(ALL, node, ALL)
    parts: list[Condition] = []
    for option in node.options if isinstance(node, Choice) else (node,):
        if holds_behind(option):
            parts.append(_translate(option, ALL, AT_START, 0))
            parts.append(then(repeat(ANY, 1, None), _translate(option, ALL, INSIDE, 0)))
        else:
            parts.append(then(ALL, _translate(option, ALL, Before(True, ANY), 0)))
    return language(either(parts))


def _translate(node: Node, rest: Condition, before: Before, depth: int) -> Condition:
    """The condition that the node matches here and `rest` holds behind it."""
    if isinstance(node, Rx):
        return then(node, rest)
    if depth > NESTING_LIMIT:
        raise LimitExceeded(f"assertions nested more than {NESTING_LIMIT} deep in a regular expression")
    if isinstance(node, Sequence):
        places = [before]
        for item in node.items[:-1]:
            places.append(places[-1].after(item))
        for item, place in zip(reversed(node.items), reversed(places), strict=True):
            rest = _translate(item, rest, place, depth + 1)
        return rest
    if isinstance(node, Choice):
        return either(_translate(option, rest, before, depth + 1) for option in node.options)
    if isinstance(node, Repeat):
        return _repeat(node, rest, before, depth)
    if node.ahead:
        inner = _translate(node.body, ALL, before, depth + 1)
        return both((rest, negate(inner) if node.negative else inner))
    return _behind(node, rest, before, depth)


def _repeat(node: Repeat, rest: Condition, before: Before, depth: int) -> Condition:
    copies = node.least if node.most is None else node.most
    if copies > UNROLL_LIMIT:
        raise LimitExceeded(
            f"a repeat of more than {UNROLL_LIMIT} times whose body holds an assertion", position=node.position
        )
    within = before.after(node.body)
    anywhere = Before(before.start or within.start, join(before.last, within.last))
    if node.most is None:
        rest = Loop((node.body, anywhere), rest, partial(_turn, node.body, anywhere, depth))
    else:
        for _ in range(node.most - node.least):
            rest = either((rest, _translate(node.body, rest, anywhere, depth + 1)))
    for turn in reversed(range(node.least)):
        rest = _translate(node.body, rest, before if turn == 0 else anywhere, depth + 1)
    return rest


def _turn(body: Node, before: Before, depth: int, loop: Loop) -> Condition:
    return _translate(body, loop, before, depth + 1)


def _behind(node: Look, rest: Condition, before: Before, depth: int) -> Condition:
    found = holds_ahead(node.body)
    if found is not None:
        raise UnsupportedFeature(
            "a lookahead, an end anchor or a word boundary inside a lookbehind", position=found.position
        )
    if isinstance(node.body, Rx) and node.body.kind == CHARS:
        certain = not before.start and minus(before.last, node.body) is NONE
        if certain or meet(before.last, node.body) is NONE:
            return rest if certain is not node.negative else NONE
    past = search_end(node.body, depth)
    return guard(past, not node.negative, rest)


def search_end(node: Node, depth: int) -> Rx:
    """The texts that end in a match of a node without lookaheads."""
    if isinstance(node, Rx):
        return concat(ALL, node)
    at_start = _translate(node, EPSILON, AT_START, depth + 1)
    later = then(repeat(ANY, 1, None), _translate(node, EPSILON, INSIDE, depth + 1))
    return language(either((at_start, later)))
