"""Grammars that are written down: Lark and GBNF, as values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Protocol, get_args

from grammars.errors import GrammarError
from grammars.values.base import Grammar, one_of
from grammars.values.combined import Part, part

Lexer = Literal["dynamic", "contextual"]
GbnfDialect = Literal["gbnf", "xgrammar"]

_IMPORT = re.compile(r"^[ \t]*%import[ \t]+\.([\w.]+)[ \t]*(\(?)", re.M)
_NAME = re.compile(r"[a-z_][a-z_0-9]*")


class IndenterLike(Protocol):
    """What `lark.indenter.Indenter` tells about itself."""

    NL_type: Any
    INDENT_type: Any
    DEDENT_type: Any
    OPEN_PAREN_types: Any
    CLOSE_PAREN_types: Any
    tab_len: Any


@dataclass(frozen=True, slots=True)
class Indenter:
    """Lark's `Indenter` post-lexer: terminals that it puts in where the indentation grows and shrinks.

    Attributes:
        newline: name of the terminal of line breaks, whose text ends with the indentation of the next line.
        indent, dedent: names of the terminals that are put in.
        open_parens, close_parens: names of terminals between which line breaks are dropped.
        tab_len: how many columns a tab is.
    """

    newline: str
    indent: str
    dedent: str
    open_parens: tuple[str, ...]
    close_parens: tuple[str, ...]
    tab_len: int

    @staticmethod
    def of(value: Indenter | IndenterLike | type[IndenterLike]) -> Indenter:
        """The value of a `lark.indenter.Indenter`, given as instance or as class.

        Raises:
            GrammarError: it is none, or it changes what an `Indenter` does.
        """
        if isinstance(value, Indenter):
            return value
        from lark.indenter import Indenter as LarkIndenter

        kind = value if isinstance(value, type) else type(value)
        if not issubclass(kind, LarkIndenter):
            raise GrammarError(f"indenter={value!r} is no lark.indenter.Indenter")
        for method in ("handle_NL", "_process", "process"):
            if getattr(kind, method) is not getattr(LarkIndenter, method):
                raise GrammarError(f"the indenter {kind.__name__} has its own {method}, which cannot be followed")
        made: Any = value() if isinstance(value, type) else value
        return Indenter(
            str(made.NL_type),
            str(made.INDENT_type),
            str(made.DEDENT_type),
            tuple(made.OPEN_PAREN_types),
            tuple(made.CLOSE_PAREN_types),
            int(made.tab_len),
        )


@dataclass(frozen=True, init=False)
class Lark(Grammar):
    """Texts that a Lark grammar parses.

    Attributes:
        text: the grammar.
        start: the rule to start from.
        lexer: `"dynamic"`: what Lark's Earley parser takes with its `dynamic_complete` lexer; `"contextual"`: what its
            LALR(1) parser takes with the contextual lexer.
        name: how messages call the grammar: its path, or `"<string>"`.
        imports: the files that relative imports reach, as pairs of a path (relative to the grammar, with slashes) and
            their text.  Those of a grammar in a file are read when the value is made.
        embedded: grammars by name; a rule of the grammar says `@name` for them.
        indenter: Lark's `Indenter` between lexer and parser; contextual lexing only.
    """

    text: str
    start: str
    lexer: Lexer
    name: str
    imports: tuple[tuple[str, str], ...]
    embedded: tuple[tuple[str, Part], ...]
    indenter: Indenter | None

    def __init__(
        self,
        text_or_path: str | PathLike[str],
        start: str = "start",
        lexer: Lexer = "dynamic",
        imports: Mapping[str, str] | None = None,
        embedded: Mapping[str, Part] | None = None,
        indenter: Indenter | IndenterLike | type[IndenterLike] | None = None,
    ) -> None:
        text, path = _text_and_path(text_or_path, ".lark")
        one_of("lexer", lexer, get_args(Lexer))
        if not isinstance(start, str):
            raise GrammarError(f"start={start!r} is not the name of a rule")
        if indenter is not None and lexer != "contextual":
            raise GrammarError("an indenter needs lexer='contextual', as in Lark")
        files = dict(imports or {})
        if path is not None:
            _read_imports(text, path.parent, PurePosixPath(), files)
        for name in embedded or {}:
            if not _NAME.fullmatch(name):
                raise GrammarError(f"embedded= has {name!r}, which is no name of a rule (small letters, digits, '_')")
        put = object.__setattr__
        put(self, "text", text)
        put(self, "start", start)
        put(self, "lexer", lexer)
        put(self, "name", "<string>" if path is None else str(path))
        put(self, "imports", tuple(sorted(files.items())))
        named = sorted((embedded or {}).items())
        put(self, "embedded", tuple((name, part(f"embedded {name!r}", one)) for name, one in named))
        put(self, "indenter", None if indenter is None else Indenter.of(indenter))


@dataclass(frozen=True, init=False)
class Gbnf(Grammar):
    """Texts of a grammar in llama.cpp's GBNF, or in the EBNF of XGrammar.

    Attributes:
        text: the grammar.
        root: the rule to start from.
        dialect: whether `\\x` takes two hexadecimal digits (`"gbnf"`) or all that follow (`"xgrammar"`); in all else
            either dialect is read.
    """

    text: str
    root: str
    dialect: GbnfDialect

    def __init__(self, text_or_path: str | PathLike[str], root: str = "root", dialect: GbnfDialect = "gbnf") -> None:
        if not isinstance(root, str):
            raise GrammarError(f"root={root!r} is not the name of a rule")
        one_of("dialect", dialect, get_args(GbnfDialect))
        object.__setattr__(self, "dialect", dialect)
        object.__setattr__(self, "text", _text_and_path(text_or_path, ".gbnf")[0])
        object.__setattr__(self, "root", root)


def _text_and_path(given: str | PathLike[str], suffix: str) -> tuple[str, Path | None]:
    """A grammar's text, and its path if that was given: a path object, or one line that ends as such files do."""
    if isinstance(given, str):
        if "\n" in given or not given.endswith(suffix):
            return given, None
    elif not isinstance(given, PathLike):
        raise GrammarError(f"a grammar is a text or a path, not {given!r}")
    path = Path(given)
    try:
        return path.read_text(encoding="utf-8"), path
    except OSError as error:
        raise GrammarError(f"the grammar {str(path)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise GrammarError(f"the grammar {str(path)!r} is no UTF-8 text at byte {error.start}") from None


def _read_imports(text: str, folder: Path, below: PurePosixPath, files: dict[str, str]) -> None:
    """Read what a grammar imports relative to itself; what is not there is left to the loader to name."""
    for relative in sorted(_imported(text)):
        key = (below / relative).as_posix()
        source = folder / relative
        if key not in files and source.is_file():
            files[key] = source.read_text(encoding="utf-8")
            _read_imports(files[key], source.parent, PurePosixPath(key).parent, files)


def _imported(text: str) -> Iterable[str]:
    for dotted, names_follow in _IMPORT.findall(text):
        names = dotted.split(".")
        module = names if names_follow else names[:-1]
        if module:
            yield "/".join(module) + ".lark"
