"""A request of the front door, ready for either engine: one sequence alone, or one of a batch."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypedDict

from constrained.streaming import Decoding
from engine.constraint import TokenConstraint
from engine.generation import CancelToken
from engine.sampling import Sampling
from engine.speculation.speculation import Speculation


class EngineArguments(TypedDict):
    """What `engine.generate` and `EngineLoop.submit` take besides the prompt."""

    sampling: Sampling | None
    constraint: TokenConstraint | None
    max_new_tokens: int
    eos_token_ids: tuple[int, ...] | None
    cancel: CancelToken | None
    speculation: Speculation | None
    group: Hashable


@dataclass(frozen=True, eq=False)
class TextRequest:
    """Everything that could be refused beforehand has been; used for one generation.

    Attributes:
        ids: the prompt's tokens.
        arguments: for the engine.
        decoding: turns its tokens into text.
        parse: reads and checks the finished text; `None` leaves it a text.
    """

    ids: list[int]
    arguments: EngineArguments
    decoding: Decoding
    parse: Callable[[str], Any] | None
