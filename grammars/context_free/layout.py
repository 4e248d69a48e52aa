"""Indentation as part of a language: what Lark's `Indenter` puts between lexer and parser.

A line break outside parentheses is followed by as many inserted terminals as the indentation of the next line asks for:
one that opens a block, or one for each block that is closed.  The columns of the open blocks are known to every state of
the parser's automaton, so they may not differ where a rule has been read: each rule opens and closes in pairs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from grammars.context_free.grammar import ContextFree, Indentation
from grammars.errors import UnsupportedFeature

MOST_COLUMNS = 400
"""Blocks that are indented further are not offered."""


class Block(NamedTuple):
    """An open block: its column, and the terminals that may come after it as a set (`lr.Mask`)."""

    column: int
    after: int


class Layout(NamedTuple):
    """What a state of the parser knows of the lines above.

    Attributes:
        blocks: the open blocks, from the outermost.
        depth: how many parentheses are open.
    """

    blocks: tuple[Block, ...] = ()
    depth: int = 0

    @property
    def column(self) -> int:
        """The column of the innermost block."""
        return self.blocks[-1].column if self.blocks else 0

    def after(self, terminal: int, indentation: Indentation, block: Block) -> Layout:
        """The layout after a terminal; `block` is the one that an indent opens."""
        if terminal == indentation.indent:
            return self._replace(blocks=(*self.blocks, block))
        if terminal == indentation.dedent:
            return self._replace(blocks=self.blocks[:-1])
        if terminal in indentation.open_parens:
            return self._replace(depth=self.depth + 1)
        if terminal in indentation.close_parens:
            return self._replace(depth=self.depth - 1)
        return self


class Columns(NamedTuple):
    """Where the next line may begin.

    Attributes:
        allowed: columns of blocks that are open.
        deeper: whether a new block may be opened, further in than all of them.
        current: the column of the innermost block.
    """

    allowed: frozenset[int]
    deeper: bool
    current: int

    def admits(self, column: int) -> bool:
        """Whether the next line may begin at `column`."""
        return column in self.allowed or (self.deeper and self.current < column <= MOST_COLUMNS)

    def counted(self, column: int) -> int:
        """`column`, or one that stands for all that are too far in."""
        return min(column, MOST_COLUMNS + 1 if self.deeper else max(self.allowed, default=0) + 1)


def columns(layout: Layout, viable: int, indentation: Indentation, end: int) -> Columns:
    """Where the line after a break may begin.

    Args:
        viable: the terminals that may come after the break.
        end: the bit of the end of the text.
    """
    dedent = 1 << indentation.dedent
    inserted = dedent | 1 << indentation.indent
    allowed = set()
    open_blocks = len(layout.blocks)
    mask = viable
    while True:
        column = layout.blocks[open_blocks - 1].column if open_blocks else 0
        if mask & ~(inserted | end) or may_end(layout, open_blocks, mask, dedent, end):
            allowed.add(column)
        if not open_blocks or not mask & dedent:
            break
        open_blocks -= 1
        mask = layout.blocks[open_blocks].after
    return Columns(frozenset(allowed), bool(viable >> indentation.indent & 1), layout.column)


def may_end(layout: Layout, open_blocks: int, mask: int, dedent: int, end: int) -> bool:
    """Whether the text may end where that many blocks are open and the terminals in `mask` may come."""
    while open_blocks:
        if not mask & dedent:
            return False
        open_blocks -= 1
        mask = layout.blocks[open_blocks].after
    return bool(mask & end)


def check_pairs(grammar: ContextFree) -> None:
    """Refuse grammars in which a rule opens what another closes.

    Raises:
        UnsupportedFeature: names the rule.
    """
    indentation = grammar.indentation
    assert indentation is not None
    for rule in grammar.rules:
        symbols = [~symbol for symbol in rule.symbols if symbol < 0]
        pairs: tuple[tuple[Collection[int], Collection[int], str], ...] = (
            ((indentation.indent,), (indentation.dedent,), "indentation"),
            (indentation.open_parens, indentation.close_parens, "parentheses"),
        )
        for opening, closing, what in pairs:
            if not _is_paired(symbols, opening, closing):
                where = f" (line {rule.line})" if rule.line is not None else ""
                raise UnsupportedFeature(
                    f"the rule {grammar.nonterminals[rule.origin]}{where} opens and closes {what} unevenly; with an "
                    "indenter each rule has to close what it opens"
                )


def _is_paired(symbols: Sequence[int], opening: Collection[int], closing: Collection[int]) -> bool:
    open_ = 0
    for symbol in symbols:
        open_ += symbol in opening
        open_ -= symbol in closing
        if open_ < 0:
            return False
    return open_ == 0
