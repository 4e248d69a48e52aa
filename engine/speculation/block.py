"""A block: a draft, the target's logits at its positions, and how far it has been gone through.

The forward pass takes the pending tokens and the whole draft.  Then the positions are drawn one after the other, each with
the processors and the mask of what was kept before it, exactly as without a draft; as long as the token drawn is the one
guessed, the logits of the next position are there already.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from engine.constraint import Row
from engine.sampling.coupling import Guess
from engine.speculation.draft import Drafted


class Block:
    """One draft on its way.

    Attributes:
        draft: the guesses.
        accepted: how many of them have come true.
        was_open: whether it has been through the target.
    """

    def __init__(self, draft: Sequence[Drafted] = (), rows: Sequence[Row] = ()) -> None:
        self.draft = tuple(draft)
        self._rows = list(rows)
        self._logits: Tensor | None = None
        self.accepted = 0
        self.was_open = False

    @property
    def tokens(self) -> list[int]:
        return [drafted.token_id for drafted in self.draft]

    @property
    def is_open(self) -> bool:
        """Whether logits are at hand for the next draw."""
        return self._logits is not None

    def open(self, logits: Tensor) -> None:
        """`logits`: [len(draft) + 1, vocab], before each guess and after the last."""
        self._logits, self.was_open = logits, True

    @property
    def logits(self) -> Tensor:
        """[1, vocab], for the next draw."""
        assert self._logits is not None
        return self._logits[self.accepted : self.accepted + 1]

    @property
    def guess(self) -> Guess | None:
        """The guess that the next draw may come out as, if it was drawn."""
        return self.draft[self.accepted].guess if self.accepted < len(self.draft) else None

    def take(self, token: int) -> Row | None:
        """The next draw came out as `token`; the mask behind it, where the token is the one guessed and has one.

        Otherwise the block is closed.
        """
        if self.accepted < len(self.draft) and self.draft[self.accepted].token_id == token:
            self.accepted += 1
            return self._rows[self.accepted] if self._rows else None
        self.close()
        return None

    def close(self) -> None:
        """No more draws from it."""
        self._logits = None
