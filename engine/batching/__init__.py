"""Many sequences in one batch that they join and leave as they come and end: who runs (`scheduler`), the steps (`batch`), and
a thread that takes them for callers in many others (`loop`)."""

from __future__ import annotations

from engine.batching.batch import BatchEngine
from engine.batching.handle import RequestHandle
from engine.batching.loop import EngineLoop
from engine.batching.request import Request
from engine.batching.scheduler import Plan, Scheduler
from engine.batching.usage import Usage

__all__ = ["BatchEngine", "EngineLoop", "Plan", "Request", "RequestHandle", "Scheduler", "Usage"]
