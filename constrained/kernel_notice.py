"""A word to the user when kernels are compiled, which happens once on a machine and takes a while.

Numba tells of each compilation that is not found on disk; the first one in a process is logged, under the name
`constrained` and as a warning, so that it is seen where nobody has set up logging.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

MESSAGE = "compiling the kernels, once on this machine; this takes some 20 seconds"

_log = logging.getLogger("constrained")


@cache
def announce_compilation() -> None:
    """From now on, log when a kernel has to be compiled; only the first time in this process."""
    from numba.core import event

    class Notice(event.Listener):  # type: ignore[misc]
        told = False

        def on_start(self, event: Any) -> None:
            module = event.data["dispatcher"].py_func.__module__ if event.data else ""
            if not self.told and module.startswith(("constrained.kernels", "engine.decode_attention")):
                self.told = True
                _log.warning(MESSAGE)

        def on_end(self, event: Any) -> None:
            """Nothing to say: what waited goes on."""

    event.register("numba:compile", Notice())
