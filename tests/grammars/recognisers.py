"""Slow twins of the byte machine: what a context-free grammar in numbers says, in a few lines for each lexing."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from grammars.context_free import END_MARK, ContextFree, SpecialToken, Terminal
from grammars.regular import Rx, derivative, matches

Ends = Callable[[int, int], Iterable[int]]


def accepts(grammar: ContextFree, text: str) -> bool:
    """Whether a text without special tokens is a sentence; embedded grammars are not looked into."""
    if grammar.lexing == "contextual":
        return _contextual(grammar, text)
    skips = _skips(grammar, text)

    def ends(number: int, start: int) -> Iterable[int]:
        return {after for end in words(grammar.terminals[number], text, start) for after in skips[end]}

    return any(len(text) in _parse(grammar, ends, len(text), start) for start in skips[0])


def words(terminal: Terminal, text: str, start: int) -> list[int]:
    """Where a terminal that begins at `start` may end, ascending."""
    if not isinstance(terminal.language, Rx):
        return []
    found = set(_ends(terminal.language, text, start))
    for language, rests in terminal.conditional:
        found |= {end for end in _ends(language, text, start) if matches(rests, text[end:])}
    return sorted(found)


def _ends(language: Rx, text: str, start: int) -> Iterable[int]:
    for end in range(start, len(text)):
        language = derivative(language, ord(text[end]))
        if language.nullable:
            yield end + 1


def _skips(grammar: ContextFree, text: str) -> list[set[int]]:
    """For each place where ignored text may lead from there; each piece is as long as can be."""
    reached: list[set[int]] = [set() for _ in range(len(text) + 1)]
    for start in reversed(range(len(text) + 1)):
        reached[start] = {start}
        for number in grammar.ignored:
            longest = words(grammar.terminals[number], text, start)[-1:]
            for end in longest:
                reached[start] |= reached[end]
    return reached


def _parse(grammar: ContextFree, ends: Ends, length: int, start: int) -> set[int]:
    """Where sentences that begin at `start` may end (Earley's algorithm, completed until nothing is new)."""
    by_origin: dict[int, list[tuple[int, ...]]] = {}
    for rule in grammar.rules:
        by_origin.setdefault(rule.origin, []).append(rule.symbols)
    Item = tuple[int, tuple[int, ...], int, int]
    columns: list[dict[Item, None]] = [{} for _ in range(length + 1)]
    for symbols in by_origin.get(grammar.start, []):
        columns[start].setdefault((grammar.start, symbols, 0, start))
    for place in range(start, length + 1):
        before = -1
        while before != len(columns[place]):
            before = len(columns[place])
            for origin, symbols, dot, begun in list(columns[place]):
                if dot == len(symbols):
                    for other in list(columns[begun]):
                        if other[2] < len(other[1]) and other[1][other[2]] == origin:
                            columns[place].setdefault((other[0], other[1], other[2] + 1, other[3]))
                elif symbols[dot] >= 0:
                    for rule in by_origin.get(symbols[dot], []):
                        columns[place].setdefault((symbols[dot], rule, 0, place))
                else:
                    for end in ends(~symbols[dot], place):
                        columns[end].setdefault((origin, symbols, dot + 1, begun))
    return {
        place
        for place, column in enumerate(columns)
        for origin, symbols, dot, begun in column
        if origin == grammar.start and dot == len(symbols) and begun == start
    }


# --- contextual -------------------------------------------------------------------------------------------------------


def _contextual(grammar: ContextFree, text: str) -> bool:
    table = grammar.lalr
    assert table is not None
    stack = [table.start]
    indents, depth = [0], 0
    indentation = grammar.indentation

    def feed(terminal: int) -> bool:
        while True:
            action = table.actions[stack[-1]].get(terminal)
            if action is None:
                return False
            kind, argument = action
            if kind == "shift":
                stack.append(argument)
                return True
            rule = grammar.rules[argument]
            del stack[len(stack) - len(rule.symbols) :]
            stack.append(table.gotos[stack[-1]][rule.origin])
            if terminal == END_MARK and stack[-1] == table.end:
                return True

    place = 0
    while place < len(text):
        token = _token(grammar, table.accepts[stack[-1]], text, place)
        if token is None:
            return False
        scanned, number, end = token
        piece, place = text[place:end], end
        if scanned in grammar.ignored:  # before it is taken for a string: what is ignored is what was scanned
            continue
        if indentation is not None and number == indentation.newline:
            if depth > 0:
                continue
            if not feed(number):
                return False
            tail = piece.rsplit("\n", 1)
            if len(tail) < 2:
                return False
            column = tail[1].count(" ") + tail[1].count("\t") * indentation.tab_len
            if column > indents[-1]:
                indents.append(column)
                if not feed(indentation.indent):
                    return False
            while column < indents[-1]:
                indents.pop()
                if not feed(indentation.dedent):
                    return False
            if column != indents[-1]:
                return False
            continue
        if not feed(number):
            return False
        if indentation is not None:
            depth += (number in indentation.open_parens) - (number in indentation.close_parens)
            if depth < 0:
                return False
    if indentation is not None:
        for _ in indents[1:]:
            if not feed(indentation.dedent):
                return False
    return feed(END_MARK)


def _token(grammar: ContextFree, accepted: frozenset[int], text: str, place: int) -> tuple[int, int, int] | None:
    """The terminal that Lark's scanner takes, the one that it passes on for it, and where it ends."""
    ordered = sorted(accepted, key=lambda number: grammar.terminals[number].order)
    literals = [number for number in ordered if grammar.terminals[number].literal]
    instead: dict[int, list[int]] = {}
    hidden: set[int] = set()
    for number in ordered:
        one = grammar.terminals[number]
        if one.literal or isinstance(one.language, SpecialToken):
            continue
        for other in literals:
            text_of = grammar.terminals[other]
            value = text_of.pattern
            if text_of.priority == one.priority and words(one, value, 0)[-1:] == [len(value)]:
                instead.setdefault(number, []).append(other)
                if text_of.flags <= one.flags:
                    hidden.add(other)
    for number in ordered:
        if number in hidden:
            continue
        found = words(grammar.terminals[number], text, place)
        if found:
            piece = text[place : found[-1]]
            for other in instead.get(number, []):
                if isinstance(language := grammar.terminals[other].language, Rx) and matches(language, piece):
                    return number, other, found[-1]
            return number, number, found[-1]
    return None
