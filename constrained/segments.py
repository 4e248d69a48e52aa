"""Grammars in which tokens of the vocabulary itself stand between texts: `[TOOL_CALLS]`, `<|channel|>`.

Such a token is no part of any text, so a sentence is texts with special tokens between, and each text can be matched by
itself: a sequence is followed by threads, one for each text that it may be in, each with what is to come behind it.  Masks are
exact where texts meet special tokens.  Where a repetition or a choice with special tokens in it begins or ends with a text, no
token crosses that border.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

import numpy as np

from constrained.compile import Constraint, compile
from constrained.errors import BudgetError, GrammarError, TokenRejected
from constrained.limits import DEFAULT_LIMITS, Limits
from constrained.matcher import Matcher
from constrained.vocabulary import Vocabulary
from engine.constraint import Row
from grammars import Grammar, OneOf, Reasoning, Regex, Repeat, SpecialToken, ToolCalls
from grammars import Sequence as Parts
from grammars.tool_calls import lowered
from grammars.values import AnyText, Part

_MOST_THREADS = 1_000


def has_special(value: Part) -> bool:
    """Whether a special token stands in the grammar, as far as it is made of sequences, choices and repetitions."""
    value = _plain(value)
    if isinstance(value, SpecialToken):
        return True
    return any(has_special(one) for one in _inside(value))


@dataclass(frozen=True)
class Rest:
    """What is to come: one part, and what comes behind it; `None` is the end."""

    part: Part
    behind: Rest | None


class SegmentedConstraint:
    """A grammar with special tokens, for one vocabulary; as `Constraint`, as far as generation asks."""

    def __init__(self, grammar: Grammar, vocabulary: Vocabulary, limits: Limits = DEFAULT_LIMITS) -> None:
        """
        Raises:
            GrammarError: a token that the vocabulary has not, or what its texts raise.
        """
        self.grammar, self.vocabulary, self.limits = grammar, vocabulary, limits
        self.ends = [int(token) for token in vocabulary.eos_token_ids]
        self._costs: dict[Part, int] = {}
        self.start = Rest(_plain(grammar), None)
        self.cost(self.start)  # what cannot be compiled is said now

    def matcher(self, max_tokens: int | None = None) -> SegmentedMatcher:
        """A new sequence; as `Constraint.matcher`.

        Raises:
            BudgetError: no sentence fits.
        """
        return SegmentedMatcher(self, max_tokens)

    def number(self, token: SpecialToken) -> int:
        """Its id.

        Raises:
            GrammarError: the vocabulary has no such token.
        """
        found = token.number if token.number is not None else self.vocabulary.special_tokens.get(token.name)
        if found is None or found >= self.vocabulary.size:
            raise GrammarError(f"the vocabulary has no special token {token.name or token.number!r}")
        return found

    def text(self, part: Part) -> Constraint:
        """A text without special tokens, compiled."""
        return compile(Parts(part) if isinstance(part, str) else part, self.vocabulary, self.limits)

    def cost(self, rest: Rest | None) -> int:
        """Tokens of a short way through what is to come, the end token included."""
        count = 1
        while rest is not None:
            count += self._cost(rest.part)
            rest = rest.behind
        return count

    def _cost(self, part: Part) -> int:
        if part in self._costs:
            return self._costs[part]
        if isinstance(part, SpecialToken):
            self.number(part)
            cost = 1
        elif not has_special(part):
            cost = len(self.vocabulary.shortest_tokenization(self.text(part).matcher().shortest_completion()) or ())
        elif isinstance(part, OneOf):
            cost = min(self._cost(_plain(one)) for one in part.options)
        elif isinstance(part, Repeat):
            own, between = self._cost(_plain(part.part)), self._cost(_plain(part.separator))
            cost = part.least * own + max(part.least - 1, 0) * between
        else:
            cost = sum(self._cost(one) for one in _merged(_inside(part)))
        self._costs[part] = cost
        return cost


@dataclass
class Thread:
    """One way of reading the sequence so far.

    Attributes:
        matcher: of the text that it is in; `None` before a special token, or at the end.
        token: the special token that comes now, where no text does.
        behind: what comes after.
    """

    matcher: Matcher | None
    token: int | None
    behind: Rest | None


class SegmentedMatcher:
    """One sequence, as `engine.constraint.TokenConstraint` asks for it."""

    def __init__(self, constraint: SegmentedConstraint, max_tokens: int | None) -> None:
        self._constraint, self._max_tokens = constraint, max_tokens
        self._taken = 0
        self._finished = False
        self._threads = self._closed(constraint.start)
        if not self._threads:
            needed = constraint.cost(constraint.start)
            raise BudgetError(
                f"max_tokens={max_tokens} is too small: the grammar needs at least {needed}", needed, max_tokens
            )

    def fill_mask(self, row: Row) -> None:
        """As `Matcher.fill_mask`."""
        row[:] = 0
        if self._finished:
            return
        own = np.zeros_like(row)
        for thread in self._threads:
            if thread.matcher is not None:
                thread.matcher.fill_mask(own)
                for end in self._constraint.ends:
                    own[end // 32] &= ~np.uint32(1 << end % 32)
                row |= own
            elif thread.token is not None:
                row[thread.token // 32] |= np.uint32(1 << thread.token % 32)
        if self.is_accepting():
            for end in self._constraint.ends:
                row[end // 32] |= np.uint32(1 << end % 32)

    def accept(self, token: int) -> None:
        """As `Matcher.accept`."""
        if not self._finished and token in self._constraint.ends and self.is_accepting():
            self._finished = True
            return
        threads: list[Thread] = []
        self._taken += 1
        is_alone = sum(thread.matcher is not None for thread in self._threads) == 1
        for thread in [] if self._finished else self._threads:
            if thread.matcher is not None:
                if token in self._constraint.ends:
                    continue
                after = thread.matcher if is_alone else thread.matcher.fork()
                if after.accept_many([token]):
                    threads.append(Thread(after, None, thread.behind))
                    if after.is_accepting():
                        threads += self._closed(thread.behind)
            elif thread.token == token:
                threads += self._closed(thread.behind)
        if not threads:
            self._taken -= 1
            raise TokenRejected(f"token {token} is not allowed here", token)
        self._threads = threads

    def is_accepting(self) -> bool:
        """Whether the sequence so far is whole."""
        return self._finished or any(
            thread.behind is None and thread.token is None and (thread.matcher is None or thread.matcher.is_accepting())
            for thread in self._threads
        )

    def is_finished(self) -> bool:
        """Whether an end token was accepted."""
        return self._finished

    def _closed(self, rest: Rest | None) -> list[Thread]:
        """The threads that begin what is to come, those that do not fit into the budget left out."""
        found = list(self._begun(rest, frozenset()))
        if len(found) > _MOST_THREADS:
            raise GrammarError(
                f"a grammar with special tokens goes on in {len(found)} ways at once; {_MOST_THREADS} may be"
            )
        return found

    def _begun(self, rest: Rest | None, seen: frozenset[Part]) -> Iterator[Thread]:
        left = None if self._max_tokens is None else self._max_tokens - self._taken
        if rest is None:
            if left is None or left >= 1:
                yield Thread(None, None, None)
            return
        constraint, part, behind = self._constraint, rest.part, rest.behind
        if isinstance(part, SpecialToken):
            if left is None or constraint.cost(behind) + 1 <= left:
                yield Thread(None, constraint.number(part), behind)
        elif not has_special(part):
            yield from self._text(part, behind, left, seen)
        elif isinstance(part, OneOf):
            for one in part.options:
                yield from self._begun(Rest(_plain(one), behind), seen)
        elif isinstance(part, Repeat):
            if part in seen:  # round again without a token: nothing new
                return
            if part.least == 0:
                yield from self._begun(behind, seen | {part})
            if part.most != 0:
                most = None if part.most is None else part.most - 1
                body = part.part if part.separator == "" else Parts(part.separator, part.part)
                again = Repeat(body, max(part.least - 1, 0), most)
                yield from self._begun(Rest(_plain(part.part), Rest(again, behind)), seen | {part})
        else:
            for one in reversed(_merged(_inside(part))):
                behind = Rest(one, behind)
            yield from self._begun(behind, seen)

    def _text(self, part: Part, behind: Rest | None, left: int | None, seen: frozenset[Part]) -> Iterator[Thread]:
        try:
            # Its end token is never drawn where something is to come, so that token is another's.
            budget = None if left is None else left - self._constraint.cost(behind) + 1
            matcher = self._constraint.text(part).matcher(max_tokens=budget)
        except BudgetError:
            return
        yield Thread(matcher, None, behind)
        if matcher.is_accepting() and behind is not None:
            yield from self._begun(behind, seen)


@lru_cache(maxsize=4096)
def _plain(value: Part) -> Part:
    """The value made of sequences, choices, repetitions, special tokens and texts alone."""
    if isinstance(value, ToolCalls):
        return _plain(lowered(value))
    if isinstance(value, Reasoning):
        inside = AnyText(stop=value.end) if isinstance(value.end, str) else AnyText()
        thought = Parts(value.start, inside, value.end, Regex(rf"\n{{0,{value.gap}}}"), value.then)
        return OneOf(thought, value.then) if value.optional else thought
    return value


def _inside(value: Part) -> Sequence[Part]:
    if isinstance(value, Parts):
        return [_plain(one) for one in value.parts]
    if isinstance(value, OneOf):
        return [_plain(one) for one in value.options]
    return [_plain(value.part), _plain(value.separator)] if isinstance(value, Repeat) else []


def _merged(parts: Sequence[Part]) -> list[Part]:
    """The parts with sequences opened, and texts that follow one another as one, so that tokens may cross between them."""
    flat: list[Part] = []
    for one in parts:
        flat += _merged(_inside(one)) if isinstance(one, Parts) and has_special(one) else [one]
    merged: list[Part] = []
    for is_apart, group in groupby(flat, has_special):
        found = [one for one in group if one != ""]
        if is_apart or len(found) < 2:
            merged += found
        else:
            merged.append(Parts(*found))
    return merged


def compile_any(
    grammar: Grammar, vocabulary: Vocabulary, limits: Limits = DEFAULT_LIMITS
) -> Constraint | SegmentedConstraint:
    """The constraint of any grammar, whether special tokens stand in it or not.

    Raises:
        GrammarError: as `compile`; or the vocabulary has not the special token.
    """
    make = SegmentedConstraint if has_special(grammar) else compile
    return make(grammar, vocabulary, limits)
