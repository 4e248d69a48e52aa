"""What a terminal of Lark takes from a text, as regular languages."""

from __future__ import annotations

from dataclasses import dataclass

from grammars.errors import LimitExceeded
from grammars.lark.endings import ends_after, ends_later
from grammars.lark.preferred_match import Program, Threads, follows_the_text, program, start
from grammars.lark.tables import written_out
from grammars.memory import remembered
from grammars.regex import parse
from grammars.regular import ALL, NONE, Rx, difference, is_equal, union
from grammars.regular.unfold import unfold

STATE_LIMIT = 5_000
"""States of one terminal whose lookaheads have to be told apart."""

CONDITION_LIMIT = 64
"""Different conditions on the rest of the text that one terminal makes."""


FEW_CONDITIONS = 8
"""Up to here conditions stay as the expression has them."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The texts that a terminal takes.

    Attributes:
        always: texts that are taken whatever follows.
        where: pairs (texts, rests): texts that are taken where the rest of the whole text is in `rests`.
    """

    always: Rx
    where: tuple[tuple[Rx, Rx], ...] = ()


@remembered(1024)
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
        if len(by_rest) > FEW_CONDITIONS:
            # Said of the one text that is taken, the conditions are often the same for all.
            by_rest = _exactly(by_rest)
        if by_rest.keys() - {NONE, ALL}:
            return _by_rest(made, by_rest)
    return Taken(_plain(pattern, unfold(start(made))))


@remembered(1024)
def taken_alone(pattern: str) -> Taken:
    """The same, each text with the rests with which `re` takes it and none that is longer, if there are conditions at all.

    Raises:
        RegexError, UnsupportedFeature, LimitExceeded: as `taken`.
    """
    found = taken(pattern)
    if not found.where:
        return found
    made = program(pattern)
    by_rest: dict[Rx, list[Threads]] = {}
    for state in _states(made):
        by_rest.setdefault(state.accept, []).append(state)
    return _by_rest(made, _exactly(by_rest))


@remembered(1024)
def ends_anywhere(pattern: str) -> Taken:
    """The texts with which Lark's `dynamic_complete` lexer lets a terminal end; each counts for itself.

    That lexer takes what `re` takes, and then what `re` takes of every shorter text before that end.

    Raises:
        RegexError, UnsupportedFeature, LimitExceeded: as `taken`.
    """
    found = taken(pattern)
    if not found.where:
        return found
    by_rest: dict[Rx, list[Threads]] = {}
    for state in _states(program(pattern)):
        by_rest.setdefault(_rests_anywhere(state), []).append(state)
    return _by_rest(program(pattern), by_rest)


def _plain(pattern: str, language: Rx) -> Rx:
    """The same language as an expression, if it is the expression's own: then its states are fewer and shared."""
    expression = parse(pattern)
    try:
        return expression if is_equal(expression, language) else language
    except LimitExceeded:
        return language


@remembered(16)
def _states(made: Program) -> dict[Threads, list[tuple[Rx, Threads]]]:
    """All states of the threads, each with its steps."""
    first = start(made)
    seen: dict[Threads, list[tuple[Rx, Threads]]] = {first: []}
    stack = [first]
    while stack:
        one = stack.pop()
        seen[one] = one.steps()
        for _, state in seen[one]:
            if state not in seen:
                seen[state] = []
                stack.append(state)
        if len(seen) > STATE_LIMIT:
            raise LimitExceeded(f"the lookaheads of {made.pattern!r} need more than {STATE_LIMIT} states")
    return seen


def _exactly(by_rest: dict[Rx, list[Threads]]) -> dict[Rx, list[Threads]]:
    out: dict[Rx, list[Threads]] = {}
    for rest, states in by_rest.items():
        for state in states:
            out.setdefault(rest if rest is NONE else difference(rest, ends_later(state)), []).append(state)
    return out


def _by_rest(made: Program, by_rest: dict[Rx, list[Threads]]) -> Taken:
    """The texts by what may follow them; conditions that say the same in different words are one."""
    classes: dict[Rx, list[Threads]] = {ALL: [], NONE: []}
    for rest in sorted(by_rest, key=lambda rest: (rest.order, rest.serial)):
        same = rest if rest in classes else next((one for one in classes if is_equal(one, rest)), rest)
        classes.setdefault(same, []).extend(by_rest[rest])
        if len(classes) > CONDITION_LIMIT:
            raise LimitExceeded(f"{made.pattern!r} makes more than {CONDITION_LIMIT} conditions on the text behind it")
    rests = [rest for rest in classes if rest is not NONE]
    labels = {state: label for label, rest in enumerate(rests) for state in classes[rest]}
    table = written_out(_states(made), start(made), labels)
    where = tuple((table.language(label), rest) for label, rest in enumerate(rests) if rest is not ALL)
    return Taken(table.language(rests.index(ALL)), where)


def _rests_anywhere(state: Threads) -> Rx:
    """The rests with which the text that led to a state counts.

    Either `re` takes it, or it takes a longer one, and takes this one of some text that is shorter than that.
    """
    if state.accept is NONE:
        return NONE
    alone = difference(state.accept, ends_later(state))
    return union(alone, ends_after(state, alone))
