"""Random walks through real schemas: whatever is allowed can be finished, and what comes out is valid.

A small fixed sample; `benchmarks/never_stuck.py` walks through as many schemas as one has time for.
"""

from __future__ import annotations

import json
import lzma
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import numpy as np
import pytest

from constrained import BudgetError, Vocabulary, compile
from constrained.validation import JsonCheck
from grammars import EmptyLanguage, JsonSchema, LimitExceeded

BUDGET = 120
EVERY = 375
# Schemas that end in a limit, or need more tokens than these walks have.
MOST_LEFT_OUT = 2


def records(folder: Path) -> Iterator[dict[str, Any]]:
    path = folder / "data" / "maskbench-dev.jsonl.xz"
    if not path.is_file():
        pytest.skip(f"needs {path.name}")
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number % EVERY == 7:
                yield json.loads(line)


def walk(grammar: JsonSchema, vocabulary: Vocabulary, rng: random.Random) -> str:
    """A text made of tokens that are drawn uniformly from what is allowed."""
    matcher = compile(grammar, vocabulary).matcher(max_tokens=BUDGET)
    row = np.zeros(vocabulary.row_words, dtype=np.uint32)
    tokens: list[int] = []
    while not matcher.is_finished():
        matcher.fill_mask(row)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        assert len(allowed), "nothing is allowed"
        tokens.append(int(rng.choice(allowed)))
        matcher.accept(tokens[-1])
    return b"".join(vocabulary.token_bytes(token) or b"" for token in tokens[:-1]).decode()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::grammars.json_schema.FormatWarning")
@pytest.mark.parametrize(("tokenizer", "order"), [("llama3", "schema"), ("llama2", "any")])
def test_random_walks_through_real_schemas_end_in_documents_that_two_validators_accept(
    shared_folder: Path, vocabulary_of: Callable[[str], Vocabulary], tokenizer: str, order: Any
) -> None:
    vocabulary = vocabulary_of(tokenizer)
    left_out, wrong, walks = [], [], 0
    for record in records(shared_folder):
        schema = record["schema"]
        grammar = JsonSchema(schema, property_order=order, formats="assert")
        try:
            text = walk(grammar, vocabulary, random.Random(record["id"]))
        except (LimitExceeded, BudgetError, EmptyLanguage) as error:
            left_out.append((record["id"], error))
            continue
        walks += 1
        document = JsonCheck(grammar).parse(text)
        try:
            validator = jsonschema_rs.validator_for(schema, validate_formats=True)
        except jsonschema_rs.ValidationError:
            continue  # it refuses the schema itself
        if not validator.is_valid(document):
            wrong.append((record["id"], text))
    assert walks > 5
    assert not wrong
    assert len(left_out) <= MOST_LEFT_OUT, left_out
