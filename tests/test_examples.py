"""The examples run, and the example schemas are what they claim to be."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
SCHEMAS = sorted((ROOT / "examples" / "schemas").glob("*.json"))


def _run(script: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(script)], cwd=ROOT, capture_output=True, text=True, timeout=600)


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_runs(script: Path, default_model_file: Path) -> None:
    run = _run(script)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.strip()


def test_the_example_for_other_engines_needs_no_model() -> None:
    run = _run(ROOT / "examples" / "own_engine.py")
    assert run.returncode == 0, run.stderr
    numbers = json.loads(run.stdout)
    assert len(numbers) <= 5
    assert all(0 <= number <= 99 for number in numbers)


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.stem)
def test_an_example_schema_is_a_schema(path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))


def test_there_is_a_text_for_each_example_schema() -> None:
    prompts = tomllib.loads((ROOT / "examples" / "prompts.toml").read_text())
    assert set(prompts) == {path.stem for path in SCHEMAS}
    assert len(prompts) >= 10
