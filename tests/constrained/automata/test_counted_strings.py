"""Strings with a limit that is far away, against the same states made one by one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from constrained import Vocabulary
from constrained.automata import strings
from grammars import JsonSchema
from grammars.regular import ANY, repeat
from tests.constrained.languages import fresh_constraint

PIECES = [bytes([byte]) for byte in range(256)] + [
    b"aa",
    b"a b",
    b"\\n",
    b'\\"',
    b"\\u00e9",
    "é€".encode(),
    b'b"',
    b"  ",
    b"x" * 9,
]
VOCABULARY = Vocabulary.from_token_bytes([*PIECES, None], eos_token_ids=[len(PIECES)])

SCHEMAS: list[dict[str, Any]] = [
    {"maxLength": 40},
    {"maxLength": 70, "pattern": "^[a-z ]*$"},
    {"maxLength": 60, "pattern": r"^$|(^(?:\S+\s+){0,9}\S+$)"},
    {"maxLength": 45, "minLength": 3},
    {"maxLength": 50, "pattern": "^[aé]+$"},
]


def _walked(schema: dict[str, Any], escapes: str) -> list[tuple[bytes, NDArray[np.uint32]]]:
    """Texts and masks of random walks, mostly to the limit."""
    choice = random.Random(7)
    constraint = fresh_constraint(JsonSchema({"type": "string", **schema}, escapes=escapes), VOCABULARY)  # type: ignore[arg-type]
    found = []
    for _ in range(4):
        matcher = constraint.matcher()
        while not matcher.is_finished():
            row = np.zeros((VOCABULARY.size + 31) // 32, dtype=np.uint32)
            matcher.fill_mask(row)
            found.append((matcher.text, row))
            allowed = [token for token in range(VOCABULARY.size) if row[token >> 5] >> (token & 31) & 1]
            longer = [token for token in allowed if token < len(PIECES) and b'"' not in PIECES[token]]
            matcher.accept(choice.choice(longer if longer and choice.random() < 0.97 else allowed))
    return found


@pytest.mark.parametrize("escapes", ["any", "canonical"])
@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_runs_allow_what_single_states_allow(
    schema: dict[str, Any], escapes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = _walked(schema, escapes)
    assert max(len(text) for text, _ in counted) > 30
    monkeypatch.setattr(strings, "counted_state", lambda *_: 0)
    single = _walked(schema, escapes)
    assert len(counted) == len(single)
    for (text, row), (other_text, other_row) in zip(counted, single, strict=True):
        assert text == other_text
        assert (row == other_row).all(), text


def test_a_state_of_a_run_stands_for_the_language_that_is_left() -> None:
    constraint = fresh_constraint(JsonSchema({"type": "string", "maxLength": 1_000}), VOCABULARY)
    matcher = constraint.matcher()
    assert matcher.accept_many([ord('"'), *[ord("a")] * 10]) == 11
    key = constraint.store.machine.key(matcher.position()[0])
    assert key == (strings.expand_string, False, (repeat(ANY, 0, 990),))
    assert matcher.shortest_completion() == b'"'
