from __future__ import annotations

import json
from pathlib import Path

import pytest

from constrained.cli import main

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def write(path: Path, *values: object) -> str:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return str(path)


@pytest.fixture
def data(tmp_path: Path) -> str:
    cases = [
        {"id": name, "schema": {**SCHEMA, "title": name}, "tests": [{"data": {"a": 1}, "valid": True}]}
        for name in ("one", "two", "three")
    ]
    return write(tmp_path / "cases.jsonl", *cases)


def test_the_figures_of_test_data_come_as_json(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "masks", data, "-n", "2", "--seed", "3", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["cases"], report["right"], report["tokens"]) == (2, 2, 16)
    assert set(report["tbm"]) == {"p50", "p90", "p99", "p99.9", "mean", "max"}
    assert set(report["counters"]) == {
        "hits", "misses", "local_walks", "kept_rows", "walked_nodes", "states", "rows", "bytes", "evictions",
    }  # fmt: skip


def test_the_figures_come_as_lines(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "masks", data, "--warm"]) == 0
    lines = {line.rpartition(" ")[0].strip(): line.split()[-1] for line in capsys.readouterr().out.splitlines()}
    assert (lines["schemas"], lines["right"], lines["misses"]) == ("3", "3", "0")
    assert float(lines["TTFM p50 us"].replace(",", "")) > 0


def test_a_schema_is_replayed_with_documents_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = write(tmp_path / "schema.json", SCHEMA)
    documents = [write(tmp_path / "1.json", {"a": 1}), write(tmp_path / "2.json", {"b": 1})]
    assert main(["bench", "masks", "--schema", schema, *documents, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["cases"], report["right"], report["refuses_valid"]) == (1, 0, 1)


def test_a_bad_schema_is_a_figure_among_others_and_an_error_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = {"type": "nothing"}
    assert main(["bench", "masks", write(tmp_path / "c.jsonl", {"id": 1, "schema": bad, "tests": []}), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["refused"], report["ttfm"]["p50"]) == (1, None)
    document = write(tmp_path / "1.json", 1)
    assert main(["bench", "masks", "--schema", write(tmp_path / "s.json", bad), document]) == 2
    assert "nothing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to replay"),
        (["absent.jsonl"], "cannot read absent.jsonl"),
        (["bad.jsonl"], "line 1"),
        (["empty.jsonl"], "empty"),
        (["--schema", "bad.jsonl", "empty.jsonl"], "not JSON"),
        (["empty.jsonl", "--tokenizer", "absent.json"], "absent.json"),
    ],
)
def test_what_cannot_be_replayed_is_bad_usage(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.jsonl").write_text("{\n")
    (tmp_path / "empty.jsonl").write_text("\n")
    if "--tokenizer" in arguments:
        write(tmp_path / "empty.jsonl", {"id": 1, "schema": True, "tests": []})
    assert main(["bench", "masks", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["bench"], ["bench", "nothing"], ["bench", "masks", "x", "-n", "0"]])
def test_usage_that_argparse_sees_is_told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert "usage:" in capsys.readouterr().err
