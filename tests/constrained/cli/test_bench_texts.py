"""`constrained bench masks --lark`: texts through the masks of a grammar."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from constrained.bench.texts import DataError, read_texts
from constrained.cli import main

SUMS = 'start: NUMBER ("+" NUMBER)*\nNUMBER: /[0-9]+/\n'
ROOT = Path(__file__).parents[3]


@pytest.fixture
def grammar(tmp_path: Path) -> str:
    path = tmp_path / "sums.lark"
    path.write_text(SUMS)
    return str(path)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    (folder / "deeper").mkdir(parents=True)
    (folder / "a.txt").write_text("1+2")
    (folder / "deeper" / "b.txt").write_text("1+")
    (folder / "c.jsonl").write_text('"12"\n"x"\n')
    return folder


def test_figures_name_the_texts_that_the_masks_reject(
    grammar: str, texts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "masks", "--lark", grammar, "--texts", str(texts), "--json"]) == 0
    (figures,) = json.loads(capsys.readouterr().out)
    assert (figures["texts"], figures["tokens"]) == (4, 3 + 2 + 2 + 1)
    assert {Path(name).name for name in figures["rejected"]} == {"b.txt", "c.jsonl:2"}
    assert figures["ttfm"] > 0 and set(figures["tbm"]) == {"p50", "p90", "p99", "p99.9", "mean", "max"}


def test_the_table_has_a_line_for_the_engine_and_one_for_each_rejected_text(
    grammar: str, texts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--lexer", "contextual", "--texts", str(texts / "a.txt"), "--texts", str(texts / "c.jsonl"), "--warm"]
    assert main(["bench", "masks", "--lark", grammar, *options]) == 0
    head, row, rejected = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["engine", "TTFM"]
    assert row.split()[:1] == ["constrained"]
    assert rejected.endswith("c.jsonl:2")


def test_a_grammar_of_the_library_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "one.txt"
    path.write_text("1.2.3-rc.1")
    assert main(["bench", "masks", "--lark", "semver", "--texts", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["rejected"] == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--lark", "GRAMMAR"], "give both"),
        (["--texts", "x"], "give both"),
        (["--lark", "GRAMMAR", "--texts", "TEXTS", "--engine", "llguidance"], "needs --tokenizer"),
        (["--lark", "GRAMMAR", "--texts", "nowhere"], "cannot read nowhere"),
        (["--lark", "nothing.lark", "--texts", "TEXTS"], "cannot read nothing.lark"),
        (["--lark", "GRAMMAR", "--texts", "TEXTS", "--lexer", "contextual", "--indenter", "lark.indenter:No"], "--indenter"),
        (["--lark", "GRAMMAR", "--texts", "TEXTS", "more.jsonl"], "exclude each other"),
        (["--lark", "GRAMMAR", "--texts", "TEXTS", "--start", "none"], "no rule 'none'"),
    ],
)  # fmt: skip
def test_what_cannot_be_replayed_is_said_in_one_line(
    options: list[str], said: str, grammar: str, texts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [{"GRAMMAR": grammar, "TEXTS": str(texts)}.get(option, option) for option in options]
    assert main(["bench", "masks", *given]) == 2
    assert said in capsys.readouterr().err.splitlines()[-1]


def test_a_line_that_is_no_string_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('"a"\n{}\n')
    with pytest.raises(DataError, match=r"line 2: not a string"):
        read_texts([path])


def test_generated_statements_are_taken_whatever_the_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "sql_statements.py"), "-n", "8", "--seed", "3"]
    said = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert said[0] == said[1]
    path = tmp_path / "statements.jsonl"
    path.write_text(said[0], encoding="utf-8")
    for lark in (["--lark", str(ROOT / "benchmarks" / "select.lark"), "--lexer", "contextual"], ["--lark", "sql"]):
        assert main(["bench", "masks", *lark, "--texts", str(path), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)[0]["rejected"] == []
