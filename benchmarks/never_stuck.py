"""Random walks through real schemas: whether each ends within its budget in a document that other validators accept.

    python benchmarks/never_stuck.py ../shared/data/maskbench-dev.jsonl.xz --tokenizer llama3.json --tokenizer llama2.json

A walk draws its tokens uniformly from what the mask of each step allows, with a budget of tokens. It must come to an end
token within the budget, and its document must be an instance by every validator that takes the schema. Input lines are
JSON objects with `id` and `schema`, compressed with xz or not.

Uniform tokens are the hardest case for a budget: in every string nearly all that is allowed goes on, so only the budget
ends it.

Long runs are cut with `--skip` and `-n`, and each walk has its own seed, made of `--seed`, the schema and the number of the
walk: `--first-walk` goes on counting where an earlier run stopped.  With `--results` each schema is a line of a file as soon
as its walks have ended; what the file has already is not walked again, and the table is that of the whole file.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import numpy as np
from numpy.typing import NDArray

from constrained import BudgetError, Matcher, Vocabulary, compile
from constrained.errors import ResultError
from constrained.json_numbers import Json, Literal, plain, read_exact
from constrained.limits import DEFAULT_LIMITS
from constrained.validation import JsonCheck
from grammars import GrammarError, JsonSchema

Check = Callable[[str, Any], str | None]
"""Takes a text and its document; answers what is wrong with it."""


BUCKETS = [10 ** (power / 20) for power in range(-40, 101)]
"""Milliseconds up to which a step is in a bucket; a twentieth of a power of ten is finer than timings repeat."""


@dataclass
class Tally:
    """What became of walks."""

    outcomes: Counter[str] = field(default_factory=Counter)
    tokens: int = 0
    buckets: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0
    slowest: float = 0.0
    notes: list[dict[str, str]] = field(default_factory=list)

    def note(self, outcome: str, record: dict[str, Any], detail: object) -> None:
        self.outcomes[outcome] += 1
        self.notes.append({"outcome": outcome, "id": record["id"], "detail": str(detail)})

    def time(self, steps: list[float]) -> None:
        """Seconds of masks and commits."""
        self.tokens += len(steps)
        self.seconds += sum(steps)
        self.slowest = max(self.slowest, max(steps, default=0.0))
        self.buckets.update(np.searchsorted(BUCKETS, np.array(steps) * 1e3).tolist())

    def add(self, other: Tally) -> None:
        self.outcomes += other.outcomes
        self.tokens += other.tokens
        self.buckets += other.buckets
        self.seconds += other.seconds
        self.slowest = max(self.slowest, other.slowest)
        self.notes += other.notes

    def quantile(self, share: float) -> float:
        """Milliseconds that so large a share of the steps took at most, to the bucket."""
        wanted = share * self.tokens
        for bucket in sorted(self.buckets):
            wanted -= self.buckets[bucket]
            if wanted <= 0:
                return min(BUCKETS[min(bucket, len(BUCKETS) - 1)], 1e3 * self.slowest)
        return 1e3 * self.slowest

    def line(self) -> dict[str, Any]:
        """As JSON."""
        return {**vars(self), "buckets": sorted(self.buckets.items())}

    @classmethod
    def of_line(cls, line: dict[str, Any]) -> Tally:
        return cls(
            Counter(line["outcomes"]),
            line["tokens"],
            Counter(dict(line["buckets"])),
            line["seconds"],
            line["slowest"],
            line["notes"],
        )


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


def whole_as_int(value: Json) -> Json:
    """A document with plain numbers for jsonschema-rs: whole ones as `int`, since beyond 2^53 a `float` is another number."""
    if isinstance(value, dict):
        return {key: whole_as_int(member) for key, member in value.items()}
    if isinstance(value, list):
        return [whole_as_int(item) for item in value]
    if isinstance(value, Literal) and value.adjusted() < 400 and value == value.to_integral_value():
        return int(value)
    return plain(value)


def drawn(row: NDArray[np.uint32], rng: random.Random) -> int:
    """One of the tokens of a row, each as likely as any other."""
    counts = np.cumsum(np.bitwise_count(row), dtype=np.int64)
    if not counts[-1]:
        raise AssertionError("nothing is allowed")
    rank = rng.randrange(int(counts[-1]))
    word = int(np.searchsorted(counts, rank, side="right"))
    bits = int(row[word])
    for _ in range(rank - int(counts[word - 1] if word else 0)):
        bits &= bits - 1
    return word * 32 + (bits & -bits).bit_length() - 1


def walk(matcher: Matcher, row: NDArray[np.uint32], rng: random.Random, steps: list[float]) -> list[int]:
    """Tokens drawn uniformly from what is allowed, to the end token; the seconds of this thread that each mask and commit took are
    appended."""
    tokens: list[int] = []
    while not matcher.is_finished():
        begin = time.thread_time()
        matcher.fill_mask(row)
        masked = time.thread_time()
        tokens.append(drawn(row, rng))
        commit = time.thread_time()
        matcher.accept(tokens[-1])
        steps.append(masked - begin + time.thread_time() - commit)
    return tokens


def walks_of(record: dict[str, Any], vocabulary: Vocabulary, arguments: argparse.Namespace) -> Tally:
    """Compile one schema and walk through it."""
    tally = Tally()
    row = np.zeros(vocabulary.row_words, dtype=np.uint32)
    try:
        grammar = JsonSchema(record["schema"], property_order=arguments.order)
        limits = replace(DEFAULT_LIMITS, step_seconds=arguments.step_seconds)
        constraint = compile(grammar, vocabulary, limits)
        validators = list(checks(grammar, record["schema"], arguments.validators.split(",")))
    except GrammarError as error:
        tally.note(f"does not compile: {type(error).__name__}", record, error)
        return tally
    for number in range(arguments.first_walk, arguments.first_walk + arguments.walks):
        rng = random.Random(f"{arguments.seed} {record['id']} {number}")
        steps: list[float] = []
        begin = time.thread_time()
        try:
            matcher = constraint.matcher(max_tokens=arguments.budget)
            start = time.thread_time() - begin
            tokens = walk(matcher, row, rng, steps)
        except BudgetError as error:
            tally.note("needs more than the budget", record, error)
            return tally
        except (GrammarError, AssertionError) as error:
            tally.note(f"stuck: {type(error).__name__}", record, f"walk {number}, token {len(steps)}: {error}")
            continue
        tally.time(steps)
        if start > arguments.slow or max(steps) > arguments.slow:
            place = int(np.argmax(steps))
            slow = f"slower than {arguments.slow:g} s"
            tally.note(slow, record, f"walk {number}, start {start:.2f} s, token {place} {steps[place]:.2f} s")
        data = b"".join(vocabulary.token_bytes(token) or b"" for token in tokens[:-1])
        try:
            text = data.decode()
            document = whole_as_int(read_exact(text))
        except ValueError as error:
            tally.note("no JSON", record, f"{error}: {data!r}")
            continue
        wrong = [f"{name}: {found}" for name, check in validators if (found := check(text, document)) is not None]
        if wrong:
            tally.note("refused by a validator", record, f"{'; '.join(wrong)} -- {text}")
        else:
            tally.outcomes["finished, valid"] += 1
    return tally


def main() -> int:
    """Walk, print a table; 1 if a walk got stuck or a validator refused what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("schemas", type=Path, help="lines of {id, schema}, .xz or not")
    parser.add_argument(
        "--tokenizer", type=Path, action="append", required=True, help="a tokenizer.json, .xz or not; may be repeated"
    )
    parser.add_argument("-n", type=int, default=500, help="schemas, drawn at random")
    parser.add_argument("--skip", type=int, default=0, help="leave out the first of those drawn")
    parser.add_argument("--ids", help="of those, the ones whose id matches a regular expression")
    parser.add_argument("--walks", type=int, default=3, help="walks a schema and tokenizer")
    parser.add_argument("--first-walk", type=int, default=0, help="the number of the first one")
    parser.add_argument("--budget", type=int, default=200, help="tokens of a walk")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--order", choices=("schema", "any"), default="schema", help="property_order")
    parser.add_argument("--validators", default="jsonschema,jsonschema-rs")
    parser.add_argument(
        "--slow", type=float, default=1.0, help="seconds of this thread above which a start or a step is noted"
    )
    parser.add_argument(
        "--step-seconds",
        type=float,
        default=DEFAULT_LIMITS.step_seconds,
        help="Limits.step_seconds, by the clock on the wall",
    )
    parser.add_argument("--failures", type=Path, help="write what was noted here, a line each")
    parser.add_argument(
        "--results", type=Path, help="a line for each schema, tokenizer and first walk; goes on where it stops"
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    schemas = records(arguments.schemas)
    random.Random(arguments.seed).shuffle(schemas)
    schemas = schemas[arguments.skip : arguments.skip + arguments.n]
    if arguments.ids:
        schemas = [record for record in schemas if re.search(arguments.ids, record["id"])]
    tallies: dict[str, Tally] = {}
    known = set(kept(arguments.results, tallies))
    for path in arguments.tokenizer:
        name = path.name.removesuffix(".xz").removesuffix(".json")
        vocabulary = vocabulary_of(path)
        for record in schemas:
            place = (name, record["id"], arguments.first_walk)
            if place in known:
                continue
            tally = walks_of(record, vocabulary, arguments)
            tallies.setdefault(name, Tally()).add(tally)
            if arguments.results is not None:
                with arguments.results.open("a") as file:
                    file.write(json.dumps({"place": place, **tally.line()}) + "\n")
    if arguments.failures is not None:
        notes = [note for tally in tallies.values() for note in tally.notes]
        arguments.failures.write_text("".join(json.dumps(note) + "\n" for note in notes))
    print(f"{arguments.budget} tokens, order {arguments.order!r}\n")
    print_table(tallies)
    return int(any(is_failure(outcome) for tally in tallies.values() for outcome in tally.outcomes))


def kept(path: Path | None, tallies: dict[str, Tally]) -> Iterator[tuple[str, str, int]]:
    """What a file of results has: added to the tallies, and named."""
    if path is not None and path.exists():
        for text in path.read_text().splitlines():
            line = json.loads(text)
            name, schema, first = line["place"]
            tallies.setdefault(name, Tally()).add(Tally.of_line(line))
            yield name, schema, first


def is_failure(outcome: str) -> bool:
    """Whether an outcome breaks the promise."""
    return outcome.startswith(("stuck", "no JSON", "refused"))


def print_table(tallies: dict[str, Tally]) -> None:
    """A markdown table, a column for each tokenizer."""
    columns = tallies.values()
    print("| | " + " | ".join(tallies) + " |\n|---|" + "---:|" * len(tallies))

    def line(name: str, cells: Iterable[object]) -> None:
        print(f"| {name} | " + " | ".join(map(str, cells)) + " |")

    for outcome in sorted({outcome for tally in columns for outcome in tally.outcomes}):
        line(outcome, [tally.outcomes[outcome] for tally in columns])
    line("tokens", [f"{tally.tokens:,}" for tally in columns])
    for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)):
        line(f"mask and commit, {name}, ms", [f"{tally.quantile(share):.2f}" for tally in columns])
    line("max, ms", [f"{1e3 * tally.slowest:.2f}" for tally in columns])
    line("mean, ms", [f"{1e3 * tally.seconds / max(1, tally.tokens):.2f}" for tally in columns])


if __name__ == "__main__":
    sys.exit(main())
