"""What frames of objects and of arrays have in common: alternatives, each with its plan, followed beside each other."""

from __future__ import annotations

from typing import Any, ClassVar

from constrained.automata.children import Progress


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
