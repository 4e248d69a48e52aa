"""Rules with choices, groups and repeats to productions."""

from __future__ import annotations

from collections.abc import Mapping

from grammars.context_free import ContextFree, Embedded, Rule, Terminal
from grammars.ebnf.expressions import (
    Alternatives,
    Concatenation,
    Definition,
    Expression,
    Foreign,
    Reference,
    Repeat,
    Text,
)
from grammars.ebnf.folding import fold
from grammars.regular import EPSILON, NONE, Rx, difference
from grammars.regular.build import without_empty
from grammars.regular.rx import render
from grammars.values import SpecialToken


def flatten(rules: Mapping[str, Definition], start: str) -> ContextFree:
    """The grammar in numbers; every name that an expression refers to has a rule.

    Repeats with bounds take a number of productions that grows with the logarithm of the bounds.
    """
    return _Flattener(fold(rules)).grammar(start)


class _Flattener:
    def __init__(self, rules: Mapping[str, Definition]) -> None:
        self.rules = rules
        self.nonterminals: list[str] = []
        self.numbers: dict[object, int] = {}
        self.terminals: dict[Rx | Foreign, int] = {}
        self.productions: dict[tuple[int, tuple[int, ...]], Rule] = {}
        self.waiting: list[str] = []
        self.line: int | None = None

    def grammar(self, start: str) -> ContextFree:
        first = self._named(start)
        while self.waiting:
            name = self.waiting.pop()
            self.line = self.rules[name].line
            self._define(self.numbers[name], self.rules[name].expression)
        return ContextFree(
            tuple(self.nonterminals),
            tuple(_terminal(one) for one in self.terminals),
            tuple(self.productions.values()),
            first,
        )

    def _new(self, key: object, name: str) -> int:
        number = self.numbers[key] = len(self.nonterminals)
        self.nonterminals.append(name)
        return number

    def _named(self, name: str) -> int:
        if name not in self.numbers:
            self._new(name, name)
            self.waiting.append(name)
        return self.numbers[name]

    def _produce(self, origin: int, *symbols: int) -> None:
        self.productions.setdefault((origin, symbols), Rule(origin, symbols, self.line))

    def _define(self, origin: int, expression: Expression) -> None:
        for option in expression.options if isinstance(expression, Alternatives) else (expression,):
            if isinstance(option, Text):
                self._define_text(origin, option.language)
            else:
                items = option.items if isinstance(option, Concatenation) else (option,)
                self._produce(origin, *(self._symbol(item) for item in items))

    def _define_text(self, origin: int, language: Rx) -> None:
        if language.nullable:
            self._produce(origin)
        words = _words(language)
        if words is not NONE:
            self._produce(origin, self._terminal(words))

    def _terminal(self, key: Rx | Foreign) -> int:
        return ~self.terminals.setdefault(key, len(self.terminals))

    def _symbol(self, expression: Expression) -> int:
        if isinstance(expression, Reference):
            return self._named(expression.name)
        if isinstance(expression, Foreign):
            return self._terminal(expression)
        if isinstance(expression, Text) and not expression.language.nullable:
            return self._terminal(expression.language)
        found = self.numbers.get(expression)
        if found is not None:
            return found
        number = self._new(expression, f"group {len(self.nonterminals)}")
        if isinstance(expression, Repeat):
            self._repeat(number, expression)
        else:
            self._define(number, expression)
        return number

    def _repeat(self, origin: int, expression: Repeat) -> None:
        body, least, most = expression.body, expression.least, expression.most
        if most is None:
            if least > 1:
                self._produce(origin, self._times(body, least - 1), self._symbol(Repeat(body, 1, None)))
                return
            one = self._symbol(body)
            self._produce(origin, *((one,) if least else ()))
            self._produce(origin, origin, one)
        elif least == 0:
            self._at_most(origin, body, most)
        elif most == least:
            self._produce(origin, self._times(body, least))
        else:
            self._produce(origin, self._times(body, least), self._symbol(Repeat(body, 0, most - least)))

    def _times(self, body: Expression, count: int) -> int:
        """The body so often: halves, so that each count is made once."""
        if count == 1:
            return self._symbol(body)
        key = (body, count)
        if key not in self.numbers:
            number = self._new(key, f"group {len(self.nonterminals)}")
            self._produce(number, self._times(body, count // 2), self._times(body, count - count // 2))
        return self.numbers[key]

    def _at_most(self, origin: int, body: Expression, most: int) -> None:
        """Fewer than a power of two, or that power and what is left: one way for each count."""
        if most == 0:
            self._produce(origin)
            return
        power = 1 << (most.bit_length() - 1)
        self._produce(origin, *((self._symbol(Repeat(body, 0, power - 1)),) if power > 1 else ()))
        rest = (self._symbol(Repeat(body, 0, most - power)),) if most > power else ()
        self._produce(origin, self._times(body, power), *rest)


def _words(language: Rx) -> Rx:
    """The language without the empty text."""
    if not language.nullable:
        return language
    if language is EPSILON:
        return NONE
    shorter = without_empty(language)
    return difference(language, EPSILON) if shorter.nullable else shorter


def _terminal(key: Rx | Foreign) -> Terminal:
    if isinstance(key, Rx):
        shown = render(key)
        return Terminal(shown, key, pattern=shown)
    if isinstance(key.value, SpecialToken):
        return Terminal(key.written, key.value)
    return Terminal(key.written, Embedded(key.value))
