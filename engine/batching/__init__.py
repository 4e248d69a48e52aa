"""Many sequences in one batch that they join and leave as they come and end: who runs (`scheduler`), and the steps
(`batch`)."""

from __future__ import annotations

from engine.batching.batch import BatchEngine
from engine.batching.scheduler import Plan, Request, Scheduler

__all__ = ["BatchEngine", "Plan", "Request", "Scheduler"]
