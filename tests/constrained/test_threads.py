"""Constraints shared between threads and between processes."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import threading
from collections.abc import Callable

import numpy as np

from constrained.compile import Constraint, compile
from constrained.masks.row_store import RowStore
from constrained.vocabulary import Vocabulary
from grammars import Choice, JsonSchema, Regex
from tests.constrained.languages import SMALL, constraint_on

WORDS = [
    b'{"',
    b'":',
    b'","',
    b"},{",
    b'"}',
    b"[[",
    b"]]",
    b"],[",
    b"true",
    b"null,",
    b"12",
    b".5",
    b"abc",
    b'"a',
    b'b"',
]
GRAMMARS = [
    JsonSchema({"type": "array", "items": {"$ref": "#"}}),
    JsonSchema({"type": "object", "additionalProperties": {"type": ["string", "number"]}}),
    JsonSchema({"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "number", "maximum": 10}]}}),
    JsonSchema({"type": "array", "items": {"type": "string", "maxLength": 4, "pattern": "^[ab]"}}),
    JsonSchema({
        "type": "object", "properties": {"a": {"type": "boolean"}, "abc": {"type": "null"}}, "required": ["abc"],
    }),
    JsonSchema(True, whitespace="any"),
    Regex(r"(ab|[0-9]{2,5},?)*"),
    Choice(["abc", "abd", "true", "é"]),
]  # fmt: skip


def vocabulary() -> Vocabulary:
    tokens: list[bytes | None] = [*(bytes([byte]) for byte in range(256)), *WORDS]
    return Vocabulary.from_token_bytes([*tokens, None], eos_token_ids=[len(tokens)])


def rows_of(constraint: Constraint, seed: int) -> list[bytes]:
    """The masks along a random walk that `seed` determines, every other one under a budget."""
    chance = random.Random(seed)
    matcher = constraint.matcher(max_tokens=30 if seed % 2 else None)
    rows = []
    for _ in range(30):
        row = np.empty(constraint.vocabulary.row_words, dtype=np.uint32)
        matcher.fill_mask(row)
        rows.append(row.tobytes())
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        if not len(allowed):
            break
        matcher.accept(int(chance.choice(allowed)))
    return rows


def in_eight_threads(work: Callable[[int], None]) -> list[object]:
    """What goes wrong in eight threads that take turns every ten microseconds."""
    failures: list[object] = []
    barrier = threading.Barrier(8)

    def run(number: int) -> None:
        barrier.wait()
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    return failures


def test_eight_threads_make_the_rows_that_one_makes() -> None:
    words = vocabulary()
    alone = [constraint_on(RowStore(words, SMALL), grammar, words) for grammar in GRAMMARS]
    jobs = [(index, seed) for index in range(len(GRAMMARS)) for seed in range(6)]
    expected = {job: rows_of(alone[job[0]], job[1]) for job in jobs}
    store = RowStore(words, SMALL)
    shared = [constraint_on(store, grammar, words) for grammar in GRAMMARS]
    failures: list[object] = []

    def work(number: int) -> None:
        mine = jobs.copy()
        random.Random(number).shuffle(mine)
        for index, seed in mine:
            if rows_of(shared[index], seed) != expected[index, seed]:
                failures.append((number, index, seed))

    failures += in_eight_threads(work)
    assert failures == []


def test_a_pickled_constraint_makes_the_same_rows_in_another_process() -> None:
    words = vocabulary()
    constraints = [compile(grammar, words) for grammar in GRAMMARS]
    expected = [rows_of(constraint, 3) for constraint in constraints]
    script = (
        "import pickle, sys; from tests.constrained.test_threads import rows_of\n"
        "constraints = pickle.load(sys.stdin.buffer)\n"
        "pickle.dump([rows_of(constraint, 3) for constraint in constraints], sys.stdout.buffer)"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, input=pickle.dumps(constraints), stdout=subprocess.PIPE, check=True)
    assert pickle.loads(done.stdout) == expected


def test_a_pickle_is_small_and_comes_back_equal_in_the_same_process() -> None:
    constraint = compile(GRAMMARS[0], vocabulary())
    rows_of(constraint, 1)
    again = pickle.loads(pickle.dumps(constraint))
    assert again.grammar == constraint.grammar
    assert again.vocabulary == constraint.vocabulary
    assert rows_of(again, 1) == rows_of(constraint, 1)
