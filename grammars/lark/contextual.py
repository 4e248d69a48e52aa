"""What Lark's contextual lexer and LALR(1) parser need, in numbers."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lark.lexer import TerminalDef

from grammars.context_free import END_MARK, LalrTable
from grammars.lark.lalr import Table


def order_of_trial(terminals: Sequence[TerminalDef]) -> dict[str, int]:
    """The place of each terminal in the order in which the contextual lexer tries them."""
    ordered = sorted(
        terminals, key=lambda one: (-one.priority, -one.pattern.max_width, -len(one.pattern.value), one.name)
    )
    return {one.name: place for place, one in enumerate(ordered)}


def lalr_table(table: Table, with_text: Collection[int], always: Collection[int]) -> LalrTable:
    """The table with what the lexer tries in each state.

    Args:
        table: the parse table.
        with_text: terminals that are not only declared.
        always: terminals that are tried in every state: ignored ones, and line breaks of an indenter.
    """
    accepts: dict[frozenset[int], frozenset[int]] = {}
    tried = []
    for actions in table.actions:
        accepted = frozenset(actions)
        if accepted not in accepts:
            accepts[accepted] = (accepted - {END_MARK} | frozenset(always)) & frozenset(with_text)
        tried.append(accepts[accepted])
    return LalrTable(0, table.end, tuple(table.actions), tuple(table.gotos), tuple(tried))
