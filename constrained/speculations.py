"""The speculations of one model, by the options that ask for them; made once, so that requests learn from each other."""

from __future__ import annotations

from threading import Lock

from constrained.options import EngineOptions
from engine.model import Model
from engine.speculation.lookahead import Costs, Lookahead
from engine.speculation.names import make_proposer
from engine.speculation.proposer import Proposer
from engine.speculation.speculation import Speculation

_KEPT = 64
"""Speculations that are kept; the oldest go, and with them what they have learned."""


class Speculations:
    """Makes and keeps them."""

    def __init__(self, model: Model, draft_model: Model | None = None) -> None:
        self._model, self._draft_model = model, draft_model
        self._costs = Costs()
        self._proposers: dict[str, Proposer | None] = {}
        self._made: dict[tuple[str | Proposer, Lookahead], Speculation] = {}
        self._lock = Lock()

    def of(self, options: EngineOptions) -> Speculation | None:
        """The speculation that `options` ask for; `None` for none.

        Raises:
            SpeculationError: a proposer that does not fit the model, or needs a draft model and there is none.
        """
        with self._lock:
            proposer = self._proposer(options.proposer)
            if proposer is None:
                return None
            key = options.proposer, options.lookahead
            if key not in self._made:
                self._made[key] = Speculation(proposer, options.lookahead, self._costs)
                while len(self._made) > _KEPT:
                    self._made.pop(next(iter(self._made)))
            return self._made[key]

    def _proposer(self, wanted: str | Proposer) -> Proposer | None:
        if not isinstance(wanted, str):
            return wanted
        if wanted not in self._proposers:
            self._proposers[wanted] = make_proposer(wanted, self._model, self._draft_model)
        return self._proposers[wanted]
