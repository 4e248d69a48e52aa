"""Parsers of regular expressions, Python's and ECMA-262's, into the algebra of `grammars.regular`.

What is accepted, what is refused and why: docs/regex.md.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Literal

from grammars.memory import forgets
from grammars.regex import ecma_dialect, python_dialect, translate
from grammars.regular import Rx

__all__ = ["ecma_search", "parse"]

_KEPT = 512
_kept: OrderedDict[tuple[str, str, int, str], Rx] = OrderedDict()
_lock = Lock()


@forgets
def _forget() -> None:
    with _lock:
        _kept.clear()


def parse(
    pattern: str,
    dialect: Literal["python", "ecma"] = "python",
    flags: int = 0,
    mode: Literal["fullmatch", "search"] = "fullmatch",
) -> Rx:
    """The language of a regular expression.

    Args:
        pattern: the expression.
        dialect: `"python"` (the `re` module's, for `str`) or `"ecma"` (ECMA-262 with the `u` flag; what is no such
            expression is read by Annex B, and a few habits of other dialects are understood where they are plain).
        flags: bits of `re`: I, M, S for both dialects, A, U, X for Python's.
        mode: `"fullmatch"`: the texts that match from end to end; `"search"`: those with a match somewhere.

    Raises:
        RegexError: if it does not parse.
        UnsupportedFeature: for back-references and what else has no regular language or no exact translation.
        LimitExceeded: for patterns that are too long, too deep, or too costly.
    """
    key = (pattern, dialect, flags, mode)
    with _lock:
        found = _kept.get(key)
        if found is not None:
            _kept.move_to_end(key)
            return found
    if dialect == "python":
        node = python_dialect.PythonReader(pattern, flags).parse()
    elif dialect == "ecma":
        node = ecma_dialect.read(pattern, flags)
    else:
        raise ValueError(f"dialect={dialect!r} is neither 'python' nor 'ecma'")
    if mode not in ("fullmatch", "search"):
        raise ValueError(f"mode={mode!r} is neither 'fullmatch' nor 'search'")
    result = translate.fullmatch(node) if mode == "fullmatch" else translate.search(node)
    with _lock:
        _kept[key] = result
        if len(_kept) > _KEPT:
            _kept.popitem(last=False)
    return result


def ecma_search(pattern: str) -> Rx:
    """The texts that satisfy a `pattern` keyword of JSON Schema; errors as of `parse`."""
    return parse(pattern, "ecma", 0, "search")
