from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from constrained.cli import main

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "n": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["name", "n"],
    "additionalProperties": False,
}


@pytest.fixture
def schema_file(tmp_path: Path) -> str:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    return str(path)


def _generate(model: Path, *arguments: str) -> int:
    return main(["generate", "--model", str(model), "--max-tokens", "80", *arguments])


@pytest.mark.parametrize("temperature", ["0", "1.5"])
@pytest.mark.parametrize("streaming", [[], ["--stream"]], ids=["whole", "streamed"])
def test_the_text_alone_is_on_standard_output(
    model_folder: Path, schema_file: str, capsys: pytest.CaptureFixture[str], temperature: str, streaming: list[str]
) -> None:
    options = ["--schema", schema_file, "--prompt", "go", "--temperature", temperature, "--seed", "1", *streaming]
    assert _generate(model_folder, *options) == 0
    captured = capsys.readouterr()
    jsonschema.validate(json.loads(captured.out), SCHEMA)
    assert captured.out == captured.out.strip()
    assert captured.err == ""


def test_streaming_changes_nothing_of_the_text(model_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for streaming in ([], ["--stream"]):
        options = ["--regex", "[äöü]{5}", "--prompt", "go", "--temperature", "1", "--seed", "7", *streaming]
        assert _generate(model_folder, *options) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert re.fullmatch("[äöü]{5}", texts[0])


def test_statistics_go_to_standard_error(model_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _generate(model_folder, "--choice", "yes", "--choice", "no", "--prompt", "go", "--stats") == 0
    captured = capsys.readouterr()
    assert captured.out in ("yes", "no")
    for word in ("prompt", "tokens/s", "masks", "forward"):
        assert word in captured.err


def test_a_dash_reads_the_prompt_from_standard_input(
    model_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("a longer prompt"))
    assert _generate(model_folder, "--regex", "a+", "--prompt", "-", "--stats") == 0
    length = len("<user>a longer prompt</><assistant>")
    assert f"prompt {length} tokens" in capsys.readouterr().err


def test_a_lark_grammar_holds(model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grammar = tmp_path / "sum.lark"
    grammar.write_text('sum: NUMBER ("+" NUMBER)+\nNUMBER: /[0-9]{1,3}/\n')
    options = ["--lark", str(grammar), "--start", "sum", "--prompt", "go", "--temperature", "1", "--seed", "3"]
    assert _generate(model_folder, *options) == 0
    assert re.fullmatch(r"[0-9]{1,3}(\+[0-9]{1,3})+", capsys.readouterr().out)


def test_without_a_grammar_the_text_is_free(model_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _generate(model_folder, "--prompt", "go", "--stats") == 0
    assert "output" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error(model_folder: Path) -> None:
    command = f"{sys.executable} -m constrained generate --stream --regex '[a-z]{{150}}' --prompt go --max-tokens 200"
    run = subprocess.run(
        ["bash", "-c", f"{command} --model {model_folder} | head -c 1"],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert len(run.stdout) == 1
    assert run.stderr == ""
