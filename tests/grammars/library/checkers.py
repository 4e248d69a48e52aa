"""The usual parsers of the library's languages; each raises where a text is none of its language."""

from __future__ import annotations

import ast
import csv
import datetime
import email.headerregistry
import io
import json
import re
import sqlite3
import tomllib
import warnings
import xml.etree.ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lark
import pytest
from jsonschema import FormatChecker
from lark.indenter import Indenter

from grammars import library


def lark_parser(name: str) -> lark.Lark:
    """Lark's own parser of a grammar of the library."""
    value = library.load(name)
    options: dict[str, Any] = {"parser": "earley", "lexer": "dynamic_complete", "ambiguity": "forest"}
    if value.lexer == "contextual":
        options = {"parser": "lalr", "lexer": "contextual"}
    if value.indenter is not None:
        names = {
            "NL_type": value.indenter.newline,
            "INDENT_type": value.indenter.indent,
            "DEDENT_type": value.indenter.dedent,
            "OPEN_PAREN_types": value.indenter.open_parens,
            "CLOSE_PAREN_types": value.indenter.close_parens,
            "tab_len": value.indenter.tab_len,
        }
        options["postlex"] = type("Own", (Indenter,), names)()
    return lark.Lark(value.text, source_path=str(Path(library.__file__).parent / f"{name}.lark"), **options)


def _python(mode: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text, mode=mode)

    return check


def _csv(text: str) -> None:
    assert list(csv.reader(io.StringIO(text, newline=""), strict=True))


def _json_lines(text: str) -> None:
    for line in re.split("\r?\n", text.removesuffix("\n").removesuffix("\r")):
        json.loads(line)


def _toml(text: str) -> None:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # That keys differ is no matter of a context-free grammar.
        if not re.match(r"Cannot (overwrite|declare|mutate)|Duplicate inline table key", str(error)):
            raise


def _sql(text: str) -> None:
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("EXPLAIN " + text)
    except (sqlite3.OperationalError, sqlite3.ProgrammingError) as error:
        # Without tables nothing can be found; a syntax error comes first.
        if re.search(r"syntax error|incomplete input|unrecognized token", str(error)):
            raise
    finally:
        connection.close()


def _iso8601(text: str) -> None:
    if not text.startswith("P"):
        kind = datetime.time if re.match(r"\d\d:", text) else datetime.datetime
        kind.fromisoformat(text)


def _url(text: str) -> None:
    FormatChecker().check(text, "uri")


def _email(text: str) -> None:
    email.headerregistry.Address(addr_spec=text)


def _semver(text: str) -> None:
    number = r"(0|[1-9]\d*)"
    part = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
    assert re.fullmatch(
        rf"{number}\.{number}\.{number}(-{part}(\.{part})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?", text, re.A
    )


def _yaml(text: str) -> None:
    yaml = pytest.importorskip("yaml")
    yaml.safe_load(text)


CHECKERS: dict[str, Callable[[str], object]] = {
    "arithmetic": _python("eval"),
    "csv": _csv,
    "email": _email,
    "iso8601": _iso8601,
    "json": json.loads,
    "json_lines": _json_lines,
    "python": _python("exec"),
    "python_expression": _python("eval"),
    "semver": _semver,
    "sql": _sql,
    "toml": _toml,
    "url": _url,
    "xml": xml.etree.ElementTree.fromstring,
    "yaml": _yaml,
}
