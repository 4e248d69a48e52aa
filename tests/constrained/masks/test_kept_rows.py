"""Rows on disk: found again by other stores and processes, never wrong, never in the way."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from constrained import JsonSchema, Vocabulary
from constrained.cache_folder import checksum
from constrained.limits import Limits
from constrained.masks import kept_rows, row_store
from constrained.masks.kept_rows import KeptRows, LocalRow
from constrained.masks.row_store import RowStore
from grammars.json_schema.formats import format_rx
from grammars.regex import parse
from grammars.regular import Rx, Unfolding, concat, language_digest, literal, literals, unfold
from tests.constrained.languages import constraint_on, mask

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SCHEMAS = [
    {"type": "string"},
    {"type": "string", "maxLength": 30, "minLength": 3},
    {"type": "string", "pattern": "^[a-m]+ [A-Z]"},
    {"type": "string", "pattern": "ab.*cd"},
    {"type": "string", "format": "date-time"},
    {"type": "object", "properties": {"name": {"type": "string"}}},
]
LIMITS = Limits(states=100_000, stack_depth=100, bytes=32 << 20)


def large_vocabulary() -> Vocabulary:
    """5,000 tokens."""
    words = ["".join(word).encode() for size in (2, 3) for word in itertools.product(LETTERS, repeat=size)]
    return Vocabulary.from_token_bytes(
        [*(bytes([byte]) for byte in range(256)), *words[:4750], None], eos_token_ids=[5006]
    )


WORDS = large_vocabulary()


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Rows are kept in an empty folder, however cheap they are."""
    monkeypatch.setenv("CONSTRAINED_CACHE", str(tmp_path))
    monkeypatch.setenv(kept_rows.ENVIRONMENT, "1")
    monkeypatch.setattr(kept_rows, "_in_use", {})
    monkeypatch.setattr(row_store, "LEAST_COST", 0)
    return tmp_path / "rows"


def masks(vocabulary: Vocabulary = WORDS) -> tuple[list[set[int]], RowStore]:
    """Masks in strings, of a store as a new process would make it."""
    kept_rows._in_use.clear()
    store = RowStore(vocabulary, LIMITS)
    found = []
    for schema in SCHEMAS:
        matcher = constraint_on(store, JsonSchema(schema), vocabulary).matcher()
        for byte in b'{"name":"ab' if schema["type"] == "object" else b'"ab':
            found.append(mask(matcher))
            if byte not in found[-1]:
                break
            matcher.accept(byte)
        found.append(mask(matcher))
    return found, store


def write() -> None:
    for rows in kept_rows._in_use.values():
        rows.write()


def test_rows_of_an_earlier_process_take_the_place_of_walks(kept: Path) -> None:
    made, store = masks()
    assert store.counters().kept_rows == 0
    write()
    assert len(list(kept.iterdir())) == 1
    again, other = masks()
    assert again == made
    assert other.counters().kept_rows >= 8
    assert other.counters().walked_nodes < store.counters().walked_nodes / 2
    other.evict()
    assert masks()[0] == made


def test_rows_are_found_by_another_process() -> None:
    script = (
        "import sys; from constrained.masks import row_store; row_store.LEAST_COST = 0\n"
        "from tests.constrained.masks import test_kept_rows as t\n"
        "found, store = t.masks(); print(store.counters().kept_rows, [sorted(one)[:50] for one in found])"
    )
    runs = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True) for _ in range(2)
    ]
    (first, rows), (second, rows_again) = (run.stdout.split(" ", 1) for run in runs)
    assert int(first) == 0
    assert int(second) >= 8
    assert rows == rows_again


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "other magic", "other head", "folder", "other name"])
def test_a_file_that_does_not_check_out_is_ignored_and_written_again(kept: Path, damage: str) -> None:
    made, _ = masks()
    write()
    (path,) = kept.iterdir()
    good = data = path.read_bytes()
    if damage == "flipped":
        data = data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]
    elif damage == "other magic":
        data = b"something else" + data
    elif damage == "other head":
        body = json.dumps(["other.rows", [["key", "no list", 3, 4]]]).encode() + b"\nrows"
        data = kept_rows._MAGIC + checksum([body]) + body
    elif damage == "other name":  # the sound file of another vocabulary, or of other code
        body = good[len(kept_rows._MAGIC) + 32 :].replace(path.name.encode(), path.name[::-1].encode())
        data = kept_rows._MAGIC + checksum([body]) + body
    data = {"empty": b"", "cut": data[:-1]}.get(damage, data)
    path.unlink()
    if damage == "folder":
        path.mkdir()
    else:
        path.write_bytes(data)
    again, store = masks()
    assert again == made
    assert store.counters().kept_rows == 0
    write()
    if damage == "folder":
        assert path.is_dir()
    else:
        assert len(path.read_bytes()) == len(good)
        assert masks()[1].counters().kept_rows >= 8


def test_a_folder_that_cannot_be_written_to_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("CONSTRAINED_CACHE", str(tmp_path / "file" / "below"))
    masks()
    write()
    assert (tmp_path / "file").read_bytes() == b""


def row_of(cost: int, size: int = 160) -> LocalRow:
    chance = np.random.default_rng(cost)
    dense = chance.integers(0, 1 << 32, size=size, dtype=np.uint32)
    return LocalRow(dense, np.array([[cost, -1, 1]], dtype=np.int32), cost)


def keep_some(first: int) -> None:
    for number in range(first, first + 20):
        rows = KeptRows("fingerprint", 160)
        rows.put(False, (literal(f"word {number}"),), row_of(number + 1))
        rows.write()


def test_processes_that_write_at_the_same_time_leave_a_sound_file(kept: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=keep_some, args=(first,)) for first in (0, 20, 40, 60)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * 4
    (path,) = kept.iterdir()  # and no part of a file beside it
    rows = KeptRows("fingerprint", 160)
    found = [number for number in range(80) if rows.get(False, (literal(f"word {number}"),)) is not None]
    assert len(found) == len(kept_rows._read(path).entries) >= 20
    for number in found:
        row = rows.get(False, (literal(f"word {number}"),))
        assert row is not None
        assert row.dense.tolist() == row_of(number + 1).dense.tolist()
        assert row.exits.tolist() == [[number + 1, -1, 1]]


def test_rows_of_all_forms_are_read_back_as_they_were() -> None:
    reference = row_of(5).dense | np.uint32(0x55555555)
    rows = {
        "most tokens": reference | row_of(6).dense,
        "nearly the same": np.where(np.arange(160) % 9 == 0, 0, reference | row_of(6).dense).astype(np.uint32),
        "few tokens": np.where(np.arange(160) % 50 == 3, 1 << 31, 0).astype(np.uint32),
        "none": np.zeros(160, dtype=np.uint32),
        "others": row_of(7).dense,
    }
    exits = np.array([[1, -1, 2], [300, -1, 1]], dtype=np.int32)
    for part in (list(rows)[:3], list(rows)[3:]):  # the second file has the reference of the first
        keeper = KeptRows("fingerprint", 160)
        for name in part:
            keeper.put(True, (literal(name),), LocalRow(rows[name], exits[: len(name) % 3], 7))
        keeper.write()
    again = KeptRows("fingerprint", 160)
    assert len({entry.form for entry in again._file.entries.values()}) == 3
    for name, dense in rows.items():
        found = again.get(True, (literal(name),))
        assert found is not None
        assert found.dense.tolist() == dense.tolist()
        assert found.exits.tolist() == exits[: len(name) % 3].tolist()
        assert found.cost == 7


def test_the_dearest_rows_are_kept_where_there_is_no_room_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_rows, "_MOST_BYTES", 10 * 700)
    monkeypatch.setattr(kept_rows, "_MOST_NEW", 15)
    rows = KeptRows("fingerprint", 160)
    for cost in range(1, 31):
        rows.put(False, (literal(f"word {cost}"),), row_of(cost))
    rows.write()
    again = KeptRows("fingerprint", 160)
    kept_costs = [cost for cost in range(1, 31) if again.get(False, (literal(f"word {cost}"),)) is not None]
    assert kept_costs == list(range(31 - len(kept_costs), 31))
    assert 5 <= len(kept_costs) <= 10
    assert again.get(True, (literal("word 30"),)) is None
    assert again.get(False, (literal("word 30"), literal("word 30"))) is None


def test_small_vocabularies_and_those_who_do_not_want_it_write_nothing(
    monkeypatch: pytest.MonkeyPatch, kept: Path
) -> None:
    masks(Vocabulary.from_token_bytes([*(bytes([byte]) for byte in range(256)), None], eos_token_ids=[256]))
    write()
    monkeypatch.setenv(kept_rows.ENVIRONMENT, "0")
    masks()
    write()
    assert not kept.exists()


def test_rows_are_not_kept_for_other_sources(monkeypatch: pytest.MonkeyPatch, kept: Path) -> None:
    masks()
    write()
    monkeypatch.setattr(kept_rows, "_version", lambda: "another")
    assert masks()[1].counters().kept_rows == 0
    write()
    assert len(list(kept.iterdir())) == 2


def languages() -> list[Rx]:
    patterns = [
        "a",
        "b",
        "ab",
        "a|b|cd",
        "a*",
        "a+",
        "a{2,5}",
        "a{2,6}",
        "(ab)*c",
        "c(ab)*",
        "[a-z]+|x{3}",
        "dog|cat|cow|[0-9]",
    ]
    formats = ["date-time", "email", "hostname", "idn-hostname", "regex", "time"]
    return [*map(parse, patterns), *[rx for name in formats if (rx := format_rx(name)) is not None]]


def test_digests_are_the_same_in_every_process_and_differ_for_different_languages() -> None:
    here = [digest.hex() for rx in languages() if (digest := language_digest(rx)) is not None]
    assert len(set(here)) == len(languages())
    script = (
        "from grammars.regex import parse; parse('z(y|x)*|a{7}')\n"  # so that serial numbers differ
        "from grammars.regular import language_digest\n"
        "from tests.constrained.masks.test_kept_rows import languages\n"
        "print(*[digest.hex() for rx in reversed(languages()) if (digest := language_digest(rx)) is not None])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    there = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert there.stdout.split() == here[::-1]


class Odd(Unfolding):
    """An odd number of letters, given by its moves."""

    nullable, order = False, 12345

    def moves(self) -> list[tuple[int, int, Rx]]:
        raise AssertionError("a digest needs no moves")


def test_languages_without_a_description_have_no_digest() -> None:
    odd = unfold(Odd())
    assert language_digest(odd) is None
    assert language_digest(concat(literal("ab"), odd)) is None
    assert language_digest(literals([f"{number:06}" for number in range(5_000)])) is None
