"""Random numbers by counter: the uniform of a step is a hash of the request's seed and the step.

Nothing is carried from step to step, so a sequence draws the same numbers alone or in any batch, on any device, and
after a rollback.  The hash is SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number
generators").
"""

from __future__ import annotations

import secrets

MASK = 2**64 - 1
GOLDEN_GAMMA = 0x9E3779B97F4A7C15
MULTIPLIERS = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""Of the hash, with `GOLDEN_GAMMA`."""

DRAW_LANE, ACCEPT_LANE, GUESS_LANE = range(3)
"""The numbers of a step: for the draw from the target, for keeping a guess, for drawing the guess itself."""


def fresh_seed() -> int:
    """A seed for a request that names none."""
    return secrets.randbits(64)


def uniform(seed: int, step: int, lane: int = 0) -> float:
    """A number in [0, 1 - 2**-48], the same for the same arguments.

    Args:
        seed: 0 to 2**64 - 1.
        step: 0-based index of the token.
        lane: for steps that need more than one number.
    """
    state = mix((mix((mix(seed) + step * GOLDEN_GAMMA) & MASK) + lane * GOLDEN_GAMMA) & MASK)
    return (state >> 16) * 2.0**-48


def mix(state: int) -> int:
    """The hash of a number of 64 bits."""
    state = (state + GOLDEN_GAMMA) & MASK
    state = ((state ^ (state >> 30)) * MULTIPLIERS[0]) & MASK
    state = ((state ^ (state >> 27)) * MULTIPLIERS[1]) & MASK
    return state ^ (state >> 31)
