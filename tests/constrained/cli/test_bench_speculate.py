from __future__ import annotations

import json
from pathlib import Path

import pytest

from constrained.bench.extraction import TASKS
from constrained.bench.speculate import SpeculationBench
from constrained.cli import main
from constrained.cli.bench_speculate import table
from constrained.llm import LLM

SCHEMA = {
    "type": "object",
    "properties": {"first_long_name": {"type": "boolean"}, "second_long_name": {"enum": ["left", "right"]}},
    "required": ["first_long_name", "second_long_name"],
    "additionalProperties": False,
}


@pytest.fixture
def tasks(tmp_path: Path) -> str:
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n".join(json.dumps({"prompt": f"go {at}", "schema": SCHEMA}) for at in range(3)) + "\n\n")
    return str(path)


def _bench(model: Path, *arguments: str) -> int:
    return main(["bench", "speculate", "--model", str(model), *arguments])


def test_proposers_stand_side_by_side(model_folder: Path, tasks: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--proposer", "forced", "--proposer", "forced+ngram", "--lookahead", "4", "--whitespace", "compact"]
    assert _bench(model_folder, tasks, "-n", "2", *options, "--json") == 0
    none, forced, both = json.loads(capsys.readouterr().out)
    assert [row["proposer"] for row in (none, forced, both)] == ["none", "forced", "forced+ngram"]
    assert none["speedup"] == 1.0 and none["target_forwards_per_token"] == 1.0
    assert forced["target_forwards_per_token"] < 0.5
    for row in (none, forced, both):
        assert (row["texts"], row["same_texts"]) == (2, 2)
        assert row["output_tokens"] == none["output_tokens"]
        assert row["drafted"] == row["accepted"] + row["wasted"]
    assert set(forced["by_source"]) == {"forced"}


def test_the_figures_come_as_a_table(model_folder: Path, tasks: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _bench(model_folder, tasks, "--temperature", "1", "--whitespace", "compact", "--lookahead", "heuristic") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["none", "auto"]
    figures = {line[:32].strip(): line[32:].split() for line in lines[1:]}
    assert figures["texts, of these as without"] == ["3,", "3", "3,", "3"]
    assert float(figures["target forwards per token"][1]) < 1.0
    assert float(figures["the same for CPU time"][0]) == 1.0 and float(figures["the same for CPU time"][1]) > 0
    named = ("accepted per verification", "guesses wasted", "steps without a guess", "p95 inter-token latency, ms")
    parts = ("proposing", "of these verifying", "re-tokenising", "masks", "queue", "accepted of forced")
    assert {*named, *parts} <= set(figures)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--proposer", "oracle"], "proposer='oracle' is not accepted"),
        (["--proposer", "draft"], "pass draft_model="),
        (["--lookahead", "far"], "lookahead='far' is not accepted"),
        (["-n", "0"], "-n: 0 is below 1"),
        (["--max-tokens", "0"], "--max-tokens: 0 is below 1"),
        (["--temperature", "-1"], "temperature=-1.0"),
    ],
)
def test_what_means_nothing_is_bad_usage(
    model_folder: Path, tasks: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _bench(model_folder, tasks, *arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [("{}", "line 1 is not"), ("", "no tasks"), ('{"prompt": "a", "schema": {}}\nx', "line 2 is not")],
)
def test_files_that_hold_no_tasks_are_refused(
    model_folder: Path, tmp_path: Path, content: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(content)
    assert _bench(model_folder, str(path)) == 2
    assert message in capsys.readouterr().err


def test_a_file_that_is_not_there_is_refused(model_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _bench(model_folder, "/no/such/file") == 2
    assert "cannot read" in capsys.readouterr().err


def test_the_values_of_the_tasks_stand_in_their_notes() -> None:
    assert len(TASKS) == 20
    assert len({task.prompt for task in TASKS}) == 20
    assert all(len(task.schema["required"]) == 5 for task in TASKS)


def test_an_empty_report_has_no_figures(random_llm: LLM) -> None:
    report = SpeculationBench(random_llm, ["forced"]).report()
    assert [row.output_tokens for row in report] == [0, 0]
    assert "tokens/s" in table(report)
