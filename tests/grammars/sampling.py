"""Random sentences of a context-free grammar in numbers, by derivation."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from grammars.context_free import ContextFree
from grammars.regular import Rx, is_empty, moves, shortest
from grammars.regular.charset import sample

_ASCII = range(32, 127)


@dataclass
class Sampler:
    """Draws derivations; past `size` terminals it takes the shortest way out.

    Texts of terminals and nothing between them: what an indenter puts in is derived as nothing.
    """

    grammar: ContextFree
    chance: random.Random
    size: int = 40
    _least: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        changed = True
        while changed:
            changed = False
            for rule in self.grammar.rules:
                cost = self._cost(rule.symbols)
                if cost is not None and cost < self._least.get(rule.origin, cost + 1):
                    self._least[rule.origin] = cost
                    changed = True

    def _cost(self, symbols: tuple[int, ...]) -> int | None:
        total = 1
        for symbol in symbols:
            if symbol < 0:
                total += 1 if self._texts(~symbol) or self._inserted(~symbol) else 1_000_000
            elif symbol in self._least:
                total += self._least[symbol]
            else:
                return None
        return total if total < 1_000_000 else None

    def _inserted(self, number: int) -> bool:
        indentation = self.grammar.indentation
        return indentation is not None and number in (indentation.indent, indentation.dedent)

    def _texts(self, number: int) -> list[Rx]:
        terminal = self.grammar.terminals[number]
        if not isinstance(terminal.language, Rx):
            return []
        return [rx for rx in (terminal.language, *(rx for rx, _ in terminal.conditional)) if not is_empty(rx)]

    def sentence(self) -> list[tuple[int, str]]:
        """Terminals with their texts."""
        rules: dict[int, list[tuple[int, ...]]] = {}
        for rule in self.grammar.rules:
            if self._cost(rule.symbols) is not None:
                rules.setdefault(rule.origin, []).append(rule.symbols)
        out: list[tuple[int, str]] = []
        stack = [self.grammar.start]
        while stack:
            symbol = stack.pop()
            if symbol < 0:
                if not self._inserted(~symbol):
                    out.append((~symbol, self.text(~symbol)))
                else:
                    out.append((~symbol, ""))
                continue
            options = rules[symbol]
            if len(out) + len(stack) > self.size:
                least = min(self._cost(one) or 0 for one in options)
                options = [one for one in options if self._cost(one) == least]
            stack.extend(reversed(self.chance.choice(options)))
        return out

    def text(self, number: int) -> str:
        """A text of a terminal, mostly ASCII."""
        rx = self.chance.choice(self._texts(number))
        text = ""
        while True:
            steps = moves(rx)
            if rx.nullable and (not steps or self.chance.random() < 0.35):
                return text
            if len(text) > 24:
                return text + (shortest(rx) or "")
            chars, rx = self.chance.choice(steps)
            codes = [code for low, high in chars.a for code in range(low, min(high, low + 95) + 1) if code in _ASCII]
            text += chr(self.chance.choice(codes)) if codes and self.chance.random() < 0.95 else chr(sample(chars))
