"""`constrained check`: what of a grammar is supported, and what is not and where."""

from __future__ import annotations

import argparse
import copy
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from constrained.cli.errors import OK, USAGE, UsageError
from constrained.cli.grammar_options import KINDS, add_grammar_options, read_grammar
from constrained.cli.tokenizer_option import add_tokenizer_option, read_vocabulary
from constrained.compile import compile as compile_grammar
from constrained.errors import GrammarError
from grammars import Grammar, JsonSchema
from grammars.json_schema import FormatWarning, check_reachable, roles, root_value

# Removing one refused keyword shows the next; a document that is refused this often has made its point.
_MOST_POSITIONS = 50_000
_MOST_REFUSALS = 100


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    pointer: str
    verdict: str
    detail: str


def add_options(parser: argparse.ArgumentParser) -> None:
    add_grammar_options(parser)
    add_tokenizer_option(parser)


def run(options: argparse.Namespace) -> int:
    grammar = read_grammar(options)
    if grammar is None:
        raise UsageError(f"nothing to check; give {KINDS}")
    vocabulary = read_vocabulary(options.tokenizer)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        refused = list(refusals(grammar, vocabulary))
    # Formats that assert nothing are said at their places.
    said = (ResourceWarning, FormatWarning)
    notes = [Finding("", "note", str(warning.message)) for warning in warned if not issubclass(warning.category, said)]
    findings = [*refused, *notes]
    if isinstance(grammar, JsonSchema):
        places = {(finding.pointer, finding.detail.partition(":")[0]) for finding in refused}
        findings = [*supported(grammar, places), *findings]
    for finding in findings:
        place = f"#{finding.pointer}"
        print(f"{finding.verdict:<11}{place:<40} {finding.detail}")
    print("not supported" if refused else "supported")
    return USAGE if refused else OK


def refusals(grammar: Grammar, vocabulary: Any) -> Iterator[Finding]:
    """What makes `compile` refuse the grammar; each refused keyword is taken out to find the next one."""
    for _ in range(_MOST_REFUSALS):
        try:
            compile_grammar(grammar, vocabulary)
            if isinstance(grammar, JsonSchema):
                check_reachable(root_value(grammar), _MOST_POSITIONS)
        except GrammarError as error:
            pointer, keyword = getattr(error, "pointer", None), getattr(error, "keyword", None)
            message = getattr(error, "message", str(error))
            yield Finding(pointer or "", "refused", f"{keyword}: {message}" if keyword else message)
            if not isinstance(grammar, JsonSchema) or pointer is None or keyword is None:
                return
            shorter = _without(grammar.document, pointer, keyword)
            if shorter is None:
                return
            grammar = JsonSchema(
                shorter, grammar.whitespace, grammar.property_order, grammar.formats, grammar.draft,
                {uri: text for uri, text in grammar.resources}, grammar.escapes,
            )  # fmt: skip
        else:
            return


def supported(grammar: JsonSchema, refused: set[tuple[str, str]]) -> Iterator[Finding]:
    """The keywords at each place: asserted, or mere annotations, and why where that may surprise."""
    for place in roles(grammar):
        asserted = [keyword for keyword in place.asserted if (place.pointer, keyword) not in refused]
        annotations = [
            f"{keyword} ({reason})" if reason else keyword
            for keyword, reason in place.annotations
            if (place.pointer, keyword) not in refused
        ]
        if asserted:
            yield Finding(place.pointer, "asserted", ", ".join(asserted))
        if annotations:
            yield Finding(place.pointer, "annotation", ", ".join(annotations))


def _without(document: Any, pointer: str, keyword: str) -> Any:
    """A copy of the document without one keyword; `None` where the pointer leads nowhere."""
    shorter = copy.deepcopy(document)
    place = shorter
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        try:
            place = place[int(name)] if isinstance(place, list) else place[name]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    if not isinstance(place, dict) or keyword not in place:
        return None
    del place[keyword]
    return shorter
