"""The state before a document of a JSON Schema."""

from __future__ import annotations

from constrained.automata.machine import Machine
from constrained.automata.style import Style
from constrained.automata.values import value_start
from grammars import JsonSchema
from grammars.json_schema import check_root, root_value
from grammars.regex import parse
from grammars.regular import EPSILON, Rx, chars, concat, literal, repeat, union

_SPACE, _TAB, _LINE = literal(" "), literal("\t"), literal("\n")
GAPS: dict[str, Rx] = {
    "compact": EPSILON,
    "any": repeat(chars([(9, 10), (13, 13), (32, 32)]), 0, None),
    "bounded": union(EPSILON, _SPACE, concat(_LINE, union(repeat(_SPACE, 0, 24), repeat(_TAB, 0, 8)))),
}
"""Whitespace between JSON tokens.  Bounded: nothing, one space, or a line break with an indentation."""


def schema_start(machine: Machine, grammar: JsonSchema) -> int:
    """The state before the first byte; the frame is left where the document ends.

    Raises:
        GrammarError: the schema is malformed at its root, or has no instance.
    """
    root = root_value(grammar)
    check_root(root)
    gap = GAPS.get(grammar.whitespace)
    if gap is None:
        gap = parse(grammar.whitespace, dialect="ecma", mode="fullmatch")
    style = Style(gap, grammar.property_order == "any", grammar.escapes == "canonical")
    start = value_start(machine, machine.kept(style, lambda: style), (root,))
    machine.expand(start)  # so that a malformed root is refused now
    return start
