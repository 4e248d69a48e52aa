"""Whether ignored text keeps terminals apart: then what the parser may read next, the lexer can be made to read.

With contextual lexing a terminal ends where nothing longer matches, so a grammar may be without a way on although its
rules have one.  Where some ignored text may stand between any two terminals, and each terminal has a text that is read
as this terminal whatever else is tried and that ends before the ignored text, every sentence of terminals can be written.
"""

from __future__ import annotations

from grammars.context_free.grammar import ContextFree, Terminal
from grammars.context_free.keywords import is_covered
from grammars.regular import ALL, NONE, Rx, derivative, difference, is_empty, shortest, union


def separator_of(grammar: ContextFree) -> str | None:
    """An ignored character with these properties; None if none is found."""
    for number in sorted(grammar.ignored, key=lambda one: grammar.terminals[one].order):
        text = shortest(_always(grammar.terminals[number]))
        if text is not None and len(text) == 1 and _separates(grammar, number, text):
            return text
    return None


def _always(terminal: Terminal) -> Rx:
    return terminal.language if isinstance(terminal.language, Rx) else NONE


def _languages(terminal: Terminal) -> list[Rx]:
    return [rx for rx in (_always(terminal), *(rx for rx, _ in terminal.conditional)) if rx is not NONE]


def _separates(grammar: ContextFree, ignored: int, text: str) -> bool:
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
        return False
    newline = -1 if grammar.indentation is None else grammar.indentation.newline
    for number in read:
        word = _word(grammar, number, strings)
        if word is None or any(_begins(rx, text + word[0]) for rx in _languages(terminals[ignored])):
            return False
        if number == newline:
            continue  # what comes next follows the columns of the line
        if newline >= 0 and any(_begins(rx, "\n" + word[0]) for rx in _languages(terminals[newline])):
            return False
        if not _is_read(grammar, number, word, text):
            return False
    return True


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


def _is_read(grammar: ContextFree, number: int, word: str, separator: str) -> bool:
    """Whether `word`, before the separator, is taken as this terminal whatever others are tried."""
    terminals = grammar.terminals
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
