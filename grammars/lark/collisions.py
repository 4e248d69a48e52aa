"""Terminals that match the same text where either may come: the contextual lexer takes one of them every time."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import combinations
from typing import Any

import interegular
from lark.lexer import TerminalDef

from grammars.context_free import Terminal
from grammars.lark.warned import CollisionWarning
from grammars.regular import NONE, Rx, moves
from grammars.regular.charset import join_all, meet

MOST_NAMED = 8
"""Collisions that are named for one grammar."""

SECONDS = 0.5
"""How long collisions are looked for."""


def warn_of_collisions(
    terminals: Sequence[TerminalDef], made: Sequence[Terminal], order: dict[str, int], tried: Iterable[Set[str]]
) -> None:
    """Name pairs of regular expressions of one priority that some state of the parser accepts both, with a text.

    Args:
        terminals: as Lark has them.
        made: the same in numbers.
        order: the order in which they are tried.
        tried: the names that are tried in each state of the parser.
    """
    until = time.monotonic() + SECONDS
    named = 0
    expressions = {one.name: one for one in terminals if one.pattern.type == "re"}
    begins = {one.name: _begins(numbers) for one, numbers in zip(terminals, made, strict=False)}
    machines: dict[str, Any] = {}
    for left, right in _side_by_side(tried, set(expressions)):
        if time.monotonic() > until or named == MOST_NAMED:
            return
        if expressions[left].priority != expressions[right].priority or meet(begins[left], begins[right]) is NONE:
            continue
        example = _common(*(_machine(machines, name, expressions[name].pattern.to_regexp()) for name in (left, right)))
        if example is not None:
            named += 1
            first = left if order[left] < order[right] else right
            warnings.warn(
                f"the terminals {expressions[left].user_repr()} and {expressions[right].user_repr()} both match "
                f"{example!r}; {expressions[first].user_repr()} is taken (give one of them a priority)",
                CollisionWarning,
                stacklevel=4,
            )


def _begins(terminal: Terminal) -> Rx:
    """The characters that its texts begin with."""
    assert isinstance(terminal.language, Rx)
    languages = [terminal.language, *(texts for texts, _ in terminal.conditional)]
    return join_all([chars for one in languages for chars, _ in moves(one)])


def _side_by_side(tried: Iterable[Set[str]], names: set[str]) -> Iterator[tuple[str, str]]:
    seen: set[tuple[str, str]] = set()
    for one in tried:
        for pair in combinations(sorted(one & names), 2):
            if pair not in seen:
                seen.add(pair)
                yield pair


def _machine(machines: dict[str, Any], name: str, pattern: str) -> Any:
    if name not in machines:
        try:
            machines[name] = interegular.parse_pattern(pattern).to_fsm()
        except Exception:  # interegular knows only a part of `re`, and says so in many ways
            machines[name] = None
    return machines[name]


def _common(left: Any, right: Any) -> str | None:
    """A shortest text of both, if interegular knows both."""
    if left is None or right is None:
        return None
    both = left & right
    if both.empty():
        return None
    symbols = next(both.strings(max_iterations=1_000), None)
    if symbols is None:
        return None
    return "".join(str(symbol) if isinstance(symbol, str) else "?" for symbol in symbols)
