"""What the routes of one server share."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from constrained.async_llm import AsyncLLM
from constrained.server.errors import RATE, ApiError, loading
from constrained.server.garbage import ShortCollections
from constrained.server.metrics import ServerMetrics
from constrained.server.settings import ServerSettings

PLANNERS = 2
"""One that takes its whole time must not keep the others waiting."""


class ServerState:
    """The model, once it is there, and who is being served.

    Attributes:
        settings: names, keys and limits.
        engine: `None` while the model is being loaded.
        failure: what loading ended with, if that was an error.
        planners: threads that read and compile grammars.  Few: each takes turns with the engine's thread for the interpreter.
        collections: how Python's garbage is collected, where the settings say that.
        metrics: what is counted.
        started: seconds since the epoch.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.engine: AsyncLLM | None = None
        self.failure: BaseException | None = None
        self.planners = ThreadPoolExecutor(PLANNERS, "grammars")
        self.collections: ShortCollections | None = None
        self.metrics = ServerMetrics(
            lambda: None if self.engine is None else self.engine.llm.engine.usage(), lambda: self.collections
        )
        self.started = int(time.time())
        self._serving: Counter[str] = Counter()

    @property
    def llm(self) -> AsyncLLM:
        """The model.

        Raises:
            ApiError: 503 while it is being loaded.
        """
        if self.engine is None:
            raise loading()
        return self.engine

    def model_name(self, asked: str) -> str:
        """The name that answers carry.

        Raises:
            ApiError: 404 for a model that is not served here.
        """
        if asked not in self.settings.model_names:
            raise ApiError(
                404, f"the model {asked!r} is not served here; there is {', '.join(self.settings.model_names)}",
                param="model", code="model_not_found",
            )  # fmt: skip
        return self.settings.model_names[0]

    @contextmanager
    def served(self, client: str) -> Iterator[None]:
        """Around a request of a client, who may have so many at a time.

        Raises:
            ApiError: 429 for one too many.
        """
        most = self.settings.max_requests_per_key
        if self._serving[client] >= most:
            raise ApiError(
                429, f"{most} requests of yours are being served, as many as may be at a time", kind=RATE,
                code="too_many_requests", retry_after=1,
            )  # fmt: skip
        self._serving[client] += 1
        try:
            yield
        finally:
            self._serving[client] -= 1
            if not self._serving[client]:
                del self._serving[client]
