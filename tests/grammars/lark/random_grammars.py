"""Random Lark grammars over a, b and spaces, with terminals that overlap in every way that `re` knows."""

from __future__ import annotations

import itertools
import random

TEXTS = ["".join(word) for length in range(6) for word in itertools.product("ab ", repeat=length)]
EXPRESSIONS = [
    '"a"', '"b"', '"ab"', '"aab"', '"A"i', "/a+/", "/[ab]/", "/a|ab/", "/b+?/", "/a*b/", "/(ab)+/", "/a(?!b)/",
    "/[ab]+(?! )/", "/ab??/", "/b\\b/", "/a(?=b| )/", "/ +/", "/ a/", "/a+$/", "/(?<!a)b|ab/", "/[ab]{2,3}?/",
]  # fmt: skip


def _expression(chance: random.Random, depth: int) -> str:
    roll = chance.random()
    if depth == 0 or roll < 0.25:
        return chance.choice(["A", "B", "C", "x", "start", "x", '"a"', '"b"', "/a+b?/"])
    inner = _expression(chance, depth - 1)
    if roll < 0.5:
        return f"{inner} {_expression(chance, depth - 1)}"
    if roll < 0.7:
        return f"({inner} | {_expression(chance, depth - 1)})"
    if roll < 0.75:
        return f"[{inner}]"
    return f"({inner}){chance.choice(['*', '+', '?', '~2', '~0..2'])}"


def random_grammar(seed: int) -> str:
    """A grammar whose start is `start`; Lark may refuse it."""
    chance = random.Random(seed)
    lines = [
        f"start: {_expression(chance, 2)} | A",
        f"x: {_expression(chance, 2)}",
        f"A: {chance.choice(EXPRESSIONS)}",
        f"B{chance.choice(['', '.2', '.-1'])}: {chance.choice(EXPRESSIONS)}",
        f"C: {chance.choice(EXPRESSIONS)}",
    ]
    if chance.random() < 0.6:
        lines.append("%ignore " + chance.choice(['" "', "/ +/", "/ +?/", "C", "/ b?/", "/ (?!b)/"]))
    return "\n".join(lines)
