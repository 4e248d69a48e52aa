"""What a terminal of Lark takes from a text, as regular languages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from grammars.errors import LimitExceeded, UnsupportedFeature
from grammars.lark.endings import ending_in, ends_later
from grammars.lark.preferred_match import Program, Threads, follows_the_text, program, start
from grammars.regex import parse
from grammars.regular import ALL, NONE, Rx, intersect, is_empty, is_equal
from grammars.regular.unfold import unfold

STATE_LIMIT = 5_000
"""States of one terminal whose lookaheads have to be told apart."""

CONDITION_LIMIT = 64
"""Different conditions on the rest of the text that one terminal makes."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The texts that a terminal takes.

    Attributes:
        always: texts that are taken whatever follows.
        where: pairs (texts, rests): texts that are taken where the rest of the whole text is in `rests`.
    """

    always: Rx
    where: tuple[tuple[Rx, Rx], ...] = ()


@lru_cache(maxsize=1024)
def taken(pattern: str) -> Taken:
    """The texts that `re.match` takes whole: of any text it takes the longest prefix among them.

    Args:
        pattern: a regular expression of `re`, its flags inside.

    Raises:
        RegexError: `re` would not compile it.
        UnsupportedFeature: it is not regular, looks at what stands before it, or has atomic groups.
        LimitExceeded: it is too large.
    """
    if follows_the_text(pattern):
        return Taken(parse(pattern))
    made = program(pattern)
    if made.conditional:
        by_rest: dict[Rx, list[Threads]] = {}
        for state in _states(made):
            by_rest.setdefault(state.accept, []).append(state)
        if by_rest.keys() - {NONE, ALL}:
            return _by_rest(made, by_rest)
    return Taken(_plain(pattern, unfold(start(made))))


@lru_cache(maxsize=1024)
def ends_anywhere(pattern: str) -> Taken:
    """The texts with which Lark's `dynamic_complete` lexer lets a terminal end; each counts for itself.

    That lexer takes what `re` takes, and then what `re` takes of every shorter text before that end.

    Raises:
        UnsupportedFeature: as `taken`; and where the expression wants some text to follow while a longer match might
            do without: whether the shorter one counts is then no matter of what follows alone.
    """
    found = taken(pattern)
    if not found.where:
        return found
    by_rest: dict[Rx, list[Threads]] = {}
    for state in _states(program(pattern)):
        by_rest.setdefault(_rests_anywhere(pattern, state), []).append(state)
    return _by_rest(program(pattern), by_rest)


def _plain(pattern: str, language: Rx) -> Rx:
    """The same language as an expression, if it is the expression's own: then its states are fewer and shared."""
    expression = parse(pattern)
    try:
        return expression if is_equal(expression, language) else language
    except LimitExceeded:
        return language


def _states(made: Program) -> list[Threads]:
    first = start(made)
    seen = {first: None}
    stack = [first]
    while stack:
        for _, state in stack.pop().steps():
            if state not in seen:
                seen[state] = None
                stack.append(state)
        if len(seen) > STATE_LIMIT:
            raise LimitExceeded(f"the lookaheads of {made.pattern!r} need more than {STATE_LIMIT} states")
    return list(seen)


def _by_rest(made: Program, by_rest: dict[Rx, list[Threads]]) -> Taken:
    rests = sorted(by_rest.keys() - {NONE, ALL}, key=lambda rest: (rest.order, rest.serial))
    if len(rests) > CONDITION_LIMIT:
        raise LimitExceeded(f"{made.pattern!r} makes more than {CONDITION_LIMIT} conditions on the text behind it")
    return Taken(ending_in(made, by_rest.get(ALL, ())), tuple((ending_in(made, by_rest[rest]), rest) for rest in rests))


def _rests_anywhere(pattern: str, state: Threads) -> Rx:
    if state.accept is NONE:
        return NONE
    if state.accept.nullable:
        rest = ends_later(state, state.accept)
        return ALL if is_equal(rest, ALL) else rest
    if not is_empty(intersect(state.accept, ends_later(state))):
        raise UnsupportedFeature(
            f"{pattern!r} has a lookahead that wants text to follow, and a longer match may do without it; "
            "lexer='contextual' can take that"
        )
    return state.accept
