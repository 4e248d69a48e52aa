"""Insides of JSON strings (RFC 8259, section 7): regular languages over decoded characters, read through the escapes.

A frame reads several languages side by side and is left, at the closing quote, with the set of those that hold.

What may be escaped: with canonical escapes, what has to be, in the form that printers use.  Otherwise also every
character outside ASCII, and every character at all where the language lets any printable ASCII character stand next.
(Where only certain ASCII characters may follow, a needless escape of one of them is not offered.)
"""

from __future__ import annotations

from itertools import pairwise

from constrained.automata.character_classes import (
    WIDE_CHARACTERS,
    actions_of,
    bare_ascii,
    character_classes,
    is_bare,
)
from constrained.automata.code_points import Pieces, add_code_points, blocks
from constrained.automata.counted_strings import counted_state
from constrained.automata.free_texts import free_texts
from constrained.automata.machine import Machine
from constrained.automata.outcomes import outcome_of
from constrained.automata.state_keys import in_series
from constrained.automata.transitions import Transitions
from constrained.kernels.branches import ALL_WIDE, SAME_WIDE
from constrained.kernels.tables import goto, pop_after
from grammars.json_schema.formats.alabels import Digits, label_state
from grammars.regular import (
    ALL,
    EPSILON,
    NONE,
    Rx,
    concat,
    counter_slack,
    derivatives,
    intersect,
    moves,
    relax_counters,
    repeat,
)
from grammars.regular.rx import (
    CHARS,
    COMPLEMENT,
    CONCAT,
    COUNTED,
    EPSILON_KIND,
    INTERSECT,
    LITERAL,
    NEAR,
    OUTLINED,
    REPEAT,
    UNFOLD,
    UNION,
    WORDS,
    Moves,
)

Languages = tuple[Rx, ...]
QUOTE, BACKSLASH, SLASH = 0x22, 0x5C, 0x2F
_FEW = 2
_IN_LABELS = (CONCAT, UNION, UNFOLD)
_SHORT = {0x22: '"', 0x5C: "\\", 0x2F: "/", 8: "b", 12: "f", 10: "n", 13: "r", 9: "t"}


def string_start(machine: Machine, languages: Languages, canonical: bool) -> int:
    """The state just after the opening quote of a string whose content is a word of one of `languages`."""
    return string_state(machine, canonical, languages)


def string_state(machine: Machine, canonical: bool, languages: Languages) -> int:
    """The state between two characters, with its mask-equivalent base declared."""
    kept: Rx | Languages = languages
    if len(languages) == 1:
        kept = rx = languages[0]
        kind = rx.kind
        if kind == LITERAL:
            if is_bare(rx.a):
                return machine.literal(rx.a.encode(), machine.state((expand_string, canonical, (EPSILON,))))
        elif kind in (REPEAT, INTERSECT):
            counted = counted_state(machine, canonical, rx, string_state, (expand_string, expand_escape))
            if counted:
                return counted
    series = machine.series((expand_string, canonical))
    state = series.numbers.get(kept)
    if state is None:
        state = machine.state_of(series, kept)
        if not in_label(canonical, languages):
            machine.is_string(state)
            base, slack = _base(languages, machine.horizon)
            if base != languages:
                machine.rest_on(state, string_state(machine, canonical, base), slack)
    return state


def in_label(canonical: bool, languages: Languages) -> bool:
    """Whether the state is one of `a_labels`.  Names of properties, which are canonical, are read label by label."""
    return (
        len(languages) == 1
        and bool(languages[0].flags & OUTLINED)
        and not canonical
        and languages[0].kind in _IN_LABELS
        and isinstance(label_state(languages[0]), Digits)
    )


def _base(languages: Languages, horizon: int) -> tuple[Languages, int]:
    """Languages that these soon cannot be told from, and for how many characters they can be told from them never."""
    if len(languages) == 1:
        rx = languages[0]
        if rx.kind not in (COMPLEMENT, INTERSECT):
            return _base_of_one(rx, languages, horizon)
    plain = tuple([without_exceptions(rx) for rx in languages])
    if len(languages) > 1 and any([rx.high is None for rx in plain]):
        plain = tuple([NONE if rx.high is not None else rx for rx in plain])
    if plain != languages:
        return plain, 0
    relaxed = tuple([relax_counters(rx, horizon) for rx in languages])
    if relaxed != languages:
        return relaxed, horizon
    opened = [counter_slack(rx) for rx in languages]
    base = tuple(rx for rx, _ in opened)
    if base != languages:
        slack = min(slack for (rx, slack), old in zip(opened, languages, strict=True) if rx is not old)
        return base, min(slack, horizon)
    if len(languages) == 1:
        stretched = _stretched(languages[0], horizon)
        if stretched is not None:
            return (stretched[0],), stretched[1]
    return languages, 0


def _base_of_one(rx: Rx, languages: Languages, horizon: int) -> tuple[Languages, int]:
    """`_base` for a single language of which no words are taken out."""
    if rx.flags & COUNTED or horizon < NEAR:
        relaxed = relax_counters(rx, horizon)
        if relaxed is not rx:
            return (relaxed,), horizon
        opened, slack = counter_slack(rx)
        if opened is not rx:
            return (opened,), min(slack, horizon)
    stretched = _stretched(rx, horizon)
    return (languages, 0) if stretched is None else ((stretched[0],), stretched[1])


def _stretched(rx: Rx, horizon: int) -> tuple[Rx, int] | None:
    """For a language that starts with at least m of something: one that is like it for m - 1 characters.

    Few at least: the language of any number of them, which the walk comes to after m characters.  Many: the language of
    more than any token holds.
    """
    head = rx.a if rx.kind == CONCAT else rx
    if head.kind != REPEAT or not 1 <= head.least <= horizon or head.a.kind != CHARS:
        return None
    tail = rx.b if rx.kind == CONCAT else EPSILON
    if head.least <= _FEW:
        return concat(repeat(head.a, 0, None), tail), 0
    return concat(repeat(head.a, horizon + 1, None), tail), head.least - 1


def plain_length(rx: Rx) -> int | None:
    """The length of a shortest word if one is seen at once that needs no escape and only ASCII; else None."""
    if rx.kind == EPSILON_KIND:
        return 0
    if rx.kind == CHARS:
        return 1 if bare_ascii(rx) else None
    if rx.kind == REPEAT:
        turn = plain_length(rx.a) if rx.least else 0
        return None if turn is None else turn * rx.least
    if rx.kind == CONCAT:
        total = 0
        while rx.kind == CONCAT:
            part = plain_length(rx.a)
            if part is None:
                return None
            total += part
            rx = rx.b
        last = plain_length(rx)
        return None if last is None else total + last
    return None


def without_exceptions(rx: Rx) -> Rx:
    """The language with those words put back that a finite list takes out of it."""
    if rx.kind == COMPLEMENT:
        return ALL if rx.a.high is not None else rx
    if rx.kind == INTERSECT:
        kept = [part for part in rx.a if part.kind != COMPLEMENT or part.a.high is None]
        return rx if len(kept) == len(rx.a) else intersect(*kept)
    return rx


@in_series
def expand_string(machine: Machine, canonical: bool, languages: Languages) -> Transitions:
    """Between two characters of a string; each language holds what may still follow of it."""
    if len(languages) == 1:
        if in_label(canonical, languages):
            from constrained.automata.a_labels import expand_known

            return expand_known(machine, canonical, languages[0])
        return _expand_one(machine, canonical, languages[0])
    made = Transitions()
    pieces = next_states(machine, canonical, languages)
    add_code_points(machine, made, raw(pieces))
    wide = [(low, high, state) for low, high, state in pieces if high >= 0x80]
    if sum([high - max(low, 0x80) + 1 for low, high, _ in wide]) == WIDE_CHARACTERS:
        own = machine.state((expand_string, canonical, languages))
        if all([_is_same(machine, state, own) for _, _, state in wide]):
            same = all([state == own for _, _, state in wide])
            machine.loop_wide(own, ALL_WIDE | (SAME_WIDE if same else 0))
    free = free_texts(languages)
    if free is not None:
        machine.counts(machine.state((expand_string, canonical, languages)), *free)
    if escapable(pieces, canonical):
        made.on(BACKSLASH, BACKSLASH, goto(machine.state((expand_escape, canonical, languages))))
    holds = sum([1 << index for index, rx in enumerate(languages) if rx.nullable])
    if holds:
        made.on(QUOTE, QUOTE, pop_after(outcome_of(machine, holds)))
    return made


def _expand_one(machine: Machine, canonical: bool, rx: Rx) -> Transitions:
    """`expand_string` for one language, which is in no label."""
    steps = moves(rx)
    if rx.kind == WORDS and all([is_bare(chr(characters.a[0][0])) for characters, _ in steps]):
        return _expand_words(machine, canonical, rx, steps)
    classes = character_classes(tuple([characters for characters, _ in steps]), True)
    states = tuple([string_state(machine, canonical, (to,)) for _, to in steps])
    actions = actions_of(machine, classes, states)
    free = free_texts((rx,))
    if free is not None or classes.wide >= 0:
        own = machine.state((expand_string, canonical, (rx,)))
        if classes.wide >= 0 and _is_same(machine, states[classes.wide], own):
            same = states[classes.wide] == own and classes.wide_flags == ALL_WIDE
            machine.loop_wide(own, classes.wide_flags | (SAME_WIDE if same else 0))
        if free is not None:
            machine.counts(own, *free)
    escapes = classes.needed or (classes.needless and not canonical)
    if escapes:
        actions.append(goto(machine.state((expand_escape, canonical, (rx,)))))
    if rx.nullable:
        actions.append(pop_after(outcome_of(machine, 1)))
    return Transitions(classes.closed(escapes, rx.nullable), actions)


def _expand_words(machine: Machine, canonical: bool, rx: Rx, steps: Moves) -> Transitions:
    """`expand_string` for a few words, each beginning with a character of its own that is not written as an escape."""
    made = Transitions()
    for characters, to in steps:
        first = characters.a[0][0]
        made.on(first, first, goto(string_state(machine, canonical, (to,))))
    if rx.nullable:
        made.on(QUOTE, QUOTE, pop_after(outcome_of(machine, 1)))
    return made


def _is_same(machine: Machine, state: int, own: int) -> bool:
    """Whether no token can tell the string state `state` from `own`, of which it is what follows a character."""
    while state != own:
        base, slack = machine.base(state)
        if slack < machine.horizon - 1 or base < 0:
            return False
        state = base
    return state == own


def next_states(machine: Machine, canonical: bool, languages: Languages) -> list[tuple[int, int, int]]:
    """(low, high, state): where each next character leads."""
    if len(languages) == 1:
        return [(low, high, string_state(machine, canonical, (to,))) for low, high, to in derivatives(languages[0])]
    return [(low, high, string_state(machine, canonical, to)) for low, high, to in joint_derivatives(languages)]


def joint_derivatives(languages: Languages) -> list[tuple[int, int, Languages]]:
    """The derivatives of several languages on common ranges, dead ones as the empty language."""
    cuts: set[int] = set()
    each = [derivatives(rx) for rx in languages]
    for ranges in each:
        for low, high, _ in ranges:
            cuts.add(low)
            cuts.add(high + 1)
    edges = sorted(cuts)
    at = [0] * len(each)
    found: list[tuple[int, int, Languages]] = []
    for low, above in pairwise(edges):
        targets = []
        for index, ranges in enumerate(each):
            while at[index] < len(ranges) and ranges[at[index]][1] < low:
                at[index] += 1
            here = ranges[at[index]] if at[index] < len(ranges) else None
            targets.append(here[2] if here is not None and here[0] <= low else NONE)
        if any(target is not NONE for target in targets):
            if found and found[-1][2] == tuple(targets) and found[-1][1] + 1 == low:
                found[-1] = (found[-1][0], above - 1, tuple(targets))
            else:
                found.append((low, above - 1, tuple(targets)))
    return found


def raw(pieces: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """The characters that may stand for themselves."""
    found = []
    for low, high, state in pieces:
        for first, last in ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x10FFFF)):
            if low <= last and high >= first:
                found.append((max(low, first), min(high, last), state))
    return found


def escapable(pieces: list[tuple[int, int, int]], canonical: bool) -> list[tuple[int, int, int]]:
    """The characters that may be written as an escape."""
    if canonical:
        ranges = [(0, 0x1F), (QUOTE, QUOTE), (BACKSLASH, BACKSLASH)]
    elif _covers_ascii(pieces):
        return pieces
    else:
        ranges = [(0, 0x1F), (QUOTE, QUOTE), (BACKSLASH, BACKSLASH), (0x7F, 0x10FFFF)]
    return [
        (max(low, first), min(high, last), state)
        for low, high, state in pieces
        for first, last in ranges
        if low <= last and high >= first
    ]


def _covers_ascii(pieces: list[tuple[int, int, int]]) -> bool:
    reached = 0x20
    for low, high, _ in pieces:
        if low > reached:
            return False
        reached = max(reached, high + 1)
        if reached > 0x7E:
            return True
    return False


@in_series
def expand_escape(machine: Machine, canonical: bool, languages: Languages) -> Transitions:
    """After a backslash."""
    return escape(machine, canonical, next_states(machine, canonical, languages))


def escape(machine: Machine, canonical: bool, pieces: list[tuple[int, int, int]]) -> Transitions:
    """The escapes of the characters that may come next, which lead where `pieces` says."""
    made = Transitions()
    pieces = escapable(pieces, canonical)
    for code_point, letter in _SHORT.items():
        if canonical and code_point == SLASH:
            continue
        for low, high, state in pieces:
            if low <= code_point <= high:
                made.on(ord(letter), ord(letter), goto(state))
    if canonical:
        units = [
            (max(low, first), min(high, last), state)
            for low, high, state in pieces
            for first, last in ((0, 7), (11, 11), (14, 0x1F))
            if low <= last and high >= first
        ]
    else:
        units = _code_units(machine, pieces)
    if units:
        made.on(0x75, 0x75, goto(machine.state((expand_hex, 4, canonical, tuple(units)))))
    return made


def _code_units(machine: Machine, pieces: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """UTF-16 code units of `pieces`: a high surrogate leads to a state that reads the low one."""
    units = [(low, min(high, 0xFFFF), state) for low, high, state in pieces if low <= 0xFFFF]
    astral = [(max(low, 0x10000) - 0x10000, high - 0x10000, state) for low, high, state in pieces if high > 0xFFFF]
    for first, last, rest in blocks(astral, 1024):
        inner = tuple((low + 0xDC00, high + 0xDC00, state) for low, high, state in rest)
        units.append((0xD800 + first, 0xD800 + last, machine.state((expand_low_surrogate, inner))))
    units.sort()
    return units


def expand_low_surrogate(machine: Machine, units: Pieces) -> int:
    """After a high surrogate's escape: the escape of a low one must follow."""
    return machine.literal(b"\\u", machine.state((expand_hex, 4, False, units)))


def expand_hex(machine: Machine, digits: int, lower: bool, pieces: Pieces) -> Transitions:
    """Inside a \\u escape with `digits` hexadecimal digits to come; in lower case only if `lower`."""
    made = Transitions()
    size = 16 ** (digits - 1)
    for first, last, rest in blocks(pieces, size):
        state = rest[0][2] if digits == 1 else machine.state((expand_hex, digits - 1, lower, rest))
        for low, high, zero in ((0, 9, 0x30), (10, 15, 0x57), (10, 15, 0x37)):
            if (lower and zero == 0x37) or first > high or last < low:
                continue
            made.on(zero + max(first, low), zero + min(last, high), goto(state))
    return made
