"""What is being read between two terminals: every terminal that may come, side by side.

A *scan* is a state of the lexer.  It knows the terminals that the text read since the last one may still become, and
those that it is by now: its *cuts*.  Whether a cut is taken is decided before the next character (a cut may be taken and
the scan go on as well, where every way to cut the text counts).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from grammars.context_free.layout import Blocks
from grammars.context_free.letters import ALL_LETTERS, Letters, letters, split
from grammars.context_free.lr import Automaton, Mask
from grammars.regular import (
    ALL,
    EPSILON,
    NONE,
    Rx,
    complement,
    concat,
    intersect,
    is_empty,
    moves,
    shortest_length,
    union,
)
from grammars.regular.build import without_empty
from grammars.regular.charset import join_all, meet

NO_BREAK, BREAK_BEGINS, BREAK_READ = range(3)


class Cut(NamedTuple):
    """A terminal that ends here.

    Attributes:
        terminal: its number.
        rest: what the text after it, up to its end, must be in.
        column: of a line break: how far the next line is indented.
        dropped: the parser never sees it: it is ignored text, or a line break between parentheses.
    """

    terminal: int
    rest: Rx = ALL
    column: int = -1
    dropped: bool = False


@dataclass(eq=False, slots=True)
class Scan:
    """A state of a lexer; compared by identity.

    Attributes:
        number: its number among those of its lexer.
        key: what it is reading; empty where nothing can follow.
        cuts: the terminals that end here.
        may_end: nothing has been read, and the text may end.
        start: whether nothing has been read since the last terminal.
        line_break: `BREAK_BEGINS`: a line break of an indenter may have begun, which the parser reads at once, as it decides
            where the next line may begin; `BREAK_READ`: it has read it, and the open blocks are not known yet.
        moves: disjoint sets of characters and what they lead to, once asked for.
    """

    number: int
    key: tuple[object, ...]
    cuts: tuple[Cut, ...]
    may_end: bool
    start: bool
    line_break: int
    moves: tuple[tuple[Letters, Scan], ...] | None = field(default=None, repr=False)

    @property
    def embedded(self) -> tuple[int, ...]:
        """Terminals that are grammars of their own, or special tokens, and may begin here; `moves` knows nothing of them."""
        found: tuple[int, ...] = self.key[1] if len(self.key) > 1 else ()  # type: ignore[assignment]
        return found


class Lexer(ABC):
    """The scans of one grammar."""

    def __init__(self, followers: Sequence[Mask] = (), dropped: Mask = 0) -> None:
        """
        Args:
            followers: for each terminal, those that may come behind it; none: nothing is known of that.
            dropped: terminals that may stand anywhere between others.
        """
        self.scans: list[Scan] = []
        self._followers = followers
        self._dropped = dropped
        self._known: dict[tuple[object, ...], Scan] = {}
        self._may_begin: dict[tuple[Mask, Rx, Letters], bool] = {}
        self._letters: dict[Mask, Letters] = {}
        self._firsts: dict[int, list[tuple[int, Rx, Rx]]] | None = None

    @abstractmethod
    def start(self, state: int) -> Scan:
        """Before the first character of a terminal, where the parser is in `state` of its automaton."""

    @abstractmethod
    def _moves(self, scan: Scan) -> list[tuple[Letters, Scan]]:
        """What the characters lead to."""

    def scan(
        self,
        key: tuple[object, ...],
        cuts: tuple[Cut, ...] = (),
        *,
        may_end: bool = False,
        start: bool = False,
        line_break: int = NO_BREAK,
    ) -> Scan:
        """The scan of these, made at the first call."""
        name = (key, cuts, may_end, start, line_break)
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = Scan(len(self.scans), key, cuts, may_end, start, line_break)
            self.scans.append(found)
        return found

    def moves(self, scan: Scan) -> tuple[tuple[Letters, Scan], ...]:
        """Disjoint sets of characters and the scans after them; each has something to read or cuts."""
        if scan.moves is None:
            scan.moves = tuple(self._moves(scan))
        return scan.moves

    def joint_moves(self, scan: Scan, rest: Rx) -> list[tuple[Scan, Rx]]:
        """What the characters that the scan can read lead to: the scan, and the rest, NONE where that forbids them."""
        if rest is ALL:
            return [(to, ALL) for _, to in self.moves(scan)]
        items: list[tuple[Letters, Scan | Rx]] = list(self.moves(scan))
        items += [(letters(characters), to) for characters, to in moves(rest)]
        found = []
        for _, values in split(items):
            if isinstance(values[0], Scan):
                left = values[1] if len(values) > 1 else NONE
                assert isinstance(left, Rx)
                found.append((values[0], left))
        return found

    @abstractmethod
    def _languages(self) -> Iterable[tuple[int, Rx]]:
        """The texts of every terminal, ignored ones included, each with the terminal's number."""

    def _may_follow(self, cut: Cut) -> Mask:
        """The terminals that may begin behind a cut in some sentence, ignored ones included; -1: any."""
        return -1 if cut.dropped or not self._followers else self._followers[cut.terminal] | self._dropped

    def first_letters(self, cut: Cut) -> Letters:
        """The characters with which something may begin behind a cut."""
        wanted = self._may_follow(cut)
        found = self._letters.get(wanted)
        if found is None:
            bits = 0
            wide: set[Rx] = set()
            for number, firsts in self._first_moves().items():
                if wanted >> number & 1:
                    for own, others, _ in firsts:
                        bits |= own
                        if others is not NONE:
                            wide.add(others)
            found = self._letters[wanted] = (bits, join_all(list(wide)) if wide else NONE)
        return found

    def begins(self, cut: Cut, rest: Rx, characters: Letters) -> bool:
        """Whether something that may follow a cut begins with one of `characters` and a text that is in `rest` from there on."""
        wanted = self._may_follow(cut)
        known = self._may_begin.get((wanted, rest, characters))
        if known is None:
            bits, wide = characters
            known = self._may_begin[wanted, rest, characters] = any(
                rest is ALL or not is_empty(intersect(concat(to, ALL), rest))
                for number, firsts in self._first_moves().items()
                if wanted >> number & 1
                for own_bits, own_wide, to in firsts
                if own_bits & bits or (NONE not in (own_wide, wide) and meet(own_wide, wide) is not NONE)
            )
        return known

    def _first_moves(self) -> dict[int, list[tuple[int, Rx, Rx]]]:
        if self._firsts is None:
            self._firsts = {}
            for number, rx in dict.fromkeys(self._languages()):
                found = self._firsts.setdefault(number, [])
                found += [(*letters(characters), to) for characters, to in moves(rx)]
        return self._firsts

    def going_on(self, scan: Scan) -> Scan | None:
        """`scan` without its cuts; None if there is nothing more to read and the text may not end."""
        if not scan.key and not scan.may_end:
            return None
        return self.scan(scan.key, (), may_end=scan.may_end, start=scan.start) if scan.cuts else scan

    def other_than_line(self, scan: Scan) -> Scan | None:
        """A scan that begins a line break, if it is none; None where it can be nothing else."""
        raise NotImplementedError(f"{type(self).__name__} knows no lines")

    def line(self, scan: Scan, state: int, blocks: Blocks) -> Scan | None:
        """A scan that begins a line break, once the parser has read the break; None if no line can follow.

        Args:
            state: where the parser is then.
            blocks: the blocks that are open.
        """
        raise NotImplementedError(f"{type(self).__name__} knows no lines")

    def line_left(self, scan: Scan) -> int | None:
        """Of a scan that is in a line break that the parser has read: the characters that it still takes; else None."""
        return None

    @abstractmethod
    def left(self, scan: Scan) -> list[tuple[int, bool, int]]:
        """Terminals that a scan may become and that the parser can go on with: (number, dropped, characters still to come)."""

    @abstractmethod
    def joined(self, scans: list[Scan]) -> Scan | None:
        """One scan for several at the same place in the parser; None where they have to stay apart."""


Entry = tuple[int, Rx, Rx, bool]
"""A terminal that is being read: its number, what is left of it, what the rest of the text must be in then, and whether it
is ignored."""


class EveryLexer(Lexer):
    """Every way to cut the text into terminals counts.

    Ignored terminals are taken as Python's `re` takes them, whole: what follows one must not make it longer.
    """

    def __init__(
        self,
        entries: list[tuple[tuple[int, Rx, Rx], ...]],
        ignored: frozenset[int],
        automaton: Automaton,
        embedded: tuple[int, ...] = (),
        special: tuple[int, ...] = (),
        followers: Sequence[Mask] = (),
    ) -> None:
        """
        Args:
            entries: for each terminal, its texts: (number, texts, what the rest of the text must be in).
            ignored: terminals that may stand between others.
            automaton: the parser's, which says what may come.
            embedded: terminals that are grammars of their own.
            special: terminals that are special tokens.
            followers: as in `Lexer`.
        """
        super().__init__(followers, sum(1 << number for number in ignored))
        self._entries = entries
        self._ignored = ignored
        self._embedded = tuple(sorted((*embedded, *special)))
        self._unknown: Mask = sum(1 << number for number in embedded)
        self._automaton = automaton
        self._starts: dict[Mask, Scan] = {}

    def entries(self) -> list[Entry]:
        """Every terminal before its first character, as it is read and as it is ignored."""
        return [
            (*entry, dropped)
            for number, own in enumerate(self._entries)
            for dropped in ((False, True) if number in self._ignored else (False,))
            for entry in own
        ]

    def is_embedded(self, terminal: int) -> bool:
        """Whether a terminal is a grammar of its own, or a special token."""
        return terminal in self._embedded

    def start(self, state: int) -> Scan:
        """Before the first character of a terminal."""
        mask = self._automaton.states[state].viable
        found = self._starts.get(mask)
        if found is None:
            entries = [
                (*entry, dropped)
                for number, own in enumerate(self._entries)
                for dropped, reads in ((False, mask >> number & 1), (True, number in self._ignored))
                if reads
                for entry in own
            ]
            embedded = tuple(number for number in self._embedded if mask >> number & 1)
            key = _key(frozenset(entries), embedded)
            found = self._starts[mask] = self.scan(key, may_end=bool(mask & self._automaton.end), start=True)
        return found

    def _moves(self, scan: Scan) -> list[tuple[Letters, Scan]]:
        if not scan.key:
            return []
        entries: frozenset[Entry] = scan.key[0]  # type: ignore[assignment]
        items = [
            (letters(characters), (number, to, rest, dropped))
            for number, rx, rest, dropped in entries
            for characters, to in moves(rx)
        ]
        return [(characters, self._after(found)) for characters, found in split(items)]

    def _after(self, found: tuple[Entry, ...]) -> Scan:
        key = frozenset(entry for entry in found if entry[1] is not EPSILON)
        cuts = {
            # Where ignored text is taken on a condition, the condition says that nothing longer is.
            Cut(number, not_longer(to) if dropped and rest is ALL else rest, dropped=dropped)
            for number, to, rest, dropped in found
            if to.nullable
        }
        ordered = tuple(sorted(cuts, key=_by_number))
        return self.scan((key,) if key else (), ordered)

    def first_letters(self, cut: Cut) -> Letters:
        """The characters with which something may begin; of grammars of their own nothing is known here."""
        return ALL_LETTERS if self._unknown & self._may_follow(cut) else super().first_letters(cut)

    def begins(self, cut: Cut, rest: Rx, characters: Letters) -> bool:
        """Whether something may begin so; of grammars of their own nothing is known here."""
        return bool(self._unknown & self._may_follow(cut)) or super().begins(cut, rest, characters)

    def _languages(self) -> Iterable[tuple[int, Rx]]:
        return [(number, rx) for number, own in enumerate(self._entries) for _, rx, _ in own]

    def left(self, scan: Scan) -> list[tuple[int, bool, int]]:
        """Terminals that a scan may become: (number, dropped, characters still to come)."""
        entries: frozenset[Entry] = scan.key[0] if scan.key else frozenset()  # type: ignore[assignment]
        found = [(cut.terminal, cut.dropped, 0) for cut in scan.cuts]
        found += [(number, dropped, shortest_length(rx) or 0) for number, rx, _, dropped in entries]
        return found + [(number, False, 1) for number in scan.embedded]

    def joined(self, scans: list[Scan]) -> Scan | None:
        """All that any of them reads."""
        key: frozenset[Entry] = frozenset().union(*(scan.key[0] for scan in scans if scan.key))  # type: ignore[arg-type]
        embedded = tuple(sorted({number for scan in scans for number in scan.embedded}))
        cuts = {cut for scan in scans for cut in scan.cuts}
        return self.scan(
            _key(key, embedded),
            tuple(sorted(cuts, key=_by_number)),
            may_end=any(scan.may_end for scan in scans),
            start=all(scan.start for scan in scans),
        )


def _key(entries: frozenset[Entry], embedded: tuple[int, ...] = ()) -> tuple[object, ...]:
    if embedded:
        return (entries, embedded)
    return (entries,) if entries else ()


def _by_number(cut: Cut) -> tuple[int, int, bool]:
    return cut.terminal, cut.rest.serial, cut.dropped


def not_longer(rx: Rx) -> Rx:
    """The rests of texts that no word of `rx` but the empty one begins."""
    return none_begins([longer(rx)])


def longer(rx: Rx) -> Rx:
    """The words of `rx` but the empty one."""
    found = without_empty(rx)
    return union(*[concat(characters, to) for characters, to in moves(rx)]) if found.nullable else found


def none_begins(languages: list[Rx]) -> Rx:
    """The rests that no word of any of the languages begins; the languages do not hold the empty word."""
    whole = union(*languages) if languages else NONE
    return ALL if whole is NONE else complement(concat(whole, ALL))
