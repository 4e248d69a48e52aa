"""Random walks through real schemas: whether each ends within its budget in a document that other validators accept.

    python benchmarks/never_stuck.py ../shared/data/maskbench-dev.jsonl.xz --tokenizer llama3.json --tokenizer llama2.json

A walk draws its tokens uniformly from what the mask of each step allows, with a budget of tokens. It must come to an end
token within the budget, and its document must be an instance by every validator that takes the schema. Input lines are
JSON objects with `id` and `schema`, compressed with xz or not.

Uniform tokens are the hardest case for a budget: in every string nearly all that is allowed goes on, so only the budget
ends it.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import statistics
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema_rs
import numpy as np

from constrained import BudgetError, Vocabulary, compile
from constrained.errors import ResultError
from constrained.json_numbers import plain, read_exact
from constrained.validation import JsonCheck
from grammars import GrammarError, JsonSchema

Check = Callable[[str, Any], str | None]
"""Takes a text and its document; answers what is wrong with it."""


@dataclass
class Tally:
    """What became of the walks with one tokenizer."""

    outcomes: Counter[str] = field(default_factory=Counter)
    tokens: int = 0
    mask_seconds: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def note(self, outcome: str, record: dict[str, Any], detail: object) -> None:
        self.outcomes[outcome] += 1
        self.notes.append(json.dumps({"outcome": outcome, "id": record["id"], "detail": str(detail)}))


def records(path: Path) -> list[dict[str, Any]]:
    """The records of a file of lines."""
    data = path.read_bytes()
    text = lzma.decompress(data) if path.suffix == ".xz" else data
    return [json.loads(line) for line in text.splitlines()]


def vocabulary_of(path: Path) -> Vocabulary:
    """The vocabulary of a tokenizer.json, compressed with xz or not."""
    if path.suffix != ".xz":
        return Vocabulary.from_tokenizer_json(path)
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "tokenizer.json"
        plain.write_bytes(lzma.decompress(path.read_bytes()))
        return Vocabulary.from_tokenizer_json(plain)


def checks(grammar: JsonSchema, schema: Any, names: list[str]) -> Iterator[tuple[str, Check]]:
    """The validators that take the schema, with formats asserted."""
    if "jsonschema" in names:
        exact = JsonCheck(grammar)

        def by_jsonschema(text: str, _: Any) -> str | None:
            try:
                exact.parse(text)
            except ResultError as error:
                return str(error)
            return None

        yield "jsonschema", by_jsonschema
    if "jsonschema-rs" in names:
        try:
            validator = jsonschema_rs.validator_for(schema, validate_formats=True)
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
            return  # it refuses the schema itself

        def by_jsonschema_rs(_: str, document: Any) -> str | None:
            return next((error.message for error in validator.iter_errors(document)), None)

        yield "jsonschema-rs", by_jsonschema_rs


def walk(matcher: Any, vocabulary: Vocabulary, rng: random.Random, seconds: list[float]) -> list[int]:
    """Tokens drawn uniformly from what is allowed, to the end token; how long each mask and commit took is appended."""
    row = np.zeros(vocabulary.row_words, dtype=np.uint32)
    tokens: list[int] = []
    while not matcher.is_finished():
        begin = time.perf_counter()
        matcher.fill_mask(row)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        if not len(allowed):
            raise AssertionError("nothing is allowed")
        tokens.append(int(rng.choice(allowed)))
        matcher.accept(tokens[-1])
        seconds.append(time.perf_counter() - begin)
    return tokens


def walks_of(record: dict[str, Any], vocabulary: Vocabulary, arguments: argparse.Namespace, tally: Tally) -> None:
    """Compile one schema and walk through it; every outcome goes into the tally."""
    try:
        grammar = JsonSchema(record["schema"], property_order=arguments.order)
        constraint = compile(grammar, vocabulary)
        validators = list(checks(grammar, record["schema"], arguments.validators.split(",")))
    except GrammarError as error:
        tally.note(f"does not compile: {type(error).__name__}", record, error)
        return
    for number in range(arguments.walks):
        rng = random.Random(f"{arguments.seed} {record['id']} {number}")
        begin = time.perf_counter()
        slowest: list[float] = []
        try:
            matcher = constraint.matcher(max_tokens=arguments.budget)
            start = time.perf_counter() - begin
            tokens = walk(matcher, vocabulary, rng, slowest)
        except BudgetError as error:
            tally.note("needs more than the budget", record, error)
            return
        except (GrammarError, AssertionError) as error:
            tally.note(f"stuck: {type(error).__name__}", record, error)
            continue
        tally.tokens += len(tokens)
        tally.mask_seconds += slowest
        if start > arguments.slow or max(slowest) > arguments.slow:
            place = int(np.argmax(slowest))
            tally.note(
                f"slower than {arguments.slow:g} s",
                record,
                f"start {start:.2f} s, token {place} {slowest[place]:.2f} s",
            )
            tally.outcomes[f"slower than {arguments.slow:g} s"] -= 1
        data = b"".join(vocabulary.token_bytes(token) or b"" for token in tokens[:-1])
        try:
            text = data.decode()
            document = plain(read_exact(text))  # numbers of any size
        except ValueError as error:
            tally.note("no JSON", record, f"{error}: {data!r}")
            continue
        wrong = [f"{name}: {found}" for name, check in validators if (found := check(text, document)) is not None]
        if wrong:
            tally.note("refused by a validator", record, f"{'; '.join(wrong)} -- {text}")
        else:
            tally.outcomes["finished, valid"] += 1


def main() -> int:
    """Walk, print a table; 1 if a walk got stuck or a validator refused what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("schemas", type=Path, help="lines of {id, schema}, .xz or not")
    parser.add_argument(
        "--tokenizer", type=Path, action="append", required=True, help="a tokenizer.json, .xz or not; may be repeated"
    )
    parser.add_argument("-n", type=int, default=500, help="schemas, drawn at random")
    parser.add_argument("--skip", type=int, default=0, help="leave out the first of those drawn")
    parser.add_argument("--walks", type=int, default=3, help="walks a schema and tokenizer")
    parser.add_argument("--budget", type=int, default=200, help="tokens of a walk")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--order", choices=("schema", "any"), default="schema", help="property_order")
    parser.add_argument("--validators", default="jsonschema,jsonschema-rs")
    parser.add_argument("--slow", type=float, default=1.0, help="seconds above which a start or a step is noted")
    parser.add_argument("--failures", type=Path, help="write what was noted here, a line each")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    drawn = records(arguments.schemas)
    random.Random(arguments.seed).shuffle(drawn)
    drawn = drawn[arguments.skip : arguments.skip + arguments.n]
    tallies: dict[str, Tally] = {}
    for path in arguments.tokenizer:
        vocabulary = vocabulary_of(path)
        tally = tallies[path.name.removesuffix(".xz").removesuffix(".json")] = Tally()
        for record in drawn:
            walks_of(record, vocabulary, arguments, tally)
            if arguments.failures is not None:
                arguments.failures.write_text("".join(note + "\n" for each in tallies.values() for note in each.notes))
    print_table(tallies, len(drawn), arguments)
    return int(any(is_failure(outcome) for tally in tallies.values() for outcome in +tally.outcomes))


def is_failure(outcome: str) -> bool:
    """Whether an outcome breaks the promise."""
    return outcome.startswith(("stuck", "no JSON", "refused"))


def print_table(tallies: dict[str, Tally], schemas: int, arguments: argparse.Namespace) -> None:
    """A markdown table, a column for each tokenizer."""
    print(f"{schemas} schemas, {arguments.walks} walks each, {arguments.budget} tokens, order {arguments.order!r}\n")
    print("| | " + " | ".join(tallies) + " |\n|---|" + "---:|" * len(tallies))
    for outcome in sorted({outcome for tally in tallies.values() for outcome in +tally.outcomes}):
        print(f"| {outcome} | " + " | ".join(str(tally.outcomes[outcome]) for tally in tallies.values()) + " |")
    print("| tokens | " + " | ".join(f"{tally.tokens:,}" for tally in tallies.values()) + " |")
    for name, quantile in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)):
        print(
            f"| mask and commit, {name}, ms | "
            + " | ".join(at(tally.mask_seconds, quantile) for tally in tallies.values())
            + " |"
        )
    print(
        "| mean, ms | "
        + " | ".join(f"{1e3 * statistics.fmean(tally.mask_seconds or [0]):.2f}" for tally in tallies.values())
        + " |"
    )


def at(seconds: list[float], quantile: float) -> str:
    """A quantile in milliseconds."""
    ordered = sorted(seconds or [0.0])
    return f"{1e3 * ordered[min(len(ordered) - 1, int(quantile * len(ordered)))]:.2f}"


if __name__ == "__main__":
    sys.exit(main())
