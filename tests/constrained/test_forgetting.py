"""What grammars leave behind is bounded, however many are compiled: nothing grows with their number."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import pytest

from constrained import Limits, Vocabulary, compile
from constrained.automata.machine import Machine
from constrained.source_bytes import source_bytes
from grammars import AnyText, Gbnf, Grammar, JsonSchema, Lark, LimitExceeded, Regex, Sequence
from grammars.memory import forget, forgets, forgets_no_more, remembered
from grammars.regular import literal
from grammars.regular.rx import table_size

BYTES = Vocabulary.from_token_bytes([*(bytes([byte]) for byte in range(256)), None], eos_token_ids=[256])
LIMITS = Limits(states=200_000, stack_depth=100, bytes=1 << 19)
ROUNDS = 16


def words(rng: random.Random, count: int) -> list[str]:
    return ["".join(rng.choices("abcdefgh", k=12)) for _ in range(count)]


KINDS: dict[str, Callable[[random.Random], Grammar]] = {
    "patterns": lambda rng: JsonSchema(
        {"type": "string", "pattern": f"^{rng.choice(words(rng, 1))}.{{60}}[ab]", "maxLength": 90}
    ),
    "documents of which little is used": lambda rng: JsonSchema(
        {"type": "boolean", "$defs": {word: {"properties": {"a": {"type": "string"}}} for word in words(rng, 300)}}
    ),
    "Lark": lambda rng: Lark("start: " + " | ".join(f'"{word}" X' for word in words(rng, 20)) + "\nX: /[a-z]{3}/\n"),
}


def used(kind: Callable[[random.Random], Grammar]) -> Iterator[None]:
    """Compiles one grammar after the other, none like another, and walks a little in each."""
    rng = random.Random(5)
    row = np.empty(BYTES.row_words, dtype=np.uint32)
    while True:
        with suppress(LimitExceeded):
            matcher = compile(kind(rng), BYTES, LIMITS).matcher()
            for _ in range(12):
                matcher.fill_mask(row)
                allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
                matcher.accept(int(allowed[rng.randrange(len(allowed))]))
                if matcher.is_finished():
                    break
        yield


@pytest.mark.parametrize("kind", KINDS)
def test_grammars_that_come_and_go_leave_no_more_than_the_limit_allows(kind: str) -> None:
    going = used(KINDS[kind])
    counts: list[tuple[int, int]] = []
    for at in range(ROUNDS):
        next(going)
        if at % 2:
            gc.collect()
            counts.append((table_size(), len(gc.get_objects())))
    half = len(counts) // 2
    for early, late in zip(
        *[(max(at) for at in zip(*part, strict=True)) for part in (counts[:half], counts[half:])], strict=True
    ):
        assert late < 1.1 * early + 500, counts


def test_languages_count_wherever_they_are_kept() -> None:
    machine = Machine(1)
    before = machine.bytes_used()
    kept = [literal(f"word-{number}") for number in range(2_000)]
    gc.collect()
    assert machine.bytes_used() - before > 500 * len(kept)
    kept.clear()
    gc.collect()
    assert machine.bytes_used() - before < 500 * 200


def test_past_the_bytes_what_is_remembered_is_let_go() -> None:
    calls: list[None] = []
    forgetting = forgets(lambda: calls.append(None))
    try:
        going = used(KINDS["patterns"])
        for _ in range(ROUNDS):
            next(going)
    finally:
        forgets_no_more(forgetting)
    assert 0 < len(calls) < ROUNDS


def test_what_is_remembered_is_made_again_behind_forgetting() -> None:
    calls: list[int] = []

    @remembered(4)
    def square(number: int) -> int:
        calls.append(number)
        return number * number

    assert [square(2), square(2)] == [4, 4]
    forget()
    assert square(2) == 4
    assert calls == [2, 2]


def test_texts_count_wherever_they_are_in_a_grammar() -> None:
    text = "x" * 1_000
    alone = source_bytes(Regex(text))
    assert alone >= 1_000
    assert source_bytes(Sequence(AnyText(), Regex(text))) >= alone
    schema = JsonSchema({"description": text})
    assert source_bytes(Sequence(AnyText(), schema)) >= source_bytes(schema) > 1_000
    assert source_bytes(JsonSchema({}, resources={"https://example.org/a": {"description": text}})) > 1_000
    assert source_bytes(Lark(f'start: "{text}"')) > source_bytes(Gbnf(f'root ::= "{text}"')) > alone
