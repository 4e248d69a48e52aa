"""One context-free grammar, ready to be parsed: its automaton, its sets of stacks, its lexer, and the outcomes of its frames."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import NamedTuple

from constrained.automata.context_free.hypotheses import (
    AT_END,
    FIRST_OUTCOME,
    Ended,
    Hypothesis,
    Outcome,
    Plain,
    Terminated,
)
from grammars.context_free.completing import Completing
from grammars.context_free.contextual import ContextualLexer
from grammars.context_free.finishing import FAR, Finishing
from grammars.context_free.grammar import Embedded, Rule, SpecialToken
from grammars.context_free.letters import Letters, letters, split
from grammars.context_free.prepared import Prepared
from grammars.context_free.scans import EveryLexer, Lexer, Scan
from grammars.context_free.stacks import Advanced, Pending, Stacks
from grammars.context_free.tabled import TableCompleting
from grammars.errors import GrammarError, LimitExceeded, UnsupportedFeature
from grammars.regular import ALL, NONE, Rx, derivative, intersect, is_empty, moves, shortest_length

_MANY = 4
"""Sets of characters that only one of several hypotheses reads, from which on it is followed apart."""
_MOST_LOOKED_AT = 2_000
"""Pairs of a scan and a condition on the rest that one question looks at."""


class Readings(NamedTuple):
    """What several scans read side by side.

    Attributes:
        sets: disjoint sets of characters, each with what they lead to: the number of a scan, the scan after it, what the rest
            must be in then.
        alone: scans that read many sets of ASCII characters which no other reads: by number, the characters as bits.
    """

    sets: list[tuple[Letters, tuple[tuple[int, Scan, Rx], ...]]]
    alone: dict[int, int]


def _unknown(terminal: int) -> bytes:
    raise AssertionError("nothing is read before the start is made")


class Parser:
    """What the states of one grammar share; compared by identity.

    Attribute `begins` says with which bytes a terminal begins that is a grammar of its own.
    """

    def __init__(self, prepared: Prepared) -> None:
        self.grammar = grammar = prepared.grammar
        self.end = len(grammar.terminals)
        self.automaton = prepared.automaton()
        self.stacks = Stacks(self.automaton)
        self.ignored = grammar.ignored
        self.newline = self.indent = self.dedent = -1
        if grammar.indentation is not None:
            self.newline = grammar.indentation.newline
            self.indent, self.dedent = grammar.indentation.indent, grammar.indentation.dedent
        self.embedded = {
            number: one.language.grammar
            for number, one in enumerate(grammar.terminals)
            if isinstance(one.language, Embedded)
        }
        self.special = {
            number: one.language
            for number, one in enumerate(grammar.terminals)
            if isinstance(one.language, SpecialToken)
        }
        self.begins: Callable[[int], bytes] = _unknown
        self.separation = prepared.separation
        self.lexer = self._lexer(prepared)
        self.decide = self._decision(dict(prepared.rules))
        self.outcomes: list[Outcome] = []
        self._plain: list[Plain | None] = []
        self._left_with: dict[tuple[Terminated, Pending], int] = {}
        self._numbers: dict[Hashable, int] = {}
        self._readings: dict[tuple[tuple[tuple[Scan, Rx], ...], int], Readings] = {}
        self._fits: dict[tuple[Scan, Rx], Rx] = {}
        self.live: dict[Hypothesis, bool] = {}
        self._advanced: dict[tuple[int, int], Advanced] = {}
        self.at_end = self.outcome(AT_END)

    def _lexer(self, prepared: Prepared) -> Lexer:
        grammar, automaton = self.grammar, self.automaton
        if grammar.lexing == "contextual":
            if grammar.lalr is None:
                raise GrammarError("contextual lexing needs the parse table of the grammar")
            ignored = sum(1 << number for number in grammar.ignored)
            return ContextualLexer(
                prepared.tried, automaton.states, ignored, automaton.end, grammar.indentation,
                self.separation, prepared.followers,
            )  # fmt: skip
        entries: list[tuple[tuple[int, Rx, Rx], ...]] = []
        for number, one in enumerate(grammar.terminals):
            if not isinstance(one.language, Rx):
                entries.append(())
                continue
            own = [(number, one.language, ALL)] if one.language is not NONE else []
            entries.append((*own, *[(number, rx, rests) for rx, rests in one.conditional]))
        ignored_terminals = grammar.ignored if grammar.lexing == "every" else frozenset[int]()
        return EveryLexer(
            entries, ignored_terminals, automaton, tuple(self.embedded), tuple(self.special), prepared.followers
        )

    def _decision(self, rules: dict[int, Rule]) -> Callable[[int, Scan, Rx], bool] | None:
        """What decides whether stacks have a completion; None where nothing does."""
        lexer, table = self.lexer, self.grammar.lalr
        if isinstance(lexer, EveryLexer):
            return Completing(self.automaton, self.stacks, lexer, self._enters).lives
        if self.grammar.indentation is not None:
            return None
        assert table is not None and isinstance(lexer, ContextualLexer)
        shapes = {number: (len(rule.symbols), rule.origin) for number, rule in rules.items()}
        return TableCompleting(table, shapes, self.stacks, lexer).lives

    def _enters(self, terminal: int, rest: Rx) -> bool:
        """Whether a terminal that is a grammar of its own may be read where the text must be in `rest`.

        Raises:
            UnsupportedFeature: its first character does not say.
        """
        if terminal in self.special:
            return rest.nullable
        return bool(self.entered(terminal, rest))

    def entered(self, terminal: int, rest: Rx) -> bytes:
        """The first bytes with which a grammar of its own may be entered where the text must be in `rest`.

        Raises:
            UnsupportedFeature: a condition on the text reaches further into it than its first character.
        """
        begins = self.begins(terminal)
        if rest is ALL:
            return begins
        found = []
        for byte in begins:
            left = derivative(rest, byte) if byte < 0x80 else None
            if left is ALL:
                found.append(byte)
            elif left is None or not is_empty(left):
                raise UnsupportedFeature(
                    f"a terminal before {self.grammar.terminals[terminal].name} looks further ahead than its first "
                    "character; put something between them"
                )
        return bytes(found)

    def outcome(self, value: Outcome) -> int:
        """The number of an outcome."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = FIRST_OUTCOME + len(self.outcomes)
            self.outcomes.append(value)
            self._plain.append(self._plainly(value))
        return number

    def left_with(self, last: Terminated, reduction: Pending) -> int:
        """The number of the outcome of one terminal that has ended and asks for a reduction further below."""
        number = self._left_with.get((last, reduction))
        if number is None:
            number = self.outcome(Outcome(ended=frozenset((Ended(last, reduction),))))
            self._left_with[last, reduction] = number
        return number

    def plain(self, number: int) -> Plain | None:
        """What an outcome comes to, if it is one terminal that has ended for good; None where there is more to it."""
        return self._plain[number - FIRST_OUTCOME]

    def _plainly(self, value: Outcome) -> Plain | None:
        if value.scan is not None or value.hypotheses or value.ends or self.separation is None:
            return None
        if len(value.cuts) + len(value.ended) != 1:
            return None
        if value.cuts:
            (cut,) = value.cuts
            if cut.rest is not ALL or cut.column >= 0 or cut.terminal in self.embedded:
                return None
            return Plain(Terminated(cut.terminal), None, cut.dropped)
        ((last, reduction),) = value.ended
        if last.rest is not ALL or last.column >= 0 or last.closes or last.line is not None:
            return None
        return Plain(last, reduction)

    def value(self, number: int) -> Outcome:
        """The outcome of this number."""
        return self.outcomes[number - FIRST_OUTCOME]

    @cached_property
    def finishing(self) -> Finishing:
        """What stacks need at least to be finished."""
        sizes = []
        for number, one in enumerate(self.grammar.terminals):
            if not isinstance(one.language, Rx):
                sizes.append(1)
                continue
            languages = [one.language, *(rx for rx, _ in one.conditional)]
            lengths = [length for rx in languages if (length := shortest_length(rx)) is not None]
            inserted = number in (self.indent, self.dedent)
            sizes.append(0 if inserted else min(lengths, default=FAR))
        return Finishing(self.stacks, sizes)

    def advanced(self, node: int, terminal: int) -> Advanced:
        """What a terminal leads to from one node, remembered."""
        found = self._advanced.get((node, terminal))
        if found is None:
            found = self._advanced[node, terminal] = self.stacks.advance(terminal, (node,))
        return found

    def first(self) -> Hypothesis:
        """Before the first character."""
        return Hypothesis(self.stacks.node(0, ()), self.lexer.start(0), ALL)

    def readings(self, ways: tuple[tuple[Scan, Rx], ...], before: int = 0) -> Readings:
        """Disjoint sets of characters, and which of some scans read them where the text must be in what stands beside it.

        Args:
            before: ASCII characters, as bits, that alone are asked about; 0: all characters.
        """
        found = self._readings.get((ways, before))
        if found is None:
            items: list[tuple[Letters, tuple[int, Scan | Rx]]] = []
            for number, (scan, rest) in enumerate(ways):
                items += [(characters, (number, to)) for characters, to in self.lexer.moves(scan)]
                if rest is not ALL:
                    items += [(letters(characters), (number, to)) for characters, to in moves(rest)]
            if before:
                items = [((bits & before, NONE), value) for (bits, _), value in items if bits & before]
            sets = []
            alone: dict[int, list[int]] = {}
            for characters, values in split(items):
                after: list[tuple[int, Scan, Rx]] = []
                read: tuple[int, Scan] | None = None
                for number, to in values:  # of a scan, what it reads comes before what the rest must be in
                    if not isinstance(to, Scan):
                        if read is not None and read[0] == number:
                            after.append((number, read[1], to))
                    elif ways[number][1] is ALL:
                        after.append((number, to, ALL))
                    else:
                        read = number, to
                if not after:
                    continue
                sets.append((characters, tuple(after)))
                if characters[0] and len(after) == 1 and after[0][2] is ALL:
                    alone.setdefault(after[0][0], []).append(characters[0])
            many = {number: sum(own) for number, own in alone.items() if len(own) >= _MANY}
            found = self._readings[ways, before] = Readings(sets, many)
        return found

    def fitting(self, scan: Scan, rest: Rx) -> Rx:
        """`rest`, or ALL where it forbids nothing that the scan can read, or NONE where no text goes on with both.

        Raises:
            LimitExceeded: that is too hard to tell.
        """
        known = self._fits.get((scan, rest))
        if known is None:
            free, some = True, False
            for _, left in self.lexer.joint_moves(scan, rest):
                some |= left is not NONE
                free &= left is ALL
            if scan.may_end:
                some |= rest.nullable
                free &= rest.nullable
            for number in scan.embedded:
                some |= self._enters(number, rest)
                free &= rest.nullable if number in self.special else self.entered(number, rest) == self.begins(number)
            if free:
                known = ALL
            else:
                known = rest if some and (self.separation is None or self._goes_on(scan, rest)) else NONE
            self._fits[scan, rest] = known
        return known

    def _goes_on(self, scan: Scan, rest: Rx) -> bool:
        """Whether there is a text that the scan can read and the rest allows, behind which every sentence can be written."""
        assert self.separation is not None
        seen = {(scan, rest)}
        queue = [(scan, rest)]
        unsure = False
        while queue:
            one, left = queue.pop()
            if left is ALL or (one.may_end and left.nullable):
                return True
            for cut in one.cuts:
                both = intersect(left, cut.rest)
                if self.separation.admits(both, cut):
                    return True
                unsure |= both is not NONE and not is_empty(both)
            if one.line_break:
                unsure = True
                continue
            for after in self.lexer.joint_moves(one, left):
                if after[1] is not NONE and after not in seen:
                    seen.add(after)
                    queue.append(after)
                    if len(seen) > _MOST_LOOKED_AT:
                        raise LimitExceeded(f"whether a text can go on needs more than {_MOST_LOOKED_AT} steps to tell")
        if unsure:
            raise LimitExceeded(
                "whether a text can go on where a terminal ends before a longer match is too hard to tell"
            )
        return False
