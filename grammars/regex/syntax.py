"""What the parsers of both dialects produce: plain regular languages, and assertions where there are any.

Pieces without assertions become languages at once; only what holds an assertion is kept as a tree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from grammars.regular import ANY, EPSILON, Rx, chars, concat, literal, repeat, union
from grammars.regular.charset import join_all, minus


@dataclass(frozen=True, slots=True)
class Sequence:
    """Items one after the other; at least one of them holds an assertion."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several options; at least one of them holds an assertion."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A body that holds an assertion, repeated."""

    body: Node
    least: int
    most: int | None
    position: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Look:
    """A lookahead or lookbehind; anchors and word boundaries are such.

    Attributes:
        position: where it stands in the pattern, for messages.
    """

    body: Node
    ahead: bool
    negative: bool
    position: int = field(compare=False)


Node: TypeAlias = Rx | Sequence | Choice | Repeat | Look


def sequence(items: Iterable[Node | str]) -> Node:
    """Items one after the other; strings are literal text."""
    merged: list[Node] = []
    text: list[str] = []
    plain: list[Rx] = []
    for item in items:
        if isinstance(item, str):
            text.append(item)
            continue
        if text:
            plain.append(literal("".join(text)))
            text.clear()
        if isinstance(item, Rx):
            plain.append(item)
            continue
        if plain:
            merged.append(concat(*plain))
            plain.clear()
        if isinstance(item, Sequence):
            merged.extend(item.items)
        else:
            merged.append(item)
    if text:
        plain.append(literal("".join(text)))
    if plain:
        merged.append(plain[0] if len(plain) == 1 else concat(*plain))
    if not merged:
        return EPSILON
    return merged[0] if len(merged) == 1 else Sequence(tuple(merged))


def choice(options: list[Node]) -> Node:
    """One of the options."""
    if len(options) == 1:
        return options[0]
    plain = [option for option in options if isinstance(option, Rx)]
    if len(plain) == len(options):
        return union(*plain)
    kept: list[Node] = [option for option in options if not isinstance(option, Rx)]
    if plain:
        kept.append(union(*plain))
    return Choice(tuple(kept))


def repetition(body: Node, least: int, most: int | None, position: int) -> Node:
    """The body from `least` to `most` times."""
    if isinstance(body, Rx):
        return repeat(body, least, most)
    if most == 0:
        return EPSILON
    return body if least == most == 1 else Repeat(body, least, most, position)


def possessive(body: Node, least: int, most: int | None, position: int) -> Node | None:
    """A repeat that gives nothing back, where no word of the body is a prefix of another; else `None`.

    Then how often the body matches is a matter of the text alone, and giving nothing back means that it does not match
    once more: `(?:X{m,n-1}(?!X)|X{n})`.
    """
    if not isinstance(body, Rx) or body.nullable or not prefix_free(body):
        return None
    if least == most:
        return repeat(body, least, most)
    stopped = sequence([repeat(body, least, None if most is None else most - 1), Look(body, True, True, position)])
    return stopped if most is None else choice([stopped, repeat(body, most, most)])


def prefix_free(rx: Rx) -> bool:
    """Whether no word of the language is a proper prefix of another, so that there is one way to match it."""
    from grammars.regular import intersect, is_empty

    return is_empty(intersect(rx, concat(rx, repeat(ANY, 1, None))))


def can_be_empty(node: Node) -> bool:
    """Whether the node may match without consuming anything, assertions granted."""
    if isinstance(node, Rx):
        return node.nullable
    if isinstance(node, Sequence):
        return all(map(can_be_empty, node.items))
    if isinstance(node, Choice):
        return any(map(can_be_empty, node.options))
    if isinstance(node, Repeat):
        return node.least == 0 or can_be_empty(node.body)
    return True


def last_characters(node: Node) -> Rx:
    """A set that holds every character with which a non-empty match may end."""
    if isinstance(node, Rx):
        return _last_of_language(node)
    if isinstance(node, Sequence):
        sets = []
        for item in reversed(node.items):
            sets.append(last_characters(item))
            if not can_be_empty(item):
                break
        return join_all(sets)
    if isinstance(node, Choice):
        return join_all([last_characters(option) for option in node.options])
    if isinstance(node, Repeat):
        return last_characters(node.body)
    return chars([])


def _last_of_language(rx: Rx) -> Rx:
    from grammars.regular.rx import CHARS, CONCAT, LITERAL, REPEAT, UNION, WORDS
    from grammars.regular.words import listed

    sets: list[Rx] = []
    stack = [rx]
    while stack:
        node = stack.pop()
        kind = node.kind
        if kind == CHARS:
            sets.append(node)
        elif kind == LITERAL:
            sets.append(literal(node.a[-1]))
        elif kind == WORDS:
            sets.append(chars((ord(word[-1]), ord(word[-1])) for word in listed(node) if word))
        elif kind == CONCAT:
            stack.append(node.b)
            if node.b.nullable:
                stack.append(node.a)
        elif kind == UNION:
            stack.extend(node.a)
        elif kind == REPEAT:
            stack.append(node.a)
        elif node is not EPSILON and node.low + (node.high or 1) > 0:
            return ANY
    return join_all(sets)


def holds_behind(node: Node) -> bool:
    """Whether a lookbehind occurs outside other assertions' own reach: its truth depends on what came before."""
    if isinstance(node, Rx):
        return False
    if isinstance(node, Sequence):
        return any(map(holds_behind, node.items))
    if isinstance(node, Choice):
        return any(map(holds_behind, node.options))
    if isinstance(node, Repeat):
        return holds_behind(node.body)
    return not node.ahead or holds_behind(node.body)


def holds_ahead(node: Node) -> Look | None:
    """A lookahead in the node, if there is one."""
    if isinstance(node, Rx):
        return None
    if isinstance(node, Look):
        return node if node.ahead else holds_ahead(node.body)
    parts = node.items if isinstance(node, Sequence) else node.options if isinstance(node, Choice) else (node.body,)
    return next((found for part in parts if (found := holds_ahead(part)) is not None), None)


def start_of_text(position: int) -> Look:
    """Nothing comes before."""
    return Look(ANY, False, True, position)


def end_of_text(position: int) -> Look:
    """Nothing comes after."""
    return Look(ANY, True, True, position)


def line_start(line_ends: Rx, position: int) -> Look:
    """At the start of the text or after a line end."""
    return Look(minus(ANY, line_ends), False, True, position)


def line_end(line_ends: Rx, position: int) -> Look:
    """At the end of the text or before a line end."""
    return Look(minus(ANY, line_ends), True, True, position)


def boundary(word: Rx, position: int) -> Node:
    """Between a word character and something else, which may be an end of the text."""

    def look(ahead: bool, negative: bool) -> Look:
        return Look(word, ahead, negative, position)

    return Choice(
        (
            Sequence((look(False, False), look(True, True))),
            Sequence((look(False, True), look(True, False))),
        )
    )


def no_boundary(word: Rx, position: int, in_empty_text: bool) -> Node:
    """Not at a word boundary; `in_empty_text` says whether the empty text has such a place."""

    def look(charset: Rx, ahead: bool, negative: bool) -> Look:
        return Look(charset, ahead, negative, position)

    other = minus(ANY, word)
    inside: Node = Sequence((look(word, False, False), look(word, True, False)))
    if in_empty_text:
        return Choice((inside, Sequence((look(word, False, True), look(word, True, True)))))
    return Choice(
        (
            inside,
            Sequence((look(other, False, False), look(word, True, True))),
            Sequence((look(word, False, True), look(other, True, False))),
        )
    )
