from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from constrained.cli import main
from constrained.cli.check import Finding, refusals, supported
from constrained.errors import UnsupportedFeature
from grammars import JsonSchema

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "schemas").glob("*.json"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_schemas_are_supported(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--schema", str(path)]) == 0
    assert capsys.readouterr().out.endswith("\nsupported\n")


def test_each_place_is_reported_with_what_holds_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps({"title": "T", "type": "object", "properties": {"a/b": {"minimum": 1}}}))
    assert main(["check", "--schema", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["asserted", "#", "type,", "properties"],
        ["annotation", "#", "title"],
        ["asserted", "#/properties/a~1b", "minimum"],
        ["supported"],
    ]


@pytest.mark.parametrize(
    ("arguments", "code"), [(["--regex", "a|b"], 0), (["--choice", "x"], 0), (["--regex", "(a"], 2)]
)
def test_other_grammars_are_checked_too(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *arguments]) == code
    assert capsys.readouterr().out.splitlines()[-1] == ("supported" if code == 0 else "not supported")


def test_a_schema_without_instances_is_not_supported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "schema.json"
    path.write_text("false")
    assert main(["check", "--schema", str(path)]) == 2
    assert capsys.readouterr().out.startswith("refused")


def test_every_refused_keyword_is_found_not_only_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile(grammar: JsonSchema, vocabulary: Any) -> None:
        for name, subschema in grammar.document["properties"].items():
            if "odd" in subschema:
                raise UnsupportedFeature("no odds", f"/properties/{name}", "odd")

    monkeypatch.setattr("constrained.cli.check.compile_grammar", compile)
    schema = {"properties": {"a": {"odd": 1}, "b": {"type": "string"}, "c": {"odd": 2}}}
    found = list(refusals(JsonSchema(schema), None))
    assert found == [
        Finding("/properties/a", "refused", "odd: no odds"),
        Finding("/properties/c", "refused", "odd: no odds"),
    ]
    asserted = list(supported(JsonSchema(schema), {("/properties/a", "odd"), ("/properties/c", "odd")}))
    assert asserted == [Finding("", "asserted", "properties"), Finding("/properties/b", "asserted", "type")]


def test_what_asserts_nothing_is_said_with_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "schema.json"
    place = {"format": "date", "x-note": 1, "then": False}
    path.write_text(json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", "properties": {"a": place}}))
    assert main(["check", "--schema", str(path), "--formats", "declared"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split(maxsplit=2) == [
        "annotation", "#/properties/a", "format (by draft 2020-12), x-note, then (without if)"
    ]  # fmt: skip
    assert main(["check", "--schema", str(path), "--formats", "assert"]) == 0
    assert capsys.readouterr().out.splitlines()[2].split() == ["asserted", "#/properties/a", "format"]


def test_there_must_be_something_to_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == 2
    assert "nothing to check" in capsys.readouterr().err


def test_a_tokenizer_that_is_not_there_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--regex", "a", "--tokenizer", "absent.json"]) == 2
    assert "absent.json" in capsys.readouterr().err
