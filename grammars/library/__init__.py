"""Ready grammars: each a `.lark` file in this folder whose first line says what it is.

from grammars import library
library.names()          # ('arithmetic', 'cron', 'csv', ...)
library.load("sql")      # a grammars.Lark
library.about("sql")     # its line of documentation
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from pathlib import Path

from grammars.errors import GrammarError
from grammars.values import Indenter, Lark, Lexer

_FOLDER = resources.files(__package__)

_CONTEXTUAL = frozenset({"python", "python_expression", "sql", "yaml"})
"""Grammars of languages whose words are told apart by a lexer: keywords from names, indentation from space."""

_INDENTERS = {
    "python": Indenter("_NEWLINE", "_INDENT", "_DEDENT", ("LPAR", "LSQB", "LBRACE"), ("RPAR", "RSQB", "RBRACE"), 8),
    "yaml": Indenter("_NL", "_INDENT", "_DEDENT", (), (), 8),
}


@cache
def names() -> tuple[str, ...]:
    """The names of the grammars, in alphabetical order."""
    found = (Path(one.name) for one in _FOLDER.iterdir())
    return tuple(sorted(one.stem for one in found if one.suffix == ".lark"))


def about(name: str) -> str:
    """The line of documentation of a grammar."""
    return _text(name).partition("\n")[0].removeprefix("//").strip()


def load(name: str, start: str = "start") -> Lark:
    """A grammar by its name.

    Args:
        name: one of `names()`.
        start: the rule to start from.

    Raises:
        GrammarError: there is no such grammar.
    """
    lexer: Lexer = "contextual" if name in _CONTEXTUAL else "dynamic"
    imports = {f"{other}.lark": _text(other) for other in names() if re.search(rf"%import \.{other}\b", _text(name))}
    return Lark(_text(name), start, lexer, imports=imports, indenter=_INDENTERS.get(name))


@cache
def _text(name: str) -> str:
    if name not in names():
        raise GrammarError(f"there is no grammar {name!r} in the library; there are {', '.join(names())}")
    return (_FOLDER / f"{name}.lark").read_text(encoding="utf-8")
