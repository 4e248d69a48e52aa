"""Recorded cases: the JSON Schema Test Suite and real schemas with their instances."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grammars import EmptyLanguage, JsonSchema, LimitExceeded
from grammars.json_schema import Value, check_root, root_value

Records = Callable[[str], Iterator[dict[str, Any]]]
Holds = Callable[[Value, Any], bool]

SUITE = "json-schema-test-suite.jsonl.xz"

# U-labels are kept shorter than they may be (docs/formats.md): these valid names are left out, nothing invalid gets in.
LEFT_OUT = "label too long if separator ignored"


@pytest.fixture(scope="module")
def remotes() -> dict[str, Any]:
    path = Path(__file__).parents[4] / "shared" / "data" / "json-schema-test-suite-remotes.json"
    if not path.exists():
        pytest.skip("needs the test suite's remote documents")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.filterwarnings("ignore::grammars.json_schema.FormatWarning")
@pytest.mark.parametrize(
    ("selection", "formats"),
    [
        ("draft2020-12/(mandatory)", "declared"),
        ("draft7/(mandatory)", "declared"),
        ("draft2020-12/optional/format/", "assert"),
        ("draft7/optional/format/", "assert"),
        ("draft2020-12/optional/", "declared"),
        ("draft7/optional/", "declared"),
    ],
)
def test_every_group_of_the_suite_is_right(
    recorded: Records, holds: Holds, remotes: dict[str, Any], selection: str, formats: Any
) -> None:
    prefix = selection.removesuffix("(mandatory)")
    wrong, seen = [], 0
    for group in recorded(SUITE):
        name = group["id"]
        optional = "/optional/" in name
        if not name.startswith(prefix) or (optional and prefix.count("/") == 1):
            continue
        # `contentEncoding` and `contentMediaType` assert nothing here; formats have a line of their own.
        if "optional/content/" in name or (prefix.endswith("optional/") and "/format/" in name):
            continue
        seen += 1
        value = root_value(JsonSchema(group["schema"], resources=remotes, formats=formats))
        for test in group["tests"]:
            if holds(value, test["data"]) != test["valid"] and not test["description"].startswith(LEFT_OUT):
                wrong.append((name, test["description"]))
            if test["description"].startswith(LEFT_OUT):
                assert test["valid"]
    assert seen > 5
    assert not wrong


@pytest.mark.filterwarnings("ignore::grammars.json_schema.FormatWarning")
@pytest.mark.parametrize("remainder", [0, 7])
def test_real_schemas_judge_their_instances_right(recorded: Records, holds: Holds, remainder: int) -> None:
    wrong, refused, judged = [], [], 0
    for index, record in enumerate(recorded("maskbench-dev.jsonl.xz")):
        if index % 15 != remainder:
            continue
        value = root_value(JsonSchema(record["schema"]))
        try:
            check_root(value)
        except EmptyLanguage:
            assert not any(test["valid"] for test in record["tests"]), record["id"]
        except LimitExceeded:
            refused.append(record["id"])
            continue
        for number, test in enumerate(record["tests"]):
            judged += 1
            if holds(value, test["data"]) != test["valid"]:
                wrong.append((record["id"], number))
    assert judged > 300
    assert not wrong
    assert len(refused) <= 2
