"""Several proposers, each going on where the ones before it have nothing more to say."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from engine.speculation.draft import Frontier
from engine.speculation.proposer import Drafter, Proposer


class Combined:
    """Asks its parts in turn, and the first again after each that had a guess, until none has.

    So `forced+ngram` is the grammar's tokens, then what followed them in the prompt, then what the grammar dictates behind
    that.
    """

    def __init__(self, parts: Sequence[Proposer]) -> None:
        self.parts = tuple(parts)
        self.name = "+".join(part.name for part in parts)
        self.cost = max(part.cost for part in parts)
        self.draws = any(part.draws for part in parts)
        self.wants_state = any(part.wants_state for part in parts)

    def begin(self, prompt: Sequence[int], group: Hashable = None) -> Drafter:
        return _CombinedDrafter([part.begin(prompt, group) for part in self.parts])


class _CombinedDrafter:
    def __init__(self, parts: Sequence[Drafter]) -> None:
        self._parts = parts

    def propose(self, frontier: Frontier, most: int) -> None:
        turn, last = 0, -1
        while turn < len(self._parts) and frontier.room > 0:
            before = len(frontier.draft)
            # A part that was the last to guess has said what it had to say.
            if turn != last:
                self._parts[turn].propose(frontier, max(0, most - frontier.guessed))
            if len(frontier.draft) > before:
                turn, last = 0, turn
            else:
                turn += 1

    def close(self, output: Sequence[int]) -> None:
        for part in self._parts:
            part.close(output)
