"""All that the engine knows of a constraint.

A constraint belongs to one sequence and moves with it.  It says which tokens may come next, as a row of bits, and takes
the token that was drawn.  How it knows is its own business; anything with these methods will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Row = NDArray[np.uint32]


@runtime_checkable
class TokenConstraint(Protocol):
    """What every constraint can do."""

    def fill_mask(self, row: Row) -> None:
        """Write the allowed tokens into `row`, uint32[ceil(vocab_size/32)]: token i is bit i%32 of word i//32.

        End tokens are among them exactly where the text so far is a sentence.
        """

    def accept(self, token: int) -> None:
        """Move on by a token; one that is not allowed raises and changes nothing."""

    def is_accepting(self) -> bool:
        """Whether the text so far is a sentence."""

    def is_finished(self) -> bool:
        """Whether an end token was accepted."""


@runtime_checkable
class SpeculativeConstraint(TokenConstraint, Protocol):
    """What a constraint needs besides for tokens to be guessed ahead and taken back."""

    def rollback(self, count: int) -> None:
        """Take back the last `count` tokens that were accepted."""

    def masks_ahead(self, tokens: Sequence[int], rows: Row) -> None:
        """Fill `rows` [len(tokens) + 1, words] with the masks before each of `tokens` and after the last; stay put."""

    def forced_tokens(self) -> list[int]:
        """The tokens that are dictated from here, as far as they are."""


def can_go_back(constraint: TokenConstraint | None) -> TypeGuard[SpeculativeConstraint]:
    """Whether tokens can be guessed ahead under a constraint; asked at every step, where the protocol itself takes long."""
    return constraint is not None and _goes_back(type(constraint))


@cache
def _goes_back(kind: type) -> bool:
    return issubclass(kind, SpeculativeConstraint)


@runtime_checkable
class ForkableConstraint(TokenConstraint, Protocol):
    """A constraint that several continuations of one text can have each for itself."""

    def fork(self) -> Self:
        """Another one in the same state, independent of this one."""


@runtime_checkable
class BatchConstraint(TokenConstraint, Protocol):
    """A constraint of which many are asked in one call."""

    @staticmethod
    def fill_rows(constraints: Sequence[Any], rows: Row) -> Sequence[int]:
        """Write the allowed tokens of those of `constraints`, all of this class, that know them without working them out,
        each into its row of `rows` [n, words]; quick, and never an error.

        Returns:
            The places of the others, which are then asked one by one.
        """


class DeviceRows(Protocol):
    """The masks of a batch, on the device of the logits already or on their way there."""

    def apply_(self, logits: Tensor) -> Tensor:
        """Put `-inf` where a mask forbids, in place; `logits` [batch, vocab]; nothing waits for the device."""

    def __getitem__(self, places: slice, /) -> DeviceRows:
        """A part of the batch."""


@runtime_checkable
class DeviceConstraint(TokenConstraint, Protocol):
    """A constraint whose masks devices keep, so that a step sends a number in place of a mask."""

    @staticmethod
    def device_rows(constraints: Sequence[Any], masks: Sequence[Row | None], device: torch.device) -> DeviceRows:
        """The masks of a batch on `device`.

        Args:
            constraints: one for each sequence, all of this class; None for those without.
            masks: the mask of each constraint as `fill_mask` has just written it; None for those without.
        """
