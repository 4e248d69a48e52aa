"""Lark's contextual lexer: in each state of the parser, what Python's `re` takes of the terminals that may stand there.

Terminals are tried in Lark's order; the first that matches at all is taken, with the longest of its texts (a terminal's
language holds just the texts that `re` takes whole, and of two of them `re` takes the longer).  So a scan is an ordered
list: behind a terminal that has matched nothing else can win any more, and a match stands only if the terminals up to
its own match nothing longer.  Terminals that the parser could not go on with are tried nevertheless and then fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from grammars.context_free.grammar import END_MARK, Indentation
from grammars.context_free.keywords import Tried
from grammars.context_free.layout import Blocks, Columns, columns
from grammars.context_free.letters import Letters, letters, split
from grammars.context_free.lr import Mask, State
from grammars.context_free.scans import BREAK_BEGINS, Cut, Lexer, Scan, longer
from grammars.context_free.separators import Separation
from grammars.errors import LimitExceeded
from grammars.memory import remembered
from grammars.regular import (
    ALL,
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

_MOST_LOOKED_AT = 5_000
"""Scans that are looked at to find one in which a terminal wins."""


class Line(NamedTuple):
    """What is known of the line that follows a line break.

    Attributes:
        column: how far it is indented so far; -1 before the first line feed.
        columns: where it may begin; None where the parser has not read the break yet.
        tab: columns of a tab.
    """

    column: int
    columns: Columns | None
    tab: int


class Trial(NamedTuple):
    """A terminal that is being tried.

    Attributes:
        terminal: its number.
        rx: what is left of its texts that are taken whatever follows; NONE if there are none.
        conditional: what is left of others, each with what must follow.
        need: what the rest of the text must be in for the terminal to win (others that matched before did so under a
            condition that must not hold).
        keywords: terminals that are taken instead where the text is theirs: (what is left of it, number).
        viable: whether the parser can go on with it (or drops it), and the keywords with which it can.
        dropped: whether it is ignored, or a line break between parentheses; its keywords are dropped with it.
        line: of a line break of the indenter that the parser reads: what follows it.
    """

    terminal: int
    rx: Rx
    conditional: tuple[tuple[Rx, Rx], ...]
    need: Rx
    keywords: tuple[tuple[Rx, int], ...]
    viable: bool
    viable_keywords: Mask
    dropped: bool = False
    line: Line | None = None


@remembered(1 << 14)
def _longer(rx: Rx, conditional: tuple[tuple[Rx, Rx], ...]) -> Rx:
    """All texts that a trial may still read, but the empty one, each with any rest that lets it match."""
    return union(
        *([concat(longer(rx), ALL)] if rx is not NONE else []),
        *[concat(longer(one), rests) for one, rests in conditional],
    )


@remembered(1 << 14)
def _none_of(languages: tuple[Rx, ...]) -> Rx:
    return complement(union(*languages))


class ContextualLexer(Lexer):
    """The scans of a grammar with contextual lexing."""

    def __init__(
        self,
        tried: Sequence[Sequence[Tried]],
        states: Sequence[State],
        ignored: Mask,
        end: Mask,
        indentation: Indentation | None = None,
        separation: Separation | None = None,
        followers: Sequence[Mask] = (),
    ) -> None:
        """
        Args:
            tried: for each state of the parse table, what is tried, in Lark's order.
            states: the states of the parser's automaton; a list that grows with it.
            ignored: the terminals that are read and dropped.
            end: the bit of the end of the text.
            indentation: the terminals of an indenter; its line breaks are dropped between parentheses.
            separation: how terminals are kept apart; without it a scan counts as live whose terminals end somehow.
            followers: as in `Lexer`.
        """
        between_parentheses = 0 if indentation is None else 1 << indentation.newline
        super().__init__(followers, ignored | between_parentheses)
        self._tried = tried
        self._states = states
        self._ignored = ignored
        self._end = end
        self._indentation = indentation
        self._separation = separation
        self._starts: dict[tuple[int, Mask, bool], Scan] = {}
        self._wins: dict[Scan, bool] = {}
        self._begins: dict[tuple[Trial, ...], Scan] = {}
        self._stepped: dict[Scan, list[tuple[Letters, Scan]]] = {}

    def start(self, state: int) -> Scan:
        """Before the first character of a terminal."""
        here = self._states[state]
        return self._start(here.table, here.viable, here.enclosed)

    def start_in(self, table: int, actions: Iterable[int]) -> Scan:
        """Before the first character, where the parser's table is in a state and goes on with the terminals of `actions`."""
        return self._start(table, sum(self._end if one == END_MARK else 1 << one for one in actions), False)

    def _start(self, table: int, viable: Mask, enclosed: bool) -> Scan:
        """Before the first character, where the parser's table is in a state and can go on with `viable`."""
        tried = self._tried[table]
        key = (id(tried), viable, enclosed)  # many states of the table share their list, which `self._tried` holds
        found = self._starts.get(key)
        if found is None:
            newline, tab, ends = -1, 0, self._end
            if self._indentation is not None:
                ends |= 1 << self._indentation.dedent  # put in at the end of the text for every open block
                newline, tab = self._indentation.newline, self._indentation.tab_len
            drops = self._ignored | (1 << newline if enclosed else 0)
            trials = []
            for one in tried:
                dropped = bool(drops >> one.terminal & 1)
                reads = bool(viable >> one.terminal & 1)
                keywords = () if dropped else one.keywords
                names = sum(1 << number for number in {number for _, number in keywords} if viable >> number & 1)
                line = Line(-1, None, tab) if one.terminal == newline and reads and not dropped else None
                trials.append(
                    Trial(one.terminal, one.rx, one.conditional, ALL, keywords, reads or dropped, names, dropped, line)
                )
            kept = _relevant(trials)
            found = self.scan((kept,) if kept else (), may_end=bool(viable & ends), start=True)
            self._starts[key] = found
        return found

    def other_than_line(self, scan: Scan) -> Scan | None:
        """A scan that begins a line break, if it is none."""
        trials: tuple[Trial, ...] = scan.key[0]  # type: ignore[assignment]
        return self._live([one._replace(viable=False, line=None) if one.line is not None else one for one in trials])

    def line(self, scan: Scan, state: int, blocks: Blocks) -> Scan | None:
        """A scan that begins a line break, once the parser has read it."""
        assert self._indentation is not None
        next_columns = columns(blocks, self._states[state].viable, self._indentation, self._end)
        trials: tuple[Trial, ...] = scan.key[0]  # type: ignore[assignment]
        return self._live([
            one._replace(viable=False, viable_keywords=0) if one.line is None
            else one._replace(line=one.line._replace(columns=next_columns))
            for one in trials
        ])  # fmt: skip

    def _live(self, trials: Sequence[Trial]) -> Scan | None:
        scan = self._after(trials)
        if self._can_win(scan):
            return scan
        return self.scan((), scan.cuts) if scan.cuts else None

    def line_left(self, scan: Scan) -> int | None:
        """Of a scan that is in a line break that the parser has read: the characters that it still takes; else None."""
        trials: Any = scan.key[0] if scan.key else ()
        if scan.line_break or not (
            any(one.line is not None for one in trials) or any(cut.column >= 0 for cut in scan.cuts)
        ):
            return None
        level, seen, length = [scan], {scan}, 0
        while level:
            if any(one.cuts for one in level):
                return length
            level = [after for one in level for _, after in self.moves(one) if after not in seen]
            seen.update(level)
            length += 1
        return None

    def left(self, scan: Scan) -> list[tuple[int, bool, int]]:
        """Terminals that a scan may become and that the parser can go on with: (number, dropped, characters still to come)."""
        trials: Any = scan.key[0] if scan.key else ()
        found = [(cut.terminal, cut.dropped, 0) for cut in scan.cuts]
        for one in trials:
            if one.viable:
                lengths = [
                    shortest_length(rx) or 0 for rx in (one.rx, *(rx for rx, _ in one.conditional)) if rx is not NONE
                ]
                found.append((one.terminal, one.dropped, min(lengths)))
            found += [
                (number, False, shortest_length(rx) or 0)
                for rx, number in one.keywords
                if one.viable_keywords >> number & 1
            ]
        return found

    def _languages(self) -> Iterable[tuple[int, Rx]]:
        lists = {id(tried): tried for tried in self._tried}.values()
        for one in {id(one): one for tried in lists for one in tried}.values():
            own = [one.rx, *(rx for rx, _ in one.conditional)]
            yield from [(one.terminal, rx) for rx in own if rx is not NONE]
            yield from [(number, rx) for rx, number in one.keywords]

    def joined(self, scans: list[Scan]) -> Scan | None:
        """Scans stay apart: what wins in one does not in the other."""
        return scans[0] if len(scans) == 1 else None

    def _moves(self, scan: Scan) -> list[tuple[Letters, Scan]]:
        found = []
        for characters, after in self._steps(scan):
            if after.line_break or self._can_win(after):
                found.append((characters, after))
            elif after.cuts:
                found.append((characters, self.scan((), after.cuts)))
        return found

    def _steps(self, scan: Scan) -> list[tuple[Letters, Scan]]:
        """Characters and the scans after them, whether or not anything can win there."""
        found = self._stepped.get(scan)
        if found is None:
            trials: tuple[Trial, ...] = scan.key[0] if scan.key else ()  # type: ignore[assignment]
            items = [(characters, to) for one in trials for characters, to in _steps(one)]
            found = self._stepped[scan] = [(characters, self._begun_once(steps)) for characters, steps in split(items)]
        return found

    def _begun_once(self, trials: tuple[Trial, ...]) -> Scan:
        """`_begun`, remembered: most states of the parser try the same terminals in the same order."""
        found = self._begins.get(trials)
        if found is None:
            found = self._begins[trials] = self._begun(trials)
        return found

    def _begun(self, trials: Sequence[Trial]) -> Scan:
        """The scan after a character that leads to these; where they may begin a line break, that comes first."""
        if any(one.line is not None and one.line.columns is None for one in trials):
            return self.scan((tuple(trials),), line_break=BREAK_BEGINS)
        return self._after(trials)

    def _after(self, trials: Sequence[Trial]) -> Scan:
        """The scan of these trials: what matches by now, and what may still match."""
        going: list[Trial] = []
        cuts: list[Cut] = []
        need = ALL
        for one in trials:
            if need is not ALL:
                one = one._replace(need=intersect(one.need, need))
                if one.need is NONE or is_empty(one.need):
                    continue
            rests = self._matched(one)
            going.append(one)
            if rests is NONE:
                continue
            terminal = _named(one)
            reads = one.viable if terminal == one.terminal else bool(one.viable_keywords >> terminal & 1)
            column = -1
            if one.line is not None:
                assert one.line.columns is not None
                column = one.line.column
                reads = reads and column >= 0 and one.line.columns.admits(column)
            if reads:
                languages = [_longer(trial.rx, trial.conditional) for trial in going if _goes_on(trial)]
                blocked = _none_of(tuple(languages))
                rest = intersect(rests, one.need, blocked)
                if rest is not NONE and not is_empty(rest):
                    cuts.append(Cut(terminal, rest, column, one.dropped))
            need = intersect(need, complement(rests))
            if need is NONE:
                break
        kept = _relevant([one for one in going if _goes_on(one)])
        return self.scan((kept,) if kept else (), tuple(cuts))

    @staticmethod
    def _matched(one: Trial) -> Rx:
        """The rests with which the text so far is a match."""
        if one.rx.nullable:
            return ALL
        return union(*[rests for rx, rests in one.conditional if rx.nullable])

    def _can_win(self, scan: Scan) -> bool:
        """Whether, going on, some terminal that the parser can go on with may win."""
        if not scan.key:
            return False
        known = self._wins.get(scan)
        if known is not None:
            return known
        trials: tuple[Trial, ...] = scan.key[0]  # type: ignore[assignment]
        first = trials[0]
        if len(trials) == 1 and _has_a_longest(first):
            self._wins[scan] = True
            return True
        if len(trials) > 1 and first.viable and first.line is None and self._can_win(self.scan(((first,),))):
            # what is tried behind the first is of no account where that matches
            self._wins[scan] = True
            return True
        seen: dict[Scan, Scan | None] = {scan: None}
        queue = [scan]
        found = False
        unsure = False
        while queue and not found:
            one = queue.pop()
            for _, after in self._steps(one):
                unsure |= bool(after.cuts)
                if any(map(self._holds, after.cuts)) or after.line_break or self._wins.get(after):
                    found = True
                    step: Scan | None = one
                    while step is not None:
                        self._wins[step] = True
                        step = seen[step]
                    break
                if after.key and after not in seen:
                    seen[after] = one
                    queue.append(after)
                    if len(seen) > _MOST_LOOKED_AT:
                        raise LimitExceeded(
                            f"a terminal needs more than {_MOST_LOOKED_AT} states to be told from those tried before it"
                        )
        if unsure and not found:
            names = ", ".join(sorted({str(cut.terminal) for one in seen for cut in one.cuts}))
            raise LimitExceeded(f"whether a text can go on behind terminals {names} is too hard to tell")
        self._wins[scan] = found
        return found

    def _holds(self, cut: Cut) -> bool:
        """Whether the text can surely go on behind a terminal that ends."""
        return self._separation is None or self._separation.admits(cut.rest, cut)


def _steps(one: Trial) -> list[tuple[Letters, Trial]]:
    """What a character does to a trial."""
    if not one.conditional and not one.keywords and one.need is ALL and one.line is None:
        terminal, _, _, _, _, viable, names, dropped, _ = one
        return [
            (letters(characters), Trial(terminal, to, (), ALL, (), viable, names, dropped))
            for characters, to in moves(one.rx)
        ]
    parts: list[tuple[Letters, tuple[str, int, Rx]]] = [
        (letters(characters), ("rx", 0, to)) for characters, to in moves(one.rx)
    ]
    for number, (rx, _) in enumerate(one.conditional):
        parts += [(letters(characters), ("conditional", number, to)) for characters, to in moves(rx)]
    for number, (rx, _) in enumerate(one.keywords):
        parts += [(letters(characters), ("keyword", number, to)) for characters, to in moves(rx)]
    if one.need is not ALL:
        parts += [(letters(characters), ("need", 0, to)) for characters, to in moves(one.need)]
    found = []
    for characters, values in split(parts):
        after = _stepped(one, values)
        if after is None:
            continue
        if after.line is None:
            found.append((characters, after))
        else:
            found += _lines(characters, after, after.line)
    return found


def _lines(characters: Letters, one: Trial, line: Line) -> list[tuple[Letters, Trial]]:
    """The characters by what they do to the column of the line, as `Indenter.handle_NL` counts it."""
    bits, others = characters
    found: list[tuple[Letters, Trial]] = []
    feed, space, tab = 1 << 0x0A, 1 << 0x20, 1 << 0x09
    for bit, column in ((feed, 0), (space, line.column + 1), (tab, line.column + line.tab)):
        if bits & bit:
            bits &= ~bit
            if line.column < 0 and bit != feed:
                column = -1
            elif line.columns is not None:
                column = line.columns.counted(column)
            found.append(((bit, NONE), one._replace(line=line._replace(column=column))))
    if bits or others is not NONE:
        found.append(((bits, others), one))
    return found


def _stepped(one: Trial, values: tuple[tuple[str, int, Rx], ...]) -> Trial | None:
    rx, need = NONE, ALL if one.need is ALL else NONE
    conditional = []
    keywords = []
    viable_keywords = 0
    for what, number, to in values:
        if what == "rx":
            rx = to
        elif what == "need":
            need = to
        elif what == "conditional":
            conditional.append((to, one.conditional[number][1]))
        else:
            terminal = one.keywords[number][1]
            keywords.append((to, terminal))
            viable_keywords |= one.viable_keywords & 1 << terminal
    if need is NONE or (rx is NONE and not conditional):
        return None
    return Trial(
        one.terminal, rx, tuple(conditional), need, tuple(keywords), one.viable, viable_keywords, one.dropped, one.line
    )


def _has_a_longest(one: Trial) -> bool:
    """Whether the terminal surely wins with the longest of its texts, whatever comes behind that."""
    plain = not one.conditional and not one.keywords and one.need is ALL and one.line is None
    return plain and one.viable and one.rx.high is not None


def _goes_on(one: Trial) -> bool:
    """Whether more may be read of the terminal."""
    return one.rx.high != 0 or bool(one.conditional)


def _named(one: Trial) -> int:
    """The terminal that a match of the text so far is."""
    return next((number for rx, number in one.keywords if rx.nullable), one.terminal)


def _relevant(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """Without those at the end that the parser can do nothing with: they keep none before them from winning."""
    end = len(trials)
    while end and not (trials[end - 1].viable or trials[end - 1].viable_keywords):
        end -= 1
    return tuple(trials[:end])
