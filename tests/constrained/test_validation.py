from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from constrained.errors import ResultError
from constrained.validation import JsonCheck
from grammars import JsonSchema

ROOT = Path(__file__).parents[2]


def _accepts(schema: Any, text: str, **options: Any) -> bool:
    try:
        JsonCheck(JsonSchema(schema, **options)).parse(text)
    except ResultError:
        return False
    return True


@pytest.mark.parametrize(
    ("divisor", "text", "expected"),
    [
        (0.01, "0.07", True),
        (0.01, "19.99", True),
        (0.01, "0.075", False),
        (0.1, "1e300", True),
        (0.1, "1e-300", False),
        (3, "1e400", False),
        (5, "1e400", True),
        (0.5, "0", True),
        (0.5, "0e-99999", True),
        (1e-7, "3e-7", True),
    ],
)
def test_multiples_are_decimal(divisor: float, text: str, expected: bool) -> None:
    assert _accepts({"type": "number", "multipleOf": divisor}, text) is expected


@pytest.mark.parametrize(
    ("text", "expected"), [("1.0", True), ("1e2", True), ("1.5", False), ("true", False), ("-0", True)]
)
def test_integers_are_known_by_value(text: str, expected: bool) -> None:
    assert _accepts({"type": "integer"}, text) is expected


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("^a$", "a\\n", False),
        (r"^\d+$", "٣", False),
        (r"^\w$", "é", False),
        (r"^\s$", "\\u2003", True),
        (r"^[\s]$", "\\u00a0", True),
        (r"^\S$", "\\u00a0", False),
        (r"^.$", "\\u2028", False),
        (r"^[.$]$", ".", True),
        (r"^a\/b$", "a/b", True),
        ("b", "abc", True),
    ],
)
def test_patterns_are_ecma_regular_expressions(pattern: str, value: str, expected: bool) -> None:
    assert _accepts({"pattern": pattern}, f'"{value}"') is expected
    assert _accepts({"patternProperties": {pattern: False}}, f'{{"{value}": 1}}') is not expected


def test_patterns_that_python_cannot_read_are_matched_all_the_same() -> None:
    assert _accepts({"pattern": r"^\p{Lu}\p{Ll}+$"}, '"Ärger"')
    assert not _accepts({"pattern": r"^\p{Lu}\p{Ll}+$"}, '"ärger"')


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("date", "2024-02-29", True),
        ("date", "2023-02-29", False),
        ("date", "0000-02-29", True),
        ("date-time", "2016-12-31T23:59:60Z", True),
        ("date-time", "2016-12-31", False),
        ("email", "a@example.org", True),
        ("email", "a", False),
        ("ipv4", "256.0.0.1", False),
        ("uuid", "7c9e6679-7425-40de-944b-e07fc1f90ae7", True),
        ("hostname", "-a", False),
        ("uri", "https://example.org/", True),
        ("uri", "not a uri", False),
    ],
)
def test_formats_are_asserted(name: str, value: str, expected: bool) -> None:
    assert _accepts({"format": name}, f'"{value}"') is expected
    assert _accepts({"format": name}, f'"{value}"', formats="annotate")


def test_iris_are_checked_by_a_package_that_is_loaded_only_then() -> None:
    program = """
import sys
from constrained.validation import JsonCheck
from grammars import JsonSchema
check = JsonCheck(JsonSchema({"format": "iri"}))
assert "jsonschema" in sys.modules and "rfc3987_syntax" not in sys.modules
check.parse('"https://example.org/\\u00e4"')
assert sys.modules["rfc3987_syntax"].__file__
try:
    check.parse('"no iri"')
except ValueError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert "'no iri' is not a 'iri'" in run.stdout, run.stderr


def test_the_draft_decides_what_a_keyword_means() -> None:
    tuple_schema = {"items": [{"type": "integer"}], "additionalItems": False}
    assert not _accepts(tuple_schema, "[1, 2]", draft="7")
    assert not _accepts({**tuple_schema, "$schema": "http://json-schema.org/draft-07/schema#"}, "[1, 2]")


def test_references_go_to_the_resources_and_to_the_metaschema_only() -> None:
    schema = {"$ref": "urn:tool:a"}
    assert _accepts(schema, "1", resources={"urn:tool:a": {"$ref": "#/$defs/i", "$defs": {"i": {"type": "integer"}}}})
    assert not _accepts(
        schema, '"1"', resources={"urn:tool:a": {"$ref": "#/$defs/i", "$defs": {"i": {"type": "integer"}}}}
    )
    assert _accepts({"$ref": "https://json-schema.org/draft/2020-12/schema"}, '{"type": "object"}')


def test_the_value_that_comes_back_is_plain() -> None:
    value = JsonCheck(JsonSchema({"type": "array"})).parse("[0.1, 2, null]")
    assert value == [0.1, 2, None]
    assert [type(item) for item in value] == [float, int, type(None)]


def test_the_message_names_the_place() -> None:
    with pytest.raises(ResultError, match=r"\$\.a\[1\].*'x' is not of type 'integer'"):
        JsonCheck(JsonSchema({"properties": {"a": {"items": {"type": "integer"}}}})).parse('{"a": [1, "x"]}')


def test_text_that_is_not_json_is_refused() -> None:
    with pytest.raises(ResultError, match="not JSON"):
        JsonCheck(JsonSchema(True)).parse('{"a": ')
