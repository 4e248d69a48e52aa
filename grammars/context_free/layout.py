"""Indentation as part of a language: what Lark's `Indenter` puts between lexer and parser.

A line break outside parentheses is followed by as many inserted terminals as the indentation of the next line asks for:
one that opens a block, or one for each block that is closed.  The state in which a block has just been opened knows the
columns of all open blocks, so they are found on the stack.  This takes that each rule closes what it opens.
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


Blocks = tuple[Block, ...]
"""The open blocks, from the outermost."""


def column_of(blocks: Blocks) -> int:
    """The column of the innermost block."""
    return blocks[-1].column if blocks else 0


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


def columns(blocks: Blocks, viable: int, indentation: Indentation, end: int) -> Columns:
    """Where the line after a break may begin.

    Args:
        blocks: the open blocks.
        viable: the terminals that may come after the break.
        end: the bit of the end of the text.
    """
    dedent = 1 << indentation.dedent
    inserted = dedent | 1 << indentation.indent
    allowed = set()
    mask, left = viable, blocks
    while True:
        if mask & ~(inserted | end) or _may_end(left, mask, dedent, end):
            allowed.add(column_of(left))
        if not left or not mask & dedent:
            break
        mask, left = left[-1].after, left[:-1]
    return Columns(frozenset(allowed), bool(viable >> indentation.indent & 1), column_of(blocks))


def _may_end(blocks: Blocks, mask: int, dedent: int, end: int) -> bool:
    """Whether the text may end where these blocks are open and the terminals in `mask` may come."""
    for block in reversed(blocks):
        if not mask & dedent:
            return False
        mask = block.after
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
