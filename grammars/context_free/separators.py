"""Whether terminals can be kept apart: then what the parser may read next, the lexer can be made to read.

The rules of a grammar may have a way on that no text takes: with contextual lexing a terminal ends where nothing longer
matches, ignored text is taken whole, and a terminal may want certain text to follow.  None of that matters where ignored
text may stand between any two terminals, and each terminal has a text, its *witness*, that is read as this terminal
whatever else is tried and that ends before the ignored text: every sentence of terminals can then be written.  The same
holds where nothing is ignored and each terminal may end with a space itself, behind which nothing makes it longer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from grammars.context_free.grammar import ContextFree, Terminal
from grammars.context_free.keywords import is_covered
from grammars.context_free.scans import Cut
from grammars.effort import spend
from grammars.regular import (
    ALL,
    EPSILON,
    NONE,
    Rx,
    complement,
    concat,
    derivative,
    difference,
    is_empty,
    moves,
    shortest,
    union,
)
from grammars.regular.charset import contains

_MOST_RESTS = 200
_MOST_STRETCHED = 64


@dataclass(frozen=True, eq=False)
class Separation:
    """How every sentence of terminals can be written.

    Attributes:
        text: what stands between two terminals; empty where they may follow each other directly.
        words: for each terminal that is read, a witness, with the separator behind it; for line breaks of an indenter also
            without.
        first: the same without line breaks of an indenter.
        apart: whether the text is none of the terminal before it.
    """

    text: str
    words: tuple[str, ...]
    first: tuple[str, ...]
    apart: bool = True
    _safe: dict[Rx, bool] = field(default_factory=dict, repr=False)
    _admitted: dict[tuple[Rx, bool, bool], bool] = field(default_factory=dict, repr=False)

    def admits(self, rest: Rx, cut: Cut) -> bool:
        """Whether every sentence of terminals can be written with a text in `rest`, behind a terminal that has just ended.

        Sufficient, not necessary.

        Args:
            cut: the terminal.
        """
        if rest is ALL:
            return True
        key = (rest, cut.column < 0, cut.dropped)
        known = self._admitted.get(key)
        if known is None:
            known = self._admitted[key] = self._admits(rest, cut)
        return known

    def _admits(self, rest: Rx, cut: Cut) -> bool:
        if self.apart and cut.column < 0 and self._is_safe(_after(rest, self.text)):
            return True
        return (cut.column >= 0 or cut.dropped) and all(self._is_safe(_after(rest, word)) for word in self.first)

    def _is_safe(self, rest: Rx) -> bool:
        known = self._safe.get(rest)
        if known is None:
            known = self._safe[rest] = self._explore(rest)
        return known

    def _explore(self, rest: Rx) -> bool:
        seen = {rest}
        queue = [rest]
        while queue:
            one = queue.pop()
            if one is ALL:
                continue
            if not one.nullable:
                return False
            for word in self.words:
                after = _after(one, word)
                if after not in seen:
                    seen.add(after)
                    queue.append(after)
                    if len(seen) > _MOST_RESTS:
                        return False
        return True


def _after(rest: Rx, text: str) -> Rx:
    for char in text:
        rest = derivative(rest, ord(char))
    return rest


def separation_of(grammar: ContextFree) -> Separation | None:
    """A way to write every sentence of terminals; None if none is seen."""
    if grammar.lexing == "contextual":
        for number, text, rests in _candidates(grammar):
            found = _separated_by(grammar, number, text)
            if found is not None and rests.nullable and all(_after(rests, word) is ALL for word in found.first):
                # with an indenter, what ignored text goes on as ends at line breaks, which its lexer follows
                return found if grammar.indentation is not None or _ignored_text_ends(grammar, found) else None
        return _separated_by_themselves(grammar, " ")
    return _directly(grammar)


def _candidates(grammar: ContextFree) -> list[tuple[int, str, Rx]]:
    """Ignored terminals with a text of one character, and what has to follow; those first that end other ignored text.

    A comment up to the end of its line goes on with a space, and ends with a line break.
    """
    found = [
        (number, text, rests)
        for number in sorted(grammar.ignored, key=lambda one: grammar.terminals[one].order)
        for text, rests in _short(grammar.terminals[number])
    ]
    words = {number: _word(grammar, number, []) for number in grammar.ignored}

    def goes_on(candidate: tuple[int, str, Rx]) -> int:
        own, text, _ = candidate
        return sum(
            number != own and word is not None and any(_begins(rx, word + text) for rx in _languages(grammar.terminals[number]))
            for number, word in words.items()
        )  # fmt: skip

    return sorted(found, key=goes_on)


def _short(terminal: Terminal) -> list[tuple[str, Rx]]:
    """Texts of one character, each with what has to follow: of characters that lead to the same, the first and line breaks."""
    pairs = ((_always(terminal), ALL), *terminal.conditional)
    sets = [(chars, rests) for rx, rests in pairs for chars, to in moves(rx) if to.nullable]
    found = [(chr(chars.a[0][0]), rests) for chars, rests in sets]
    return found + [("\n", rests) for chars, rests in sets if contains(chars, 0x0A) and chars.a[0][0] != 0x0A]


def _ignored_text_ends(grammar: ContextFree, separation: Separation) -> bool:
    """Whether every sentence of terminals can be written behind any ignored text.

    Not so for comments up to the end of a line where no ignored text begins with a line break.
    """
    for number in grammar.ignored:
        word = _word(grammar, number, [])
        if word is None:
            continue
        longer = [difference(_after(rx, word), EPSILON) for rx in _languages(grammar.terminals[number])]
        rest = complement(concat(union(*longer), ALL))
        if not separation.admits(rest, Cut(number, rest, dropped=True)):
            return False
    return True


def _separated_by_themselves(grammar: ContextFree, text: str) -> Separation | None:
    """The witnesses where nothing is ignored, but each terminal may end with the text, and nothing makes it longer then."""
    terminals = grammar.terminals
    inserted = () if grammar.indentation is None else (grammar.indentation.indent, grammar.indentation.dedent)
    newline = -1 if grammar.indentation is None else grammar.indentation.newline
    strings = [number for number, one in enumerate(terminals) if one.literal]
    words = []
    first = []
    for number in range(len(terminals)):
        if number in inserted:
            continue
        word = _word(grammar, number, strings)
        if grammar.ignored or word is None:
            return None
        if number == newline:
            words.append(word)
            continue  # what comes next follows the columns of the line
        taken = [one for one in (word.removesuffix(text) + text, _stretched(terminals[number], word))
                 if _is_taken(grammar, number, one)]  # fmt: skip
        if not taken:
            return None
        words.append(taken[0])
        first.append(taken[0])
    if newline >= 0 and any(_begins(rx, "\n" + word[0]) for word in first for rx in _languages(terminals[newline])):
        return None
    return Separation(text, tuple(words), tuple(first), apart=False)


def _stretched(terminal: Terminal, word: str) -> str:
    """The word, made longer as long as it can be, within limits."""
    languages = [after for rx in _languages(terminal) if (after := _after(rx, word)) is not NONE]
    while len(word) < _MOST_STRETCHED and (steps := [step for rx in languages for step in moves(rx)]):
        char = chr(steps[0][0].a[0][0])
        word += char
        languages = [after for rx in languages if (after := _after(rx, char)) is not NONE]
    return word


def _is_taken(grammar: ContextFree, number: int, word: str) -> bool:
    """Whether `word` is taken as this terminal whatever follows and whatever others are tried."""
    terminal = grammar.terminals[number]
    spend(len(grammar.terminals))
    if terminal.literal or any(
        other != number and (_may_take(one, word) or any(_begins(rx, word) for rx in _languages(one)))
        for other, one in enumerate(grammar.terminals)
        if one.order <= terminal.order
    ):
        return False
    if any(not is_empty(rest) and moves(rest) for rest in (_after(rx, word) for rx in _languages(terminal))):
        return False
    taken = ((_always(terminal), ALL), *terminal.conditional)
    return any(rests is ALL and rx is not NONE and _after(rx, word).nullable for rx, rests in taken)


def _directly(grammar: ContextFree) -> Separation | None:
    """The witnesses where every cut of the text counts: no terminal looks ahead, none begins as ignored text goes on."""
    longer = [characters for number in grammar.ignored for characters in _going_on(grammar.terminals[number])]
    words = []
    for number, one in enumerate(grammar.terminals):
        if one.conditional:
            return None
        if not isinstance(one.language, Rx) or one.language is NONE or number in grammar.ignored:
            continue
        word = None
        for characters, to in moves(one.language):
            code = next((code for low, high in characters.a for code in (low, high)
                         if not any(contains(other, code) for other in longer)), None)  # fmt: skip
            if code is not None:
                word = chr(code) + (shortest(to) or "")
                break
        if word is None:
            return None
        words.append(word)
    return Separation("", tuple(words), tuple(words))


def _going_on(terminal: Terminal) -> list[Rx]:
    """Sets of characters with which a match of the terminal may be made longer."""
    seen = set(_languages(terminal))
    queue = list(seen)
    found = []
    while queue:
        one = queue.pop()
        for characters, to in moves(one):
            if one.nullable:
                found.append(characters)
            if to not in seen:
                seen.add(to)
                queue.append(to)
                if len(seen) > _MOST_RESTS:
                    return [*found, *(characters for rx in queue for characters, _ in moves(rx))]
    return found


def _always(terminal: Terminal) -> Rx:
    return terminal.language if isinstance(terminal.language, Rx) else NONE


def _languages(terminal: Terminal) -> list[Rx]:
    return [rx for rx in (_always(terminal), *(rx for rx, _ in terminal.conditional)) if rx is not NONE]


def _separated_by(grammar: ContextFree, ignored: int, text: str) -> Separation | None:
    terminals = grammar.terminals
    read = [
        number for number in range(len(terminals)) if number not in grammar.ignored and _languages(terminals[number])
    ]
    strings = [number for number in read if terminals[number].literal]
    before = [
        one for number in [*read, *grammar.ignored] if terminals[number].order < terminals[ignored].order
        for one in _languages(terminals[number])
    ]  # fmt: skip
    if any(_begins(rx, text) for rx in before):
        return None
    newline = -1 if grammar.indentation is None else grammar.indentation.newline
    words, first = [], []
    for number in read:
        word = _word(grammar, number, strings)
        if word is not None and number != newline and not _is_read(grammar, number, word, text):
            other = word.swapcase()  # of a keyword that may be written either way, mostly one is not a name
            if terminals[number].literal and other != word and _is_read(grammar, number, other, text):
                word = other
            else:
                word = _word_of_its_own(grammar, number)
        if word is None or any(_begins(rx, text + word[0]) for rx in _languages(terminals[ignored])):
            return None
        words.append(word + text)
        if number == newline:
            words.append(word)
            continue  # what comes next follows the columns of the line
        first.append(word + text)
        if newline >= 0 and any(_begins(rx, "\n" + word[0]) for rx in _languages(terminals[newline])):
            return None
        if not _is_read(grammar, number, word, text):
            return None
    return Separation(text, tuple(words), tuple(first))


def _word(grammar: ContextFree, number: int, strings: list[int]) -> str | None:
    """A short text of the terminal that is no keyword."""
    terminal = grammar.terminals[number]
    words = [shortest(rx) for rx in _languages(terminal)]
    if not terminal.literal:
        covered = [_always(grammar.terminals[one]) for one in strings if is_covered(terminal, grammar.terminals[one])]
        if covered:
            names = union(*covered)
            words = [
                None if is_empty(left) else shortest(left) for left in (difference(rx, names) for rx in _languages(terminal))
            ]  # fmt: skip
    return min((word for word in words if word is not None), key=len, default=None)


def _word_of_its_own(grammar: ContextFree, number: int) -> str | None:
    """A short text of the terminal that begins with no text of one that is tried before it."""
    terminal = grammar.terminals[number]
    earlier = [rx for one in grammar.terminals if one.order < terminal.order for rx in _languages(one)]
    others = concat(union(*earlier), ALL) if earlier else NONE
    words = []
    for rx in _languages(terminal):
        left = difference(rx, others)
        words += [] if is_empty(left) else [shortest(left)]
    return min((word for word in words if word is not None), key=len, default=None)


def _is_read(grammar: ContextFree, number: int, word: str, separator: str) -> bool:
    """Whether `word`, before the separator, is taken as this terminal whatever others are tried."""
    terminals = grammar.terminals
    spend(len(terminals))
    terminal = terminals[number]
    covering = [
        other for other, one in enumerate(terminals)
        if terminal.literal and not one.literal and isinstance(one.language, Rx) and is_covered(one, terminal)
    ]  # fmt: skip
    last = max(terminals[other].order for other in [number, *covering])
    text = word + separator
    for other, one in enumerate(terminals):
        if other != number and one.order > last:
            continue
        if all(derivative(rx, ord(text[0])) is NONE for rx in _languages(one)):
            continue
        if other not in (number, *covering) and _may_take(one, text):
            return False
        if any(_begins(rx, text) for rx in _languages(one)):
            return False
    if _always(terminal) is not NONE and len(word) in _taken(_always(terminal), word):
        return True
    return any(
        len(word) in _taken(rx, word) and derivative(rests, ord(separator)) is ALL for rx, rests in terminal.conditional
    )


def _may_take(terminal: Terminal, text: str) -> bool:
    """Whether the terminal takes some text that `text` begins with."""
    if _taken(_always(terminal), text):
        return True
    return any(_begins(rests, text[length:]) for rx, rests in terminal.conditional for length in _taken(rx, text))


def _taken(rx: Rx, text: str) -> list[int]:
    """The lengths of the prefixes of `text` that are words."""
    found = []
    for length, char in enumerate(text, 1):
        rx = derivative(rx, ord(char))
        if rx is NONE:
            break
        if rx.nullable:
            found.append(length)
    return found


def _begins(rx: Rx, text: str) -> bool:
    """Whether some word begins with `text`."""
    for char in text:
        rx = derivative(rx, ord(char))
        if rx is NONE:
            return False
    return not is_empty(rx)
