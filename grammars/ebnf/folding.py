"""Regular parts of a grammar become one expression each: rules that do not recur, and rules that recur at one end only."""

from __future__ import annotations

from collections.abc import Mapping

from grammars.ebnf.expressions import (
    Alternatives,
    Concatenation,
    Definition,
    Expression,
    Reference,
    Repeat,
    Text,
    parts,
)
from grammars.regular import EPSILON, NONE, Rx, concat, repeat, union

SIZE_LIMIT = 20_000
"""Characters and sets of one folded expression; what is larger stays a rule."""


def fold(rules: Mapping[str, Definition]) -> dict[str, Definition]:
    """The same rules, with a `Text` for every regular part of an expression that is not too large."""
    return _Folder(rules).folded()


class _Folder:
    def __init__(self, rules: Mapping[str, Definition]) -> None:
        self.rules = rules
        self.done: dict[str, Expression] = {}
        self.sizes: dict[str, int] = {}

    def folded(self) -> dict[str, Definition]:
        for component in _components(self.rules):
            for name in component:
                expression = self._fold(self.rules[name].expression)
                if len(component) == 1 and not isinstance(expression, Text):
                    expression = _without_recursion(name, expression)
                self.done[name] = expression
                self.sizes[name] = self._size(self.rules[name].expression, name)
        return {name: Definition(self.done[name], one.line) for name, one in self.rules.items()}

    def _size(self, expression: Expression, within: str) -> int:
        if isinstance(expression, Text):
            return max(expression.language.low, 1)
        if isinstance(expression, Reference):
            return 1 if expression.name == within else self.sizes.get(expression.name, SIZE_LIMIT)
        return 1 + sum(self._size(part, within) for part in parts(expression))

    def _fold(self, expression: Expression) -> Expression:
        if isinstance(expression, Reference):
            found = self.done.get(expression.name)
            small = self.sizes.get(expression.name, SIZE_LIMIT) < SIZE_LIMIT
            return found if isinstance(found, Text) and small else expression
        if isinstance(expression, Repeat):
            body = self._fold(expression.body)
            if isinstance(body, Text):
                return Text(repeat(body.language, expression.least, expression.most))
            return Repeat(body, expression.least, expression.most)
        if isinstance(expression, Concatenation):
            return _concatenation([self._fold(item) for item in expression.items])
        if isinstance(expression, Alternatives):
            return _alternatives([self._fold(option) for option in expression.options])
        return expression


def _concatenation(items: list[Expression]) -> Expression:
    merged: list[Expression] = []
    for item in items:
        last = merged[-1] if merged else None
        if isinstance(item, Text) and isinstance(last, Text):
            merged[-1] = Text(concat(last.language, item.language))
        elif isinstance(item, Concatenation):
            joined = _concatenation([*merged, *item.items])
            merged = list(joined.items) if isinstance(joined, Concatenation) else [joined]
        elif not (isinstance(item, Text) and item.language is EPSILON):
            merged.append(item)
    if not merged:
        return Text(EPSILON)
    return merged[0] if len(merged) == 1 else Concatenation(tuple(merged))


def _alternatives(options: list[Expression]) -> Expression:
    texts = [option.language for option in options if isinstance(option, Text)]
    others: list[Expression] = [option for option in options if not isinstance(option, Text)]
    if texts:
        others.append(Text(union(*texts)))
    return others[0] if len(others) == 1 else Alternatives(tuple(dict.fromkeys(others)))


def _without_recursion(name: str, expression: Expression) -> Expression:
    """X = A X | B is A* B and X = X A | B is B A* (Arden 1961), where A and B are regular."""
    me = Reference(name)
    turns: list[Rx] = []
    ends: list[Rx] = []
    sides: set[bool] = set()
    for option in expression.options if isinstance(expression, Alternatives) else (expression,):
        if isinstance(option, Text):
            ends.append(option.language)
        elif option != me:
            items = option.items if isinstance(option, Concatenation) else ()
            if len(items) != 2 or me not in items:
                return expression
            at_end = items[1] == me
            other = items[0] if at_end else items[1]
            if not isinstance(other, Text):
                return expression
            turns.append(other.language)
            sides.add(at_end)
    if len(sides) > 1:
        return expression
    loop = repeat(union(*turns), 0, None) if turns else EPSILON
    last = union(*ends) if ends else NONE
    return Text(concat(loop, last) if True in sides else concat(last, loop))


def _components(rules: Mapping[str, Definition]) -> list[list[str]]:
    """The strongly connected components of the rules, those that others use first (Tarjan 1972)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[list[str]] = []
    for root in rules:
        if root in order:
            continue
        work = [(root, iter(_used(rules[root].expression, rules)))]
        order[root] = lowest[root] = len(order)
        stack.append(root)
        on_stack.add(root)
        while work:
            name, uses = work[-1]
            for other in uses:
                if other not in order:
                    order[other] = lowest[other] = len(order)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(_used(rules[other].expression, rules))))
                    break
                if other in on_stack:
                    lowest[name] = min(lowest[name], order[other])
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    lowest[above] = min(lowest[above], lowest[name])
                if lowest[name] == order[name]:
                    at = stack.index(name)
                    found.append(stack[at:])
                    on_stack.difference_update(stack[at:])
                    del stack[at:]
    return found


def _used(expression: Expression, rules: Mapping[str, Definition]) -> list[str]:
    names: dict[str, None] = {}
    stack = [expression]
    while stack:
        one = stack.pop()
        if isinstance(one, Reference):
            if one.name in rules:
                names[one.name] = None
        else:
            stack.extend(parts(one))
    return list(names)
