"""`constrained bench`: measurements on the user's own schemas, documents and tokenizer."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from constrained.cli import bench_decode, bench_speculate
from constrained.cli.bench_texts import add_text_options, run_texts
from constrained.cli.errors import OK, UsageError
from constrained.cli.grammar_options import FORMATS, read_file
from constrained.cli.tokenizer_option import add_tokenizer_option, read_vocabulary

if TYPE_CHECKING:
    from constrained.bench.masks import Case, Report
    from grammars import JsonSchema


def add_options(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", metavar="WHAT", required=True)
    summary = "replay documents through masks: time to the first mask, time between masks, counters"
    masks = kinds.add_parser("masks", help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
    masks.add_argument(
        "documents", nargs="*", metavar="FILE",
        help="JSON Lines of {id, schema, tests: [{data, valid}]}, also as .xz; with --schema, documents that fit it",
    )  # fmt: skip
    masks.add_argument("--schema", metavar="FILE", help="JSON Schema of the documents")
    add_tokenizer_option(masks)
    add_text_options(masks)
    masks.add_argument("-n", type=_count, metavar="N", help="schemas, drawn at random (all)")
    masks.add_argument("--seed", type=int, default=1, help="of the draw (1)")
    masks.add_argument("--warm", action="store_true", help="replay each schema twice and report the second time")
    masks.add_argument("--json", action="store_true", help="print the figures as JSON")
    group = masks.add_argument_group("options of the schemas")
    group.add_argument("--whitespace", default="bounded", metavar="bounded|compact|any|RE", help="between JSON tokens")
    group.add_argument("--property-order", default="schema", choices=["schema", "any"])
    group.add_argument("--formats", default="assert", choices=FORMATS)
    for name, module in (("decode", bench_decode), ("speculate", bench_speculate)):
        summary = module.SUMMARY
        module.add_options(kinds.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}."))


def run(options: argparse.Namespace) -> int:
    if options.kind == "masks":
        return _run_masks(options)
    return bench_decode.run(options) if options.kind == "decode" else bench_speculate.run(options)


def _run_masks(options: argparse.Namespace) -> int:
    if options.lark is not None or options.texts:
        return run_texts(options)
    from constrained.bench.masks import MaskBench, draw
    from grammars import JsonSchema

    def grammar(schema: Any) -> JsonSchema:
        return JsonSchema(
            schema,
            whitespace=options.whitespace,
            property_order=options.property_order,
            formats=options.formats,
        )

    cases = draw(_cases(options), options.n, options.seed)
    if not cases:
        raise UsageError("no schema to replay: the files are empty")
    bench = MaskBench(read_vocabulary(options.tokenizer), grammar, warm=options.warm)
    for case in cases:
        refused = bench.replay(case).refused
        if refused is not None and options.schema is not None:  # alone it is an error, among others a figure
            raise UsageError(f"--schema: {options.schema}: {refused}")
    report = bench.report()
    print(json.dumps(report.as_dict(), indent=1) if options.json else "\n".join(_lines(report)))
    return OK


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return value


def _cases(options: argparse.Namespace) -> list[Case]:
    from constrained.bench.masks import Case, DataError, Document, read_cases

    if not options.documents:
        raise UsageError("nothing to replay; give a file of test data, or --schema FILE and documents")
    try:
        if options.schema is None:
            return [case for path in options.documents for case in read_cases(Path(path))]
    except DataError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"cannot read {error.filename}: {error.strerror or error}") from None
    schema = _read_json(options.schema, "--schema")
    documents = tuple(Document(_read_json(path, "document"), True) for path in options.documents)
    return [Case(options.schema, schema, documents)]


def _read_json(path: str, option: str) -> Any:
    try:
        return json.loads(read_file(path, option))
    except ValueError as error:
        raise UsageError(f"{option}: {path} is not JSON: {error}") from None


def _lines(report: Report) -> list[str]:
    """The report as `figure  value` lines."""
    lines = [
        ("schemas", f"{report.cases:,}"),
        ("right", f"{report.right:,}"),
        ("refused", f"{report.refused:,}"),
        ("accepts an invalid document", f"{report.accepts_invalid:,}"),
        ("refuses a valid document", f"{report.refuses_valid:,}"),
        ("tokens", f"{report.tokens:,}"),
    ]
    for title, times in (("TTFM", report.ttfm), ("TBM", report.tbm), ("cost", report.cost)):
        lines += [(f"{title} {name} us", "-" if value is None else f"{value:,}") for name, value in times.items()]
    lines += [(name.replace("_", " "), f"{value:,}") for name, value in report.counters.items()]
    return [f"{name:<28}{value:>16}" for name, value in lines]
