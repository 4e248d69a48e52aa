"""`constrained bench masks --lark`: texts through the masks of a Lark grammar, beside another engine."""

from __future__ import annotations

import argparse
import importlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from constrained.cli.errors import OK, UsageError
from constrained.cli.grammar_options import read_file
from constrained.cli.tokenizer_option import read_vocabulary

if TYPE_CHECKING:
    from constrained.bench.texts import Figures
    from grammars import Lark

_ENGINES = ["llguidance"]


def add_text_options(parser: argparse.ArgumentParser) -> None:
    """Adds what `--lark` needs."""
    group = parser.add_argument_group("texts of a Lark grammar instead of documents of schemas")
    group.add_argument("--lark", metavar="FILE|NAME", help="the grammar: a file, or one of the library")
    group.add_argument(
        "--texts", metavar="FOLDER|FILE", action="append", default=[],
        help="texts: every file of a folder, a .jsonl of strings, or one file; may be repeated",
    )  # fmt: skip
    group.add_argument("--start", metavar="RULE", help="the rule to begin with (start)")
    group.add_argument("--lexer", choices=["dynamic", "contextual"], help="how the text is cut (dynamic)")
    group.add_argument("--indenter", metavar="MODULE:CLASS", help="Lark's post-lexer, as lark.indenter:PythonIndenter")
    group.add_argument("--engine", choices=_ENGINES, help="replay with this engine too, if it is installed")
    group.add_argument("--engine-lark", metavar="FILE", help="the grammar in that engine's dialect (the same file)")


def run_texts(options: argparse.Namespace) -> int:
    from constrained.bench.masks import draw
    from constrained.bench.texts import Constrained, DataError, LLGuidance, read_texts, replay

    if options.lark is None or not options.texts:
        raise UsageError("--lark needs --texts and --texts needs --lark; give both")
    if options.documents or options.schema is not None:
        raise UsageError("--lark and documents of schemas exclude each other; give one of them")
    if options.engine is not None and options.tokenizer is None:
        raise UsageError(f"--engine {options.engine} needs --tokenizer with a tokenizer.json")
    grammar = _grammar(options)
    vocabulary = read_vocabulary(options.tokenizer)
    figures: list[Figures] = []
    try:
        found = draw(read_texts(Path(path) for path in options.texts), options.n, options.seed)
        if not found:
            raise UsageError("no text to replay: --texts names empty folders or files")
        texts = [(name, vocabulary.canonical(text)) for name, text in found]
        if options.engine == "llguidance":
            text = (
                grammar.text
                if options.engine_lark is None
                else read_file(options.engine_lark, "--engine-lark").decode()
            )
            figures.append(replay("llguidance", LLGuidance(Path(options.tokenizer), text), texts))
        _load_parsers(vocabulary)
        ours = Constrained(vocabulary, grammar)
        figures.append(replay("constrained", ours, texts))
        if options.warm:
            figures[-1] = replay("constrained", ours, texts)
    except DataError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"cannot read {error.filename}: {error.strerror or error}") from None
    if options.json:
        print(json.dumps([asdict(one) for one in figures], indent=1))
    else:
        print("\n".join(_table(figures)))
    return OK


def _grammar(options: argparse.Namespace) -> Lark:
    from grammars import Lark, library

    given: dict[str, Any] = {
        name: getattr(options, name) for name in ("start", "lexer") if getattr(options, name) is not None
    }
    if options.indenter is not None:
        module, _, name = options.indenter.partition(":")
        try:
            given["indenter"] = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise UsageError(f"--indenter: {options.indenter}: {error}; give MODULE:CLASS") from None
    if not Path(options.lark).exists() and options.lark in library.names():
        return library.load(options.lark, given.get("start", "start"))
    read_file(options.lark, "--lark")
    return Lark(Path(options.lark), **given)


def _load_parsers(vocabulary: Any) -> None:
    """Have parsers and kernels loaded, which happens once a process, before anything is timed."""
    import numpy as np

    from constrained import compile
    from grammars import Lark

    row = np.zeros(vocabulary.row_words, dtype=np.uint32)
    for lexer in ("dynamic", "contextual"):
        constraint = compile(Lark('start: "(" start ")" "," /[a-c]+/ | "x" ";"\n%ignore " "', lexer=lexer), vocabulary)
        matcher = constraint.matcher()
        for token in vocabulary.canonical("((x;) , a)  , b"):
            matcher.fill_mask(row)
            matcher.accept(token)
        matcher.is_accepting()


def _table(figures: list[Figures]) -> list[str]:
    """One line for each engine, and one for each rejected text of the first few."""
    head = (
        "engine",
        "TTFM ms",
        "first",
        "texts",
        "rejected",
        "tokens",
        "TBM mean us",
        "p50",
        "p99",
        "second half: mean",
        "p99",
    )
    rows: list[tuple[str, ...]] = [head]
    for one in figures:
        times = [(one.tbm, "mean"), (one.tbm, "p50"), (one.tbm, "p99"), (one.later, "mean"), (one.later, "p99")]
        rows.append(
            (one.engine, f"{one.ttfm / 1e3:,.2f}", f"{one.first / 1e3:,.1f}",
             f"{one.texts:,}", f"{len(one.rejected):,}", f"{one.tokens:,}",
             *("-" if of[name] is None else f"{of[name]:,.1f}" for of, name in times))
        )  # fmt: skip
    if len(figures) > 1:
        other, own = figures[0], figures[-1]
        pairs: list[tuple[float | None, float | None]] = [(own.ttfm, other.ttfm), (own.first, other.first)]
        pairs += [(own.tbm[name], other.tbm[name]) for name in ("mean", "p50", "p99")]
        pairs += [(own.later[name], other.later[name]) for name in ("mean", "p99")]
        shown = ["-" if not theirs or ours is None else f"{ours / theirs:.2f}" for ours, theirs in pairs]
        rows.append(("ratio", *shown[:2], "", "", "", *shown[2:]))
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) if not number else cell.rjust(width)
                       for number, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip() for row in rows]  # fmt: skip
    for one in figures:
        lines += [f"{one.engine} rejects {name}" for name in one.rejected[:5]]
    return lines


__all__ = ["add_text_options", "run_texts"]
