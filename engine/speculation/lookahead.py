"""How far to look ahead: how many guesses to make, and how many of them to verify.

With an acceptance probability a_i for the i-th guess, a block of n guesses gives E(n) = 1 + a_1 + a_1·a_2 + ... tokens on
average (Leviathan et al. 2023, section 3.1) and takes C(n + 1) + n·g: a forward pass of n + 1 rows, and g for each guess.
`Adaptive` takes the n with the most tokens for the time, from what was accepted and measured; n = 0, when no block breaks even,
is decoding without speculation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from engine.errors import SpeculationError
from engine.speculation.draft import FORCED, Drafted

MOST_GUESSED = 15
"""Guesses of a block at most; with the token before them 16 rows."""

_FARTHEST = 3
"""Guesses of one source from its fourth on are taken to be alike."""

Lookahead = str | int
"""`"adaptive"`, `"heuristic"`, or a number of guesses."""


class Costs:
    """What a forward pass takes by its number of rows, in passes of one row; shared by all requests.

    Seconds are put in relation to how fast the machine is just now, which is followed over all passes: so somebody else's
    load changes no decision.  A number of rows begins with what `GROWTH` for each row makes of it, which counts as
    `BELIEF` measurements; between and beyond what was measured the nearest ones are followed.

    Attributes:
        seconds: of a pass of one row, lately; 0.0 before the first.
    """

    GROWTH = 0.08
    BELIEF = 3
    FOLLOWING = 0.2
    LEAST_WEIGHT = 0.05
    MOST_SURPRISE = 2.0

    def __init__(self) -> None:
        self.seconds = 0.0
        self._relative: dict[int, tuple[float, int]] = {}

    def record(self, rows: int, seconds: float) -> None:
        """A pass of so many rows took so long."""
        expected, count = self._relative.get(rows, (self.of(rows), 0))
        if not self.seconds:
            self.seconds = seconds / expected
        # One slow pass is more likely somebody else's doing than that of its rows.
        found = min(seconds / self.seconds, self.MOST_SURPRISE * expected)
        if rows > 1:
            weight = max(self.LEAST_WEIGHT, 1 / (count + 1 + self.BELIEF))
            expected = max(1.0, expected + weight * (found - expected))
        # A new dict, since other threads may be going through this one.
        self._relative = {**self._relative, rows: (expected, count + 1)}
        self.seconds += self.FOLLOWING * (self.seconds * found / expected - self.seconds)

    def of(self, rows: int) -> float:
        """Passes of one row that a pass of so many takes; more rows never take less."""
        relative = self._relative
        known = sorted(relative)
        below = [other for other in known if other <= rows]
        above = next((other for other in known if other > rows), None)
        if not below:
            below, low = [1], 1.0
        else:
            low = max(relative[other][0] for other in below)
        if below[-1] == rows:
            return low
        if above is None:
            return low * self.nominal(rows) / self.nominal(below[-1])
        share = (rows - below[-1]) / (above - below[-1])
        return low + max(0.0, relative[above][0] - low) * share

    @classmethod
    def nominal(cls, rows: int) -> float:
        """The same without any measurement."""
        return 1.0 + cls.GROWTH * (rows - 1)


class NominalCosts(Costs):
    """Costs that never depend on the clock, for requests whose text depends on the lengths of their drafts."""

    def record(self, rows: int, seconds: float) -> None:
        """Nothing is learned."""


@dataclass
class Acceptance:
    """How often the guesses of one source hold, lately.

    It begins with hope; a source that is not worth trying is forgotten slowly, and so tried again after a while, which is
    twice as long each time that it fails again.
    """

    HOPE = 0.8
    FORCED_HOPE = 0.97
    LEARNING = 0.25
    FORGETTING = 0.01
    SLOWEST = 4

    rate: float = HOPE
    hope: float = HOPE
    patience: int = 1
    waited: bool = False

    def observe(self, held: bool) -> None:
        """A guess held, or did not."""
        self.rate += self.LEARNING * (held - self.rate)
        if held:
            self.patience = 1
        elif self.waited:
            self.patience = min(self.SLOWEST, 2 * self.patience)
        self.waited = False

    def forget(self) -> None:
        """A guess was not tried."""
        self.rate += self.FORGETTING / self.patience * (self.hope - self.rate)
        self.waited = True


class Pace(Protocol):
    """Decides for one request."""

    def most(self, rows: int) -> int:
        """Guesses to ask for in this step; `rows`: sequences that share the forward pass."""

    def keep(self, draft: Sequence[Drafted], rows: int) -> int:
        """How much of a draft to verify."""

    def observe(self, draft: Sequence[Drafted], accepted: int, drafted: int, seconds: float) -> None:
        """A block's first `accepted` guesses held; `drafted` guesses were made in `seconds`."""


class Constant:
    """Always so many guesses."""

    def __init__(self, guesses: int) -> None:
        self.guesses = guesses

    def most(self, rows: int) -> int:
        return self.guesses

    def keep(self, draft: Sequence[Drafted], rows: int) -> int:
        return len(draft)

    def observe(self, draft: Sequence[Drafted], accepted: int, drafted: int, seconds: float) -> None:
        """Nothing changes."""


class Heuristic(Constant):
    """Two guesses more after a block that held, one fewer after one that did not."""

    def __init__(self, guesses: int = 4) -> None:
        super().__init__(guesses)

    def observe(self, draft: Sequence[Drafted], accepted: int, drafted: int, seconds: float) -> None:
        if any(one.source != FORCED for one in draft):
            change = 2 if accepted == len(draft) else -1
            self.guesses = min(MOST_GUESSED, max(1, self.guesses + change))


class Adaptive:
    """The most tokens for the time.

    Attributes:
        acceptance: by source and place (`_kinds`).
    """

    def __init__(
        self, costs: Costs, guess_cost: float, source: str, acceptance: Mapping[str, Acceptance] | None = None
    ) -> None:
        """
        Args:
            costs: of the target's forward passes.
            guess_cost: what a guess of the proposer takes, in passes of one row, before it is measured.
            source: of the proposer's guesses that cost something.
            acceptance: what was found out before, to begin with.
        """
        self._costs, self._guess_cost, self._source = costs, guess_cost, source
        self._measures = not isinstance(costs, NominalCosts)
        self._measured = 0
        self.acceptance = {kind: replace(known) for kind, known in (acceptance or {}).items()}

    def most(self, rows: int) -> int:
        if not self._guess_cost:
            return MOST_GUESSED
        kinds = _kinds([Drafted(-1, self._source)] * MOST_GUESSED)
        best = self._best(kinds, rows, self._guess_cost)
        if best == 0:
            self._of(kinds[0]).forget()
        return best

    def keep(self, draft: Sequence[Drafted], rows: int) -> int:
        return self._best(_kinds(draft), rows, 0.0)

    def worth(self, draft: Sequence[Drafted]) -> list[float]:
        """Expected tokens of a step with none, one, two, ... of the guesses: [len(draft) + 1]."""
        held, tokens = 1.0, [1.0]
        for kind in _kinds(draft):
            held *= self._of(kind).rate
            tokens.append(tokens[-1] + held)
        return tokens

    def cut(self, draft: Sequence[Drafted], count: int) -> None:
        """Only the first `count` are tried."""
        if count < len(draft):
            self._of(_kinds(draft)[count]).forget()

    def observe(self, draft: Sequence[Drafted], accepted: int, drafted: int, seconds: float) -> None:
        for at, kind in enumerate(_kinds(draft)):
            if at <= accepted:
                self._of(kind).observe(at < accepted)
        if self._measures and drafted and self._guess_cost and self._costs.seconds:
            each = min(seconds / drafted / self._costs.seconds, Costs.MOST_SURPRISE * self._guess_cost)
            self._measured += 1
            self._guess_cost += (each - self._guess_cost) / min(4, 1 + self._measured)

    def _of(self, kind: str) -> Acceptance:
        return self.acceptance.setdefault(kind, Acceptance(_hope(kind), _hope(kind)))

    def _best(self, kinds: Sequence[str], rows: int, guess: float) -> int:
        """The n with the most tokens for the time of a step that other sequences take part in alike."""
        held = tokens = 1.0
        best, best_rate = 0, 1.0 / (self._costs.of(rows) / rows)
        for n, kind in enumerate(kinds, 1):
            held *= self._of(kind).rate
            tokens += held
            rate = tokens / (self._costs.of(rows * (n + 1)) / rows + n * guess)
            if rate > best_rate:
                best, best_rate = n, rate
        return best


def _hope(kind: str) -> float:
    return Acceptance.FORCED_HOPE if kind.startswith(f"{FORCED}.") else Acceptance.HOPE


def _kinds(draft: Sequence[Drafted]) -> list[str]:
    """Each guess by its source and how far it goes beyond that source's first, as acceptance is counted."""
    kinds, run = [], 0
    for at, drafted in enumerate(draft):
        run = run + 1 if at and draft[at - 1].source == drafted.source else 0
        kinds.append(f"{drafted.source}.{min(run, _FARTHEST)}")
    return kinds


def check_lookahead(lookahead: object) -> None:
    """
    Raises:
        SpeculationError: nothing that `Speculation` takes.
    """
    if lookahead in ("adaptive", "heuristic"):
        return
    if isinstance(lookahead, int) and not isinstance(lookahead, bool) and 1 <= lookahead <= MOST_GUESSED:
        return
    raise SpeculationError(
        f"lookahead={lookahead!r} is not accepted; pass 'adaptive', 'heuristic' or a number of guesses, 1 to {MOST_GUESSED}"
    )
