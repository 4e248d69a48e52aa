"""The masks of one step of a batch, where the logits are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from constrained.device.apply import UNCONSTRAINED, apply_rows
from constrained.device.mirror import TableMirror
from constrained.device.transfer import send

if TYPE_CHECKING:
    from constrained.masks.row_table import RowTable
    from constrained.matcher import Matcher


class _Part(NamedTuple):
    """Rows of one tensor, and which of them each sequence of the batch is held to."""

    rows: Tensor
    numbers: Tensor


class BatchRows:
    """What a batch may draw next: row numbers and, where a mask is no row of a table, the mask itself.

    It is made of copies that the host does not wait for; applying it is one kernel for each table in use (constraints
    on one vocabulary share theirs).  `engine.sampling.DeviceRows` is the protocol that it follows.
    """

    def __init__(self, parts: Sequence[_Part], batch: int) -> None:
        self._parts = tuple(parts)
        self._batch = batch

    @classmethod
    def of(
        cls, matchers: Sequence[Matcher | None], masks: Sequence[NDArray[np.uint32] | None], device: torch.device
    ) -> BatchRows:
        """The rows of `matchers`, one for each sequence; None is a sequence without a constraint.

        Args:
            masks: the filled mask of each sequence that has a matcher: sent where the matcher's mask is its own (near a
                budget, after the end).
        """
        tables: dict[RowTable, NDArray[np.int32]] = {}
        own: list[NDArray[np.uint32]] = []
        own_numbers = _free(len(matchers))
        for place, (matcher, mask) in enumerate(zip(matchers, masks, strict=True)):
            if matcher is None:
                continue
            found = matcher.shared_row()
            if found is not None:
                table, number = found
                tables.setdefault(table, _free(len(matchers)))[place] = number
            elif mask is not None:
                own_numbers[place] = len(own)
                own.append(mask)
            else:
                raise ValueError(f"sequence {place} has a constraint and no mask")
        parts = [
            _Part(TableMirror.of(table, device).rows(), send(numbers, device)) for table, numbers in tables.items()
        ]
        if own:
            parts.append(_Part(send(np.stack(own).view(np.int32), device), send(own_numbers, device)))
        return cls(parts, len(matchers))

    def apply_(self, logits: Tensor) -> Tensor:
        """Put `-inf` where the masks forbid, in place; see `apply_rows`."""
        if logits.shape[0] != self._batch:
            raise ValueError(f"logits {list(logits.shape)} for a batch of {self._batch}")
        for part in self._parts:
            apply_rows(logits, part.rows, part.numbers)
        return logits

    def __len__(self) -> int:
        return self._batch

    def __getitem__(self, places: slice) -> BatchRows:
        """The part of the batch that a slice names."""
        batch = len(range(self._batch)[places])
        return BatchRows([_Part(part.rows, part.numbers[places]) for part in self._parts], batch)


def _free(batch: int) -> NDArray[np.int32]:
    return np.full(batch, UNCONSTRAINED, dtype=np.int32)
