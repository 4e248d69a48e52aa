"""Languages against interegular's automata, where it supports the pattern."""

from __future__ import annotations

import pytest

from grammars.regex import parse
from grammars.regular import Rx, moves

interegular = pytest.importorskip("interegular")

# Without negative lookaheads: interegular's want characters to stand behind them, `re` and we do not.
PATTERNS = [
    "abc", "a|b|ab", "[a-c]+x?", r"\d{2,4}-[A-F]*", "(?:ab|cd)*e", "a{0,3}b{2,}", "[^a-y]z", "(a|b)*abb",
    "(?:0|[1-9][0-9]*)(?:[.][0-9]+)?", "(?=a)[ab]+", "x(?:y|z(?:x|y))*", "(ab?)*(ba?)*", "",
    "a(?=b)b|c", "[ab]*a[ab]{3}", "(?i:ab)[cd]", "(?s:.)a",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_language_is_that_of_interegulars_automaton(pattern: str) -> None:
    try:
        machine = interegular.parse_pattern(pattern).to_fsm()
    except interegular.Unsupported:
        pytest.skip("interegular does not support the pattern")
    # Walk both automata together over one character of every class of interegular's alphabet.
    letters = [char for char in {*"abcdefxyzABCDEF0123456789-.\n", "é"}]
    start = (parse(pattern, "python"), machine.initial)
    seen = {start}
    stack = [start]
    live = {state for state in machine.states if machine.islive(state)}
    while stack:
        rx, state = stack.pop()
        assert rx.nullable == (state in machine.finals)
        for letter in letters:
            key = machine.alphabet[letter]
            following = machine.map.get(state, {}).get(key)
            target = next((t for c, t in moves(rx) if any(lo <= ord(letter) <= hi for lo, hi in c.a)), None)
            if following not in live:
                following = None
            assert (target is None) == (following is None), (pattern, letter)
            if target is not None and following is not None:
                pair: tuple[Rx, int] = (target, following)
                if pair not in seen:
                    seen.add(pair)
                    stack.append(pair)
