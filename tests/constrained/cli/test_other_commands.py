from __future__ import annotations

from pathlib import Path

import pytest

from constrained.cli import main


def test_the_memory_table_follows_the_formula(capsys: pytest.CaptureFixture[str]) -> None:
    shape = ["--layers", "30", "--kv-heads", "3", "--head-dim", "64", "--seq-len", "2048"]
    assert main(["kv-plan", *shape, "--batch", "8", "--memory", "2GiB", "--dtype-bytes", "2"]) == 0
    row = capsys.readouterr().out.splitlines()[-1].split()
    assert row == ["2", "bytes", "22.5", "KiB", "45", "MiB", "360", "MiB", "128", "45"]


@pytest.mark.parametrize("arguments", [["--layers", "0"], ["--layers", "2"], ["--memory", "much"]])
def test_sizes_that_make_no_sense_are_bad_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    shape = ["--layers", "1", "--kv-heads", "1", "--head-dim", "1", "--seq-len", "1"]
    given = ["kv-plan", *(shape if arguments[0] == "--memory" else []), *arguments]
    try:
        code = main(given)
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    assert code == 2
    assert "error" in capsys.readouterr().err


def test_the_catalogue_names_the_default_model_and_how_to_get_it(
    own_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models"]) == 0
    out = capsys.readouterr().out
    assert "SmolLM2-135M-Instruct" in out
    assert "constrained models fetch" in out


def test_the_next_tokens_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--regex", "ab+c?", "--text", "ab", "--token", "bc", "--token", "ca"]) == 0
    out = capsys.readouterr().out
    assert "'ab' is a sentence" in out
    assert "2 of 257 tokens may come next, and the end" in out
    assert "'bc' fits" in out
    assert "'ca' does not fit: its first 1 bytes would" in out


def test_a_text_that_cannot_begin_so_is_explained_at_the_byte(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--regex", "abc", "--text", "abd"]) == 0
    assert "after 'ab' no 'd' fits" in capsys.readouterr().out


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith("constrained ")
