"""What frames of objects and of arrays have in common: alternatives, each with its plan, followed beside each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from constrained.automata.children import Progress
from constrained.automata.machine import Machine
from constrained.automata.style import Style
from grammars.json_schema.shapes import Value

ValueStart = Callable[[Machine, Style, tuple[Value, ...]], int]
"""The state before a value: of a machine, a style, and the schemas of which it has to satisfy one."""


class Frame:
    """A frame of alternatives.

    Attributes:
        linked_plan: the kind of plan whose parts depend on one another, so that it may be lost from the start.
        plans: one for each alternative.
        owners: the schema that each alternative belongs to.
    """

    __slots__ = ()

    linked_plan: ClassVar[type[Any]]
    plans: tuple[Any, ...]
    owners: tuple[int, ...]

    def start(self) -> Progress:
        """Progress at the opening bracket or brace."""
        linked = self.linked_plan
        return tuple([
            None if isinstance(plan, linked) and not plan.live(plan.start()) else plan.start() for plan in self.plans
        ])  # fmt: skip

    def complete(self, progress: Progress) -> int:
        """The owners of alternatives that may end here, as a bit set."""
        holds = 0
        for plan, owner, one in zip(self.plans, self.owners, progress, strict=True):
            if one is not None and plan.complete(one):
                holds |= 1 << owner
        return holds


F = TypeVar("F", bound=Frame)


def frame_of(
    machine: Machine,
    kind: Callable[[Style, tuple[Any, ...], ValueStart], F],
    style: Style,
    entries: tuple[tuple[Any, int], ...],
    value_start: ValueStart,
) -> F:
    """The frame of these alternatives, each with its owner: made when they meet for the first time."""
    frames: dict[object, F] = machine.kept((kind, style), dict)
    shape, owner = entries[0]
    key = entries if owner or len(entries) > 1 else shape  # most have one alternative
    frame = frames.get(key)
    if frame is None:
        frame = frames[key] = kind(style, entries, value_start)
    return frame
