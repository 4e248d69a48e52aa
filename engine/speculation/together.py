"""How far the rows of one pass look ahead: settled for all of them, since a pass is as wide as its longest row.

If each row chose by itself, one whose text is dictated would make the others wait for fifteen guesses, although they get one
token from the pass.  So the number is the one with the greatest product of all rows' expected tokens per second, which is
proportional fairness (Kelly, "Charging and rate control for elastic traffic", 1997): of sixteen rows, one that expects four
tokens may lengthen the step by a tenth at most, and where all expect as many, they get what each would have chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from engine.speculation.lookahead import Costs
from engine.speculation.speculation import Speculator


def settle(speculators: Sequence[Speculator], rows: int) -> list[int]:
    """How many of its guesses each of these verifies.

    Args:
        speculators: behind `propose`.
        rows: sequences that share the pass; those that guess nothing among them.
    """
    worths = [speculator.worth() for speculator in speculators]
    # Some must not depend on others; what they choose, the pass takes in any case.
    chosen = [
        speculator.own_choice(rows) if worth is None else 0
        for speculator, worth in zip(speculators, worths, strict=True)
    ]
    flexible = [worth for worth in worths if worth is not None]
    if not flexible:
        return chosen
    costs = next(one.costs for one, worth in zip(speculators, worths, strict=True) if worth is not None)
    together = most_for_all(flexible, rows, costs, max(chosen))
    return [own if worth is None else min(together, len(worth) - 1) for own, worth in zip(chosen, worths, strict=True)]


def most_for_all(worths: Sequence[Sequence[float]], rows: int, costs: Costs, least: int = 0) -> int:
    """The number of guesses, `least` or more, with the greatest product of expected tokens per second.

    Args:
        worths: expected tokens with none, one, two, ... guesses, of each row that has some.
        rows: all that share the pass.
        costs: of a pass by its number of tokens.
    """

    def gain(guesses: int) -> float:
        tokens = sum(log(worth[min(guesses, len(worth) - 1)]) for worth in worths)
        return tokens - rows * log(costs.of(rows * (guesses + 1)))

    most = max(len(worth) - 1 for worth in worths)
    return max(range(least, max(least, most) + 1), key=gain)  # the first of equal ones
