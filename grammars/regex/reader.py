"""What the parsers of both dialects share: the cursor, open groups, alternatives and quantifiers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from grammars.errors import LimitExceeded, RegexError, UnsupportedFeature
from grammars.regex.syntax import Look, Node, choice, repetition, sequence

PATTERN_LIMIT = 200_000
"""Characters of a pattern."""

NESTING_LIMIT = 200
"""Groups inside one another."""

ASSERTION_LIMIT = 100
"""Assertions, anchors and word boundaries of a pattern."""

REPEAT_LIMIT = (1 << 32) - 2
"""The largest bound of a repeat, as in `re`."""

Item = Node | str


@dataclass(slots=True)
class Group:
    """A group that is being read.

    Attributes:
        close: what becomes of its contents at the closing parenthesis.
        flags: the flags outside, to be restored.
        start: the position of its opening parenthesis.
        number: the number of a capturing group.
        repeated: whether the last item is a repeat, which takes no further quantifier.
        anchor: whether the last item is an anchor or a word boundary.
        atomic: whether the group gives nothing back once it has matched.
        quantifiable: whether a quantifier may follow the group itself.
        greedy: the body and the bounds of the last item, if it is a greedy repeat.
    """

    close: Callable[[Node], Node]
    flags: int
    start: int
    number: int | None = None
    options: list[Node] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    repeated: bool = False
    anchor: bool = False
    greedy: tuple[Node, int, int | None] | None = None
    atomic: bool = False
    quantifiable: bool = True


class Reader:
    """A cursor over a pattern with a stack of open groups; the dialects read atoms with it.

    Attributes:
        position: 0-based index of the next character.
        flags: the flags in force, as of `re`.
    """

    def __init__(self, pattern: str, flags: int) -> None:
        if len(pattern) > PATTERN_LIMIT:
            raise LimitExceeded(f"a regular expression of {len(pattern)} characters (at most {PATTERN_LIMIT})")
        self.pattern = pattern
        self.position = 0
        self.flags = flags
        self.assertions = 0
        self.stack: list[Group] = [Group(lambda node: node, flags, 0)]

    # --- cursor ---

    def peek(self) -> str:
        """The next character, empty at the end."""
        return self.pattern[self.position : self.position + 1]

    def take(self, expected: str) -> bool:
        """Step over `expected` if it comes next."""
        if self.pattern.startswith(expected, self.position):
            self.position += len(expected)
            return True
        return False

    def take_while(self, allowed: str, most: int | None = None) -> str:
        """Step over characters out of `allowed`."""
        start = end = self.position
        limit = len(self.pattern) if most is None else min(len(self.pattern), start + most)
        while end < limit and self.pattern[end] in allowed:
            end += 1
        self.position = end
        return self.pattern[start:end]

    def take_until(self, stop: str, missing: str) -> str:
        """The text before the next `stop`, stepping over both."""
        end = self.pattern.find(stop, self.position)
        if end < 0:
            self.fail(missing)
        text = self.pattern[self.position : end]
        self.position = end + len(stop)
        return text

    def fail(self, message: str, position: int | None = None) -> NoReturn:
        """Raise a RegexError."""
        raise RegexError(message, self.pattern, self.position if position is None else position)

    def refuse(self, what: str, position: int) -> NoReturn:
        """Raise an UnsupportedFeature."""
        raise UnsupportedFeature(f"{what} in the regular expression {self._shown()}", position=position)

    def _shown(self) -> str:
        return repr(self.pattern if len(self.pattern) <= 80 else self.pattern[:77] + "...")

    # --- structure ---

    def add(self, item: Item) -> None:
        """Append an atom to the sequence that is being read."""
        group = self.stack[-1]
        group.items.append(item)
        group.repeated = group.anchor = False
        group.greedy = None

    def add_assertion(self, node: Node) -> None:
        """Append an anchor, a word boundary or a lookaround."""
        self.assertions += 1
        if self.assertions > ASSERTION_LIMIT:
            raise LimitExceeded(
                f"more than {ASSERTION_LIMIT} anchors, word boundaries and lookarounds in the regular expression "
                f"{self._shown()}",
                position=self.position,
            )
        self.add(node)

    def open(self, close: Callable[[Node], Node], start: int, number: int | None = None) -> None:
        """Begin a group."""
        if len(self.stack) > NESTING_LIMIT:
            raise LimitExceeded(
                f"groups nested more than {NESTING_LIMIT} deep in the regular expression {self._shown()}",
                position=start,
            )
        self.stack.append(Group(close, self.flags, start, number))

    def alternative(self) -> None:
        """End an alternative at a `|`."""
        group = self.stack[-1]
        group.options.append(sequence(group.items))
        group.items = []
        group.repeated = group.anchor = False
        group.greedy = None

    def close(self) -> Group:
        """End the innermost group at its `)` and append it to the outer sequence."""
        self.alternative()
        group = self.stack.pop()
        node = group.close(choice(group.options))
        self.flags = group.flags
        if isinstance(node, Look):
            self.add_assertion(node)
        else:
            self.add(node)
        self.stack[-1].anchor = not group.quantifiable
        return group

    def finish(self) -> Node:
        """The syntax of the whole pattern."""
        if len(self.stack) > 1:
            self.fail("missing ), unterminated subpattern", self.stack[-1].start)
        self.alternative()
        return choice(self.stack[0].options)

    def is_open(self, number: int) -> bool:
        """Whether a capturing group is still being read."""
        return any(group.number == number for group in self.stack)

    def bounds(self, value: str, position: int) -> int:
        """A bound of a repeat."""
        if len(value) > 10 or int(value) > REPEAT_LIMIT:
            self.fail("the repetition number is too large", position)
        return int(value)

    def apply(self, least: int, most: int | None, greedy: bool, position: int) -> None:
        """Repeat the last atom."""
        group = self.stack[-1]
        body = self._as_node(group.items[-1])
        group.items[-1] = repetition(body, least, most, position)
        group.repeated = True
        group.greedy = (body, least, most) if greedy else None

    @staticmethod
    def _as_node(item: Item) -> Node:
        return sequence([item]) if isinstance(item, str) else item
