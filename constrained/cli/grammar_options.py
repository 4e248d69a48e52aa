"""The options that name a grammar, shared by the subcommands."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from constrained.cli.errors import UsageError
from grammars import Choice, Grammar, JsonSchema, Lark, Regex

KINDS = "--schema FILE, --regex RE, --lark FILE or --choice TEXT"
FORMATS = ["assert", "declared", "annotate", "strict"]
_OPTIONS_OF = {"schema": ("whitespace", "property_order", "formats"), "lark": ("start", "lexer")}


def add_grammar_options(parser: argparse.ArgumentParser) -> None:
    """Adds `--schema`, `--regex`, `--lark` and `--choice`, and the options of JSON Schema and Lark."""
    group = parser.add_argument_group("grammar (one kind of these)")
    group.add_argument("--schema", metavar="FILE", help="JSON Schema")
    group.add_argument("--regex", metavar="RE", help="regular expression (Python dialect), matched from end to end")
    group.add_argument("--lark", metavar="FILE", help="Lark grammar")
    group.add_argument("--choice", metavar="TEXT", action="append", help="one of several texts; give it repeatedly")
    options = parser.add_argument_group("options of --schema")
    options.add_argument("--whitespace", metavar="bounded|compact|any|RE", help="between JSON tokens (bounded)")
    options.add_argument("--property-order", choices=["schema", "any"], help="of objects (schema)")
    options.add_argument("--formats", choices=FORMATS, help="what `format` does (assert)")
    options = parser.add_argument_group("options of --lark")
    options.add_argument("--start", metavar="RULE", help="the rule to begin with (start)")
    options.add_argument("--lexer", choices=["dynamic", "contextual"], help="how the text is cut (dynamic)")


def read_grammar(options: argparse.Namespace) -> Grammar | None:
    """The grammar that the options name; `None` where they name none.

    Raises:
        UsageError: two kinds at once, an option of another kind, or a file that cannot be read.
        GrammarError: a grammar that is wrong, or not available.
    """
    given = [name for name in ("schema", "regex", "lark", "choice") if getattr(options, name) is not None]
    if len(given) > 1:
        raise UsageError(f"--{given[0]} and --{given[1]} exclude each other; give one grammar")
    of_kind = {kind: _options_of(kind, options, given) for kind in _OPTIONS_OF}
    if options.schema is not None:
        return JsonSchema(read_file(options.schema, "--schema"), **of_kind["schema"])
    if options.regex is not None:
        return Regex(options.regex)
    if options.choice is not None:
        return Choice(options.choice)
    if options.lark is not None:
        read_file(options.lark, "--lark")
        return Lark(Path(options.lark), **of_kind["lark"])
    return None


def _options_of(kind: str, options: argparse.Namespace, given: list[str]) -> dict[str, Any]:
    """The options that were given of one kind of grammar; refused where the grammar is of another kind or there is none."""
    values = {name: getattr(options, name) for name in _OPTIONS_OF[kind] if getattr(options, name) is not None}
    if values and kind not in given:
        name = next(iter(values)).replace("_", "-")
        raise UsageError(f"--{name} is an option of --{kind}; leave it out, or give --{kind} FILE")
    return values


def read_file(path: str, option: str) -> bytes:
    """The contents of a file that an option names.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"{option}: cannot read {path}: {error.strerror or error}; check the path") from None
