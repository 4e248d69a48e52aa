"""What may come behind a terminal: compared with the sentences of small grammars."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grammars.context_free.followers import followers
from grammars.context_free.grammar import Rule
from grammars.context_free.lr import first_terminals

_TERMINALS = 3
_symbols = st.one_of(st.integers(0, 2), st.integers(~2, -1))
_rules = st.lists(
    st.builds(lambda origin, symbols: Rule(origin, tuple(symbols)), st.integers(0, 2), st.lists(_symbols, max_size=3)),
    min_size=1,
    max_size=6,
)


def _useful(rules: list[Rule]) -> list[Rule]:
    """The rules that take part in sentences of nonterminal 0."""
    finite: set[int] = set()
    for _ in range(3):
        finite |= {one.origin for one in rules if all(symbol < 0 or symbol in finite for symbol in one.symbols)}
    kept = [one for one in rules if all(symbol < 0 or symbol in finite for symbol in one.symbols)]
    reached = {0}
    for _ in range(3):
        reached |= {symbol for one in kept if one.origin in reached for symbol in one.symbols if symbol >= 0}
    return [one for one in kept if one.origin in reached]


def _neighbours(rules: list[Rule]) -> list[int]:
    """The same by closure over pairs of symbols that stand side by side in some sentential form."""
    nullable: set[int] = set()
    for _ in range(3):
        nullable |= {one.origin for one in rules if all(symbol in nullable for symbol in one.symbols)}

    def pairs(symbols: tuple[int, ...]) -> set[tuple[int, int]]:
        return {
            (symbols[left], symbols[right])
            for left in range(len(symbols))
            for right in range(left + 1, len(symbols))
            if all(symbol in nullable for symbol in symbols[left + 1 : right])
        }

    found = set().union(*(pairs(one.symbols) for one in rules))
    while True:
        more = set(found)
        for left, right in found:
            for one in rules:
                if one.origin == left:
                    more |= {(symbol, right) for symbol, last in pairs((*one.symbols, 9)) if last == 9}
                if one.origin == right:
                    more |= {(left, symbol) for first, symbol in pairs((9, *one.symbols)) if first == 9}
        if more == found:
            break
        found = more
    masks = [0] * _TERMINALS
    for left, right in found:
        if left < 0 and right < 0:
            masks[~left] |= 1 << ~right
    return masks


@given(_rules)
def test_followers_are_the_neighbours_in_sentential_forms(rules: list[Rule]) -> None:
    useful = _useful(rules)
    assert list(followers(useful, first_terminals(useful), _TERMINALS)) == _neighbours(useful)


def test_what_follows_a_terminal_without_text_follows_what_stands_before_it() -> None:
    # 0: line, 1: indent, 2: dedent, 3: word; block: line indent word dedent word
    rules = [Rule(0, (~0, ~1, ~3, ~2, ~3))]
    behind = followers(rules, first_terminals(rules), 4, (1, 2))
    assert behind[0] >> 3 & 1
    assert behind[3] >> 3 & 1
