"""The options that name a grammar, shared by the subcommands."""

from __future__ import annotations

import argparse
from pathlib import Path

from constrained.cli.errors import UsageError
from grammars import Choice, JsonSchema, Regex, UnsupportedFeature

Grammar = JsonSchema | Regex | Choice


def add_grammar_options(parser: argparse.ArgumentParser) -> None:
    """Adds `--schema`, `--regex`, `--lark` and `--choice`, and the options of JSON Schema."""
    group = parser.add_argument_group("grammar (one kind of these)")
    group.add_argument("--schema", metavar="FILE", help="JSON Schema")
    group.add_argument("--regex", metavar="RE", help="regular expression (Python dialect), matched from end to end")
    group.add_argument("--lark", metavar="FILE", help="Lark grammar")
    group.add_argument("--choice", metavar="TEXT", action="append", help="one of several texts; give it repeatedly")
    options = parser.add_argument_group("options of --schema")
    options.add_argument(
        "--whitespace", default="bounded", metavar="bounded|compact|any|RE", help="between JSON tokens"
    )
    options.add_argument("--property-order", default="schema", choices=["schema", "any"])
    options.add_argument("--formats", default="assert", choices=["assert", "annotate", "strict"])


def read_grammar(options: argparse.Namespace) -> Grammar | None:
    """The grammar that the options name; `None` where they name none.

    Raises:
        UsageError: two kinds at once, or a file that cannot be read.
        GrammarError: a grammar that is wrong, or not available.
    """
    given = [name for name in ("schema", "regex", "lark", "choice") if getattr(options, name) is not None]
    if len(given) > 1:
        raise UsageError(f"--{given[0]} and --{given[1]} exclude each other; give one grammar")
    if options.schema is not None:
        return JsonSchema(
            read_file(options.schema, "--schema"),
            whitespace=options.whitespace,
            property_order=options.property_order,
            formats=options.formats,
        )
    if options.regex is not None:
        return Regex(options.regex)
    if options.choice is not None:
        return Choice(options.choice)
    if options.lark is not None:
        raise UnsupportedFeature("--lark: Lark grammars are not available yet; use --schema, --regex or --choice")
    return None


def read_file(path: str, option: str) -> bytes:
    """The contents of a file that an option names.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"{option}: cannot read {path}: {error.strerror or error}") from None
