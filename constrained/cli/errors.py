"""Errors of the command line: one line on standard error, an exit code, no traceback."""

from __future__ import annotations

import logging
import os
import sys
import traceback
import warnings

OK, FAILED, USAGE = 0, 1, 2


class UsageError(Exception):
    """Arguments that cannot work: the message is shown and the exit code is 2."""


def exit_code(error: BaseException) -> int:
    """2 for bad usage and bad grammars: what the command line asks for cannot be; 1 for everything else.

    Bad usage is also a path that leads to no model, a device or dtype that is not here, a number out of its range, and a
    budget that no sentence fits into.
    """
    from constrained.errors import BudgetError, GrammarError
    from engine.errors import DeviceError, ModelNotFound
    from engine.sampling.errors import SamplingError

    bad = UsageError | GrammarError | BudgetError | DeviceError | ModelNotFound | SamplingError
    return USAGE if isinstance(error, bad) else FAILED


def report(error: BaseException) -> int:
    """Prints the error as one line; returns the exit code.  `CONSTRAINED_TRACEBACK=1` adds the traceback."""
    text = " ".join(str(error).split()) or type(error).__name__
    if not _is_expected(error):
        text = f"{type(error).__name__}: {text} (set CONSTRAINED_TRACEBACK=1 to see where)"
    print(f"constrained: error: {text}", file=sys.stderr)
    if os.environ.get("CONSTRAINED_TRACEBACK") == "1":
        traceback.print_exception(error)
    return exit_code(error)


def _is_expected(error: BaseException) -> bool:
    """Whether the message was written for the user, as the errors of this project's own are."""
    if isinstance(error, UsageError | OSError):
        return True
    return type(error).__module__.partition(".")[0] in ("constrained", "engine", "grammars")


class _Lines(logging.Handler):
    """What this project logs, as lines like the command's own."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"constrained: {record.getMessage()}", file=sys.stderr)


def show_log_as_lines() -> None:
    """Log records of this project go to standard error as one line each."""
    log = logging.getLogger("constrained")
    log.handlers, log.propagate = [_Lines()], False


def show_warnings_as_lines() -> None:
    """Warnings become one line on standard error instead of Python's two with a source line."""

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        if issubclass(category, UserWarning):
            print(f"constrained: warning: {' '.join(str(message).split())}", file=sys.stderr)

    warnings.showwarning = show
