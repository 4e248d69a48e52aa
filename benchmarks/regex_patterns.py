"""Regular expressions: how long they take to compile and to the first mask, on patterns of real schemas and on hard ones.

    python benchmarks/regex_patterns.py --schemas maskbench.jsonl.xz --tokenizer tokenizer.json

Patterns are the values of `pattern` in the schemas (JSON Lines of {"schema": ...}), read as ECMA-262, the first of them in
a random order, and those of this file.  Times are CPU time of the thread; each pattern is compiled once, in one store.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np

from constrained import Vocabulary, compile
from constrained.bench.masks import summary
from grammars import Regex
from grammars.errors import GrammarError, LimitExceeded

HARD = [
    r"(a+)+b", r"(a|a)*b", r"(a|aa)+$", r"^(([a-z])+.)+[A-Z]([a-z])+$", r"(?:(?!-->).)*-->",
    r"^(?=.*\d)(?=.*[a-z])(?=.*[A-Z]).{8,64}$",
    r"^(?=.{1,253}$)(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*$", r"^.{0,10000}$", r"^(a?){60}a{60}$",
    r"^(.{0,30}x){5}$", r"[ab]*a[ab]{12}", r"\b\w+\b.*\b\w+\b", r"^\p{L}{1,200}$", r"^[\p{L}\p{N} .,'-]{2,100}$",
    r"^(?!.*(foo|bar|baz)).*$", r"^((25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(25[0-5]|2[0-4]\d|1?\d?\d)$", r"(x+x+)+y",
    r"^([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}$|^::$", r"^(?:[a-z0-9]{2}){1,500}$", r"^((a{1,20}b){1,20}c){1,20}$",
    r"^(?=a*b)(?=.*c)[abc]{1,50}$", r"^(\w+\s){0,50}\w+$", r"(?i)^(?:monday|tuesday|wednesday|thursday|friday)(?!.*x)",
    r"^(?:(?:a|b|c|d|e){1,40}){1,40}$", r"^[^\s]+(\s+[^\s]+){0,255}$",
]  # fmt: skip


def patterns_of(path: Path) -> list[str]:
    """The distinct values of `pattern` in the schemas of a file, in their order."""
    found: dict[str, None] = {}
    with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as lines:
        for line in lines:
            found.update(dict.fromkeys(_patterns(json.loads(line)["schema"])))
    return list(found)


def _patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        for value in schema.values():
            yield from _patterns(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _patterns(value)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", type=Path, help="JSON Lines of schemas; without it, the hard patterns alone")
    parser.add_argument("--tokenizer", type=Path, help="tokenizer.json; without it, one token for each byte")
    parser.add_argument("-n", type=int, default=400, help="patterns of the schemas (400)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slowest", type=int, default=5, help="how many of the slowest are shown (5)")
    options = parser.parse_args()
    real = patterns_of(options.schemas) if options.schemas is not None else []
    random.Random(options.seed).shuffle(real)
    if options.tokenizer is None:
        vocabulary = Vocabulary.from_token_bytes([*(bytes([one]) for one in range(256)), None], eos_token_ids=[256])
    else:
        vocabulary = Vocabulary.from_tokenizer_json(options.tokenizer)
    row = np.zeros(vocabulary.row_words, dtype=np.uint32)
    warm = compile(Regex("[a-z]+é?(?=x)x"), vocabulary).matcher()
    warm.fill_mask(row)
    for title, patterns in (("of schemas", real[: options.n]), ("hard", HARD)):
        times: list[tuple[float, float, str]] = []
        refused: list[str] = []
        for pattern in patterns:
            started = thread_time()
            try:
                matcher = compile(Regex(pattern, dialect="ecma"), vocabulary).matcher()
                compiled = thread_time() - started
                matcher.fill_mask(row)
                times.append((compiled * 1e6, (thread_time() - started) * 1e6, pattern))
            except LimitExceeded as error:
                refused.append(f"LimitExceeded after {thread_time() - started:.1f} s: {pattern[:80]!r}: {error}")
            except GrammarError as error:
                refused.append(f"{type(error).__name__}: {pattern[:80]!r}: {error}")
        print(f"{len(patterns)} patterns {title}: {len(refused)} refused")
        for name, column in (("compile", 0), ("first mask", 1)):
            print(f"  {name:<11}", {key: value for key, value in summary([one[column] for one in times]).items()}, "us")
        for one in sorted(times, reverse=True)[: options.slowest]:
            print(f"  {one[0] / 1e3:8.2f} ms {one[2][:100]!r}")
        for line in refused:
            print(" ", line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
