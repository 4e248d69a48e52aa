"""What can go wrong between logits and a token."""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import EngineError


class SamplingError(EngineError, ValueError):
    """A `Sampling` field, or a token id in one, that is out of range; names the field, the value and the range."""


class InvalidLogits(EngineError):
    """The model produced NaN.

    Attributes:
        step: 0-based index of the token being drawn.
        row: 0-based row of the batch.
    """

    def __init__(self, step: int, row: int) -> None:
        super().__init__(
            f"the logits of row {row} contain NaN at step {step}: the forward pass is at fault "
            "(weights that do not fit the architecture, or an overflow in half precision; try dtype='float32')"
        )
        self.step = step
        self.row = row

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.step, self.row))


class EmptyRow(EngineError):
    """No token is left to draw, and the policy `on_empty` gives no way out.

    Attributes:
        step: 0-based index of the token being drawn.
        row: 0-based row of the batch.
        rules: what was in force, in the order in which it gave way, for example
            `("no_repeat_ngram", "banned_tokens", "constraint")`; `"logits"` where the model itself left nothing.
    """

    def __init__(self, step: int, row: int, rules: Sequence[str], remedy: str) -> None:
        super().__init__(f"no token is left in row {row} at step {step} under {' + '.join(rules)}: {remedy}")
        self.step = step
        self.row = row
        self.rules = tuple(rules)
        self.remedy = remedy

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.step, self.row, self.rules, self.remedy))
