"""Terminals that match the same text where either may come: the contextual lexer takes one of them every time."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import interegular
import lark

from grammars.lark.contextual import lexer_of

MOST_NAMED = 8
"""Collisions that are named for one grammar."""

SECONDS = 0.5
"""How long collisions are looked for."""


class CollisionWarning(UserWarning):
    """Two terminals of one priority match a text in common; which of them is taken is a matter of Lark's order."""


def warn_of_collisions(made: lark.Lark) -> None:
    """Name pairs of regular expressions of one priority that some state of the parser accepts both, with a text."""
    until = time.monotonic() + SECONDS
    named = 0
    expressions = {one.name: one for one in made.terminals if one.pattern.type == "re"}
    machines: dict[str, Any] = {}
    for left, right in _side_by_side(made, set(expressions)):
        if time.monotonic() > until or named == MOST_NAMED:
            return
        if expressions[left].priority != expressions[right].priority:
            continue
        example = _common(*(_machine(machines, name, expressions[name].pattern.to_regexp()) for name in (left, right)))
        if example is not None:
            named += 1
            warnings.warn(
                f"the terminals {expressions[left].user_repr()} and {expressions[right].user_repr()} both match "
                f"{example!r}; {_first(made, left, right)} is taken (give one of them a priority)",
                CollisionWarning,
                stacklevel=4,
            )


def _side_by_side(made: lark.Lark, names: set[str]) -> Iterator[tuple[str, str]]:
    lexer = lexer_of(made)
    assert lexer is not None
    seen: set[tuple[str, str]] = set()
    for one in {id(one): one for one in lexer.lexers.values()}.values():
        accepted = sorted({terminal.name for terminal in one.terminals} & names)  # type: ignore[attr-defined]
        for pair in combinations(accepted, 2):
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


def _first(made: lark.Lark, left: str, right: str) -> str:
    lexer = lexer_of(made)
    assert lexer is not None
    for one in lexer.root_lexer.terminals:  # type: ignore[attr-defined]
        if one.name in (left, right):
            return str(one.user_repr())
    return left
