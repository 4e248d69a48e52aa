"""The arrows between the packages, and what the repository may contain."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def _lint_imports(config: Path, path: Path) -> subprocess.CompletedProcess[str]:
    program = (
        "from importlinter.cli import lint_imports; import sys; sys.exit(lint_imports(config_filename=sys.argv[1]))"
    )
    return subprocess.run(
        [sys.executable, "-c", program, str(config)],
        cwd=path,
        env={"PYTHONPATH": str(path), "PATH": "/usr/bin:/bin", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_import_arrows_hold() -> None:
    result = _lint_imports(ROOT / "pyproject.toml", ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("package", "statement"),
    [
        ("grammars", "import constrained"),
        ("engine", "from constrained import errors"),
        ("engine", "import grammars"),
        ("grammars", "import engine"),
        ("grammars", "import torch"),
    ],
)
def test_an_import_against_the_arrows_is_found(tmp_path: Path, package: str, statement: str) -> None:
    for name in ("constrained", "engine", "grammars"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / "constrained" / "errors.py").write_text("")
    config = tmp_path / "pyproject.toml"
    config.write_text((ROOT / "pyproject.toml").read_text())
    assert _lint_imports(config, tmp_path).returncode == 0

    (tmp_path / package / "offender.py").write_text(textwrap.dedent(statement) + "\n")
    result = _lint_imports(config, tmp_path)
    assert result.returncode != 0
    assert "BROKEN" in result.stdout


def test_every_package_ships_its_types() -> None:
    for name in ("constrained", "engine", "grammars"):
        assert (ROOT / name / "py.typed").is_file()


def test_importing_the_package_loads_neither_torch_nor_numba() -> None:
    program = (
        "import sys, constrained; constrained.GrammarError; print({'torch', 'numba', 'tokenizers'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert result.stdout.strip() == "set()", result.stdout + result.stderr


def test_schemas_and_expressions_run_without_parsers() -> None:
    code = """
import sys
from constrained import JsonSchema, Regex, Vocabulary, compile
vocabulary = Vocabulary.from_token_bytes([*(bytes([byte]) for byte in range(256)), None], eos_token_ids=[256])
for grammar in (JsonSchema({"type": "integer"}), Regex("a+")):
    compile(grammar, vocabulary).matcher(max_tokens=9).shortest_completion()
print([name for name in sys.modules if "context_free" in name or name.split(".")[0] == "lark"])
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"
