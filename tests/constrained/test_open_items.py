"""Items that must differ: which tokens run over the end of one, where that depends on what it was."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import jsonschema
import numpy as np
import pytest

from constrained import JsonSchema, Matcher, TokenRejected, Vocabulary, compile

PARTS = ['"', ",", "]", "[", "a", "{"]
JOINED = ["".join(parts) for length in (2, 3, 4) for parts in itertools.product(PARTS, repeat=length)]
LIKELY = [text for text in JOINED if any(cut in text for cut in ('",', '"]', "],", "]]"))]
TOKENS = [bytes([byte]) for byte in b' ,"[]{}:ab0123456789.e-truefalsn\\'] + [text.encode() for text in LIKELY]
WORDS = Vocabulary.from_token_bytes([*dict.fromkeys(TOKENS), b""], eos_token_ids=[len(dict.fromkeys(TOKENS))])
STRINGS: dict[str, Any] = {"type": "array", "uniqueItems": True, "items": {"type": "string"}}
LISTS = {"type": "array", "uniqueItems": True, "items": {"type": "array", "items": {"enum": ["a", "b"]}}}
SCHEMAS = [
    STRINGS,
    {"anyOf": [{"type": "array", "items": {"enum": ["a", "aa", []]}}, STRINGS]},
    {"anyOf": [STRINGS, {**STRINGS, "maxItems": 2, "items": {"enum": ["a", "b", "aa"]}}]},
    {"oneOf": [{**STRINGS, "items": {"maxLength": 1, "pattern": "^[ab]*$", "type": "string"}}, {"type": "array"}]},
    {"type": "array", "items": STRINGS, "uniqueItems": True, "maxItems": 3},
    {"type": "array", "items": {"type": "array", "items": {"enum": ["a", "b"]}, "not": {"uniqueItems": True}}},
    {"anyOf": [LISTS, {"type": "array", "items": STRINGS, "minItems": 2}, {"type": "array", "contains": {"const": "a"}}]},
    {"anyOf": [{"not": STRINGS, "type": "array", "maxItems": 3}, LISTS]},
]  # fmt: skip


def allowed(matcher: Matcher) -> list[int]:
    row = np.empty(WORDS.row_words, dtype=np.uint32)
    matcher.fill_mask(row)
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")[: WORDS.size]).tolist()


def accepted(matcher: Matcher) -> list[int]:
    """The tokens that a commit takes, which looks at the text."""
    found = []
    for token in range(WORDS.size):
        try:
            matcher.accept(token)
        except TokenRejected:
            continue
        found.append(token)
        matcher.rollback(1)
    return found


@pytest.mark.parametrize("schema", SCHEMAS, ids=json.dumps)
def test_masks_allow_just_what_commits_take_and_every_text_can_be_finished(schema: dict[str, Any]) -> None:
    constraint = compile(JsonSchema(schema, whitespace="compact"), WORDS)
    rng = random.Random(json.dumps(schema))
    for _ in range(12):
        matcher = constraint.matcher()
        for _ in range(9):
            tokens = allowed(matcher)
            assert tokens == accepted(matcher)
            going = [token for token in tokens if token not in WORDS.eos_token_ids]
            if not going:
                break
            over = [token for token in going if len(WORDS.token_bytes(token) or b"") > 1]
            matcher.accept(rng.choice(over if over and rng.random() < 0.7 else going))
            whole = matcher.text + matcher.shortest_completion()
            jsonschema.validate(json.loads(whole), schema)
