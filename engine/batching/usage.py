"""What a batch engine reports of itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """What is in use at one moment, and what was done until then.

    Attributes:
        running, waiting: sequences in the batch, and those that wait for room.
        max_sequences: most that run at a time.
        blocks: blocks of keys and values in all, of `block_size` positions each.
        used_blocks: those that running sequences hold, each counted once.
        kept_blocks: those that nobody holds and that are kept for prompts which begin like what they hold.
        promised_blocks: those that running sequences do not hold yet and may still take.
        slots: positions that running sequences have computed.
        steps, forwards: steps and forward passes so far.
        preemptions: how often a sequence had to give its blocks back so far.
    """

    running: int
    waiting: int
    max_sequences: int
    blocks: int
    used_blocks: int
    kept_blocks: int
    promised_blocks: int
    block_size: int
    slots: int
    steps: int
    forwards: int
    preemptions: int

    @property
    def filled(self) -> float:
        """Share of the held blocks' positions that is computed; above 1 where sequences share blocks."""
        held = self.used_blocks * self.block_size
        return self.slots / held if held else 0.0
