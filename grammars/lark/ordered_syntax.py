"""Python regular expressions with the order in which `re` tries them: which alternative first, greedy or lazy.

A language forgets that order; the text that a terminal of Lark takes depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from grammars.errors import UnsupportedFeature
from grammars.regex import syntax
from grammars.regex.python_dialect import PythonReader, width
from grammars.regex.reader import Group, Item
from grammars.regex.syntax import Look, Node
from grammars.regular import Rx, literal
from grammars.regular.rx import CHARS, EPSILON_KIND, LITERAL, NONE_KIND


@dataclass(frozen=True, slots=True)
class Text:
    """Sets of characters, one after the other."""

    sets: tuple[Rx, ...]


@dataclass(frozen=True, slots=True)
class Concatenation:
    """Items one after the other."""

    items: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Options, the preferred one first."""

    options: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A repeat: once more is preferred if it is greedy, going on is if it is lazy."""

    body: Tree
    least: int
    most: int | None
    greedy: bool


Tree: TypeAlias = Text | Concatenation | Alternatives | Loop | Look


@dataclass(frozen=True, slots=True)
class _Both:
    """A piece of an expression: its syntax without order, and its tree."""

    plain: Node
    tree: Tree


class _OrderedReader(PythonReader):
    """The reader of the dialect; pieces that hold a choice or a repeat are kept with their trees."""

    def alternative(self) -> None:
        """End an alternative at a `|`."""
        group = self.stack[-1]
        made = _sequence(group.items)
        group.options.append(cast(Node, made))
        group.items = []
        group.repeated = group.anchor = False
        group.greedy = None

    def close(self) -> Group:
        """End the innermost group at its `)` and append it to the outer sequence."""
        self.alternative()
        group = self.stack.pop()
        whole = _alternatives(group.options)
        node = group.close(whole.plain)
        self.flags = group.flags
        if isinstance(node, Look):
            self.add_assertion(node)
        else:
            self.add(cast(Item, whole))
        return group

    def tree(self) -> Tree:
        """The tree of the whole pattern."""
        self.parse()
        return _alternatives(self.stack[0].options).tree

    def finish(self) -> Node:
        """The syntax of the whole pattern."""
        if len(self.stack) > 1:
            self.fail("missing ), unterminated subpattern", self.stack[-1].start)
        self.alternative()
        return _alternatives(self.stack[0].options).plain

    def apply(self, least: int, most: int | None, greedy: bool, position: int) -> None:
        """Repeat the last atom."""
        group = self.stack[-1]
        body = _both(group.items[-1])
        repeated = syntax.repetition(body.plain, least, most, position)
        group.items[-1] = cast(Item, _Both(repeated, Loop(body.tree, least, most, greedy)))
        group.repeated = True

    def _commit(self, group: Group) -> None:
        self.refuse("an atomic group in a terminal", group.start)

    @staticmethod
    def _as_node(item: Item) -> Node:
        # Asked for by possessive repeats only, which are refused: they see something that is no plain language.
        return cast(Node, item)


def _both(item: Any) -> _Both:
    if isinstance(item, _Both):
        return item
    plain: Node = literal(item) if isinstance(item, str) else item
    return _Both(plain, _tree_of(plain))


def _sequence(items: list[Item]) -> _Both:
    parts = [_both(item) for item in items]
    if len(parts) == 1:
        return parts[0]
    return _Both(syntax.sequence(part.plain for part in parts), Concatenation(tuple(part.tree for part in parts)))


def _alternatives(options: list[Any]) -> _Both:
    parts: list[_Both] = options
    if len(parts) == 1:
        return parts[0]
    return _Both(syntax.choice([part.plain for part in parts]), Alternatives(tuple(part.tree for part in parts)))


def _tree_of(node: Node) -> Tree:
    """The tree of an atom: a character set, a text, an anchor or a word boundary."""
    if isinstance(node, Look):
        return node
    if isinstance(node, syntax.Sequence):
        return Concatenation(tuple(map(_tree_of, node.items)))
    if isinstance(node, syntax.Choice):
        return Alternatives(tuple(map(_tree_of, node.options)))
    if isinstance(node, Rx):
        if node.kind in (CHARS, NONE_KIND):
            return Text((node,))
        if node.kind == EPSILON_KIND:
            return Text(())
        if node.kind == LITERAL:
            return Text(tuple(literal(char) for char in node.a))
    raise UnsupportedFeature("a possessive repeat in a terminal")


def ordered(pattern: str, flags: int = 0) -> Tree:
    """What `re` tries, in its order.

    Raises:
        RegexError: if `re` would not compile it.
        UnsupportedFeature: for back-references and conditionals; for atomic groups and possessive repeats; for
            assertions that look at what stands before the match.
    """
    tree = _OrderedReader(pattern, flags).tree()
    _look_within(tree, 0, pattern)
    return tree


def _look_within(tree: Tree, before: int, pattern: str) -> int:
    """Refuse lookbehinds that reach further back than the match surely does; its least length after the tree."""
    if isinstance(tree, Text):
        return before + len(tree.sets)
    if isinstance(tree, Concatenation):
        for item in tree.items:
            before = _look_within(item, before, pattern)
        return before
    if isinstance(tree, Alternatives):
        return min(_look_within(option, before, pattern) for option in tree.options)
    if isinstance(tree, Loop):
        after = _look_within(tree.body, before, pattern)
        return before + tree.least * (after - before)
    if tree.ahead:
        # The body is read on its own, so its lookbehinds must not reach out of it.
        _look_behind(tree.body, 0, pattern)
    elif (width(tree.body)[1] or 0) > before:
        raise _refusal(tree, pattern)
    return before


def _look_behind(node: Node, before: int, pattern: str) -> int:
    """The same for what stands in a lookahead."""
    if isinstance(node, Rx):
        return before + node.low
    if isinstance(node, syntax.Sequence):
        for item in node.items:
            before = _look_behind(item, before, pattern)
        return before
    if isinstance(node, syntax.Choice):
        return min(_look_behind(option, before, pattern) for option in node.options)
    if isinstance(node, syntax.Repeat):
        after = _look_behind(node.body, before, pattern)
        return before + node.least * (after - before)
    if node.ahead:
        _look_behind(node.body, before, pattern)
    elif (width(node.body)[1] or 0) > before:
        raise _refusal(node, pattern)
    return before


def _refusal(look: Look, pattern: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"{pattern!r} looks at the text before the terminal, or out of a lookahead to its left (lookbehind, word "
        "boundary or anchor)",
        position=look.position,
    )
