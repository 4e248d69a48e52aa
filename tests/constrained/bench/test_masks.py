from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from constrained.bench.masks import Case, DataError, Document, MaskBench, draw, read_cases, summary
from constrained.vocabulary import Vocabulary
from grammars import JsonSchema

INTEGER = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


def case(name: str, schema: Any, *documents: tuple[Any, bool]) -> Case:
    return Case(name, schema, tuple(Document(data, valid) for data, valid in documents))


@pytest.fixture(scope="module")
def vocabulary(make_vocabulary: Callable[..., Vocabulary]) -> Vocabulary:
    return make_vocabulary('{"', '": ', "bench")


def test_documents_are_judged_by_the_masks_and_the_end(vocabulary: Vocabulary) -> None:
    bench = MaskBench(vocabulary, JsonSchema)
    right = bench.replay(case("right", INTEGER, ({"a": 12}, True), ({"b": 1}, False)))
    assert right.refused is None
    assert right.wrong == ()
    assert right.ttfm is not None
    assert right.ttfm > 0
    # {" a ": 1 2 }  and  {" b, which is the token that is not allowed
    assert len(right.tbm) == 6 + 2
    wrong = bench.replay(case("wrong", INTEGER, ({"a": 1}, False), ({"b": 1}, True), ({"a": "x"}, False)))
    assert wrong.wrong == (0, 1)
    refused = bench.replay(case("refused", {"type": "nothing"}, (1, True)))
    assert refused.refused is not None
    assert "SchemaError" in refused.refused
    report = bench.report()
    assert (report.cases, report.right, report.refused) == (3, 1, 1)
    assert (report.accepts_invalid, report.refuses_valid) == (1, 1)
    assert report.tokens == len(right.tbm) + len(wrong.tbm)
    assert report.counters["misses"] > 0
    assert report.counters["hits"] > 0
    assert report.counters["walked_nodes"] > 0


def test_a_warm_run_reports_the_second_time(vocabulary: Vocabulary) -> None:
    schema = {"type": "array", "items": {"enum": ["warm", "run"]}}
    bench = MaskBench(vocabulary, JsonSchema, warm=True)
    replay = bench.replay(case("warm", schema, (["warm"], True), (["run", "warm"], True)))
    counters = bench.report().counters
    assert replay.wrong == ()
    assert (counters["misses"], counters["local_walks"], counters["walked_nodes"]) == (0, 0, 0)
    assert counters["hits"] >= len(replay.tbm)
    assert counters["states"] > 0


def test_test_data_is_read_plain_and_packed(tmp_path: Path) -> None:
    lines = [
        {"id": "one", "schema": True, "tests": [{"data": {"ü": 1}, "valid": True}]},
        {"id": 2, "schema": {}, "tests": []},
    ]
    text = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n\n"
    plain, packed = tmp_path / "cases.jsonl", tmp_path / "cases.jsonl.xz"
    plain.write_text(text, encoding="utf-8")
    packed.write_bytes(lzma.compress(text.encode()))
    expected = [case("one", True, ({"ü": 1}, True)), case("2", {})]
    assert read_cases(plain) == read_cases(packed) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"id": 1, "schema": {}, "tests": []}\n{"id"', "line 2: not JSON"),
        (b'{"id": 1, "schema": {}}\n', "line 1: not of the form"),
        (b"[]\n", "line 1: not of the form"),
        (b"\xff\n", "utf-8"),
    ],
)
def test_data_of_another_form_is_refused_with_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_cases(path)
    path.rename(tmp_path / "cases.xz")
    with pytest.raises(DataError):
        read_cases(tmp_path / "cases.xz")


def test_the_same_seed_draws_the_same_cases() -> None:
    cases = [str(number) for number in range(50)]
    assert draw(cases, 5, 1) == draw(cases, 5, 1) == draw(cases, None, 1)[:5]
    assert draw(cases, 5, 1) != draw(cases, 5, 2)
    assert sorted(draw(cases, None, 3)) == sorted(cases)


def test_figures_are_nearest_ranks() -> None:
    figures = summary(float(value) for value in range(1000, 0, -1))
    assert figures == {"p50": 500.0, "p90": 900.0, "p99": 990.0, "p99.9": 999.0, "mean": 500.5, "max": 1000.0}
    assert summary([7.0]) == dict.fromkeys(figures, 7.0)
    assert summary([]) == dict.fromkeys(figures)
