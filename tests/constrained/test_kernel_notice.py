"""Whoever waits for kernels to be compiled is told why, once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from constrained.kernel_notice import MESSAGE

ROOT = Path(__file__).parents[2]
PROGRAM = """
from constrained import {names}
from constrained.vocabulary import Vocabulary
vocabulary = Vocabulary.from_token_bytes([b"a", b"b", None], eos_token_ids=[2])
compile
vocabulary.trie.shortest_tokenization(b"ab")
vocabulary.trie.shortest_tokenization(b"ba")
"""


def _run(cache: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_the_first_compilation_is_logged_and_later_runs_say_nothing(tmp_path: Path) -> None:
    program = PROGRAM.format(names="compile")
    assert _run(tmp_path, "-c", program).stderr == f"{MESSAGE}\n"
    again = _run(tmp_path, "-c", program)
    assert (again.returncode, again.stderr) == (0, "")


@pytest.mark.slow
def test_the_command_line_says_it_on_standard_error(tmp_path: Path) -> None:
    command = ("-m", "constrained", "explain", "--choice", "a", "--text", "a")
    first = _run(tmp_path, *command)
    assert (first.returncode, first.stderr) == (0, f"constrained: {MESSAGE}\n")
    again = _run(tmp_path, *command)
    assert (again.stdout, again.stderr) == (first.stdout, "")
