"""What README and docs show runs: Python blocks of a page in their order, and the `constrained` commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def _blocks(page: Path, language: str) -> list[str]:
    return [body for kind, body in _BLOCK.findall(page.read_text()) if kind == language]


def _pages_with(language: str) -> list[object]:
    return [pytest.param(page, id=page.name) for page in PAGES if _blocks(page, language)]


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.slow
@pytest.mark.parametrize("page", _pages_with("python"))
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path, default_model_file: Path) -> None:
    program = tmp_path / f"{page.stem}_blocks.py"
    program.write_text("\n\n".join(_blocks(page, "python")))
    run = subprocess.run([sys.executable, str(program)], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.slow
@pytest.mark.parametrize("page", _pages_with("sh"))
def test_the_commands_of_a_page_run(page: Path, tmp_path: Path, default_model_file: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    lines = "".join(_blocks(page, "sh")).replace("\\\n", " ").splitlines()
    commands = [line.partition("  #")[0] for line in lines if "constrained " in line]
    for command in commands:
        run = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=_environment(), capture_output=True, text=True, timeout=300
        )
        assert run.returncode == 0, command + "\n" + run.stdout + run.stderr


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in [*PAGES, ROOT / "CONTRIBUTING.md"]])
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target
