from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest

from constrained.cli import kv_plan, main
from engine.caches import NAMES


def test_the_memory_table_follows_the_formula(capsys: pytest.CaptureFixture[str]) -> None:
    shape = ["--layers", "30", "--kv-heads", "3", "--head-dim", "64", "--seq-len", "2048"]
    assert main(["kv-plan", *shape, "--batch", "8", "--memory", "2GiB", "--dtype-bytes", "2"]) == 0
    row = capsys.readouterr().out.splitlines()[-1].split()
    assert row == ["2", "bytes", "22.5", "KiB", "45", "MiB", "360", "MiB", *(["128"] if "paged" in NAMES else []), "45"]


def _rows(*more: str, **options: Any) -> dict[str, list[str]]:
    parser = ArgumentParser()
    kv_plan.add_options(parser)
    shape = ["--layers", "2", "--kv-heads", "1", "--head-dim", "8", "--seq-len", "20"]
    rows = kv_plan.rows(parser.parse_args([*shape, *more]), **options)
    return {name: cells for name, *cells in rows}


def test_the_memory_table_lists_the_caches_that_exist_and_no_others() -> None:
    plain = _rows(quantized=False, block=None, memory=5120)
    assert plain == {
        "float32": ["128 B", "2.5 KiB", "2.5 KiB", "2"],
        "bfloat16": ["64 B", "1.25 KiB", "1.25 KiB", "4"],
        "float16": ["64 B", "1.25 KiB", "1.25 KiB", "4"],
    }
    every = _rows("--batch", "3", quantized=True, block=16, memory=None)
    assert every["int8"] == ["32 B", "640 B", "1.875 KiB", "2"]


@pytest.mark.skipif("paged" in NAMES, reason="there is a paged cache")
def test_a_block_size_without_a_paged_cache_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    shape = ["--layers", "2", "--kv-heads", "1", "--head-dim", "8", "--seq-len", "20"]
    assert main(["kv-plan", *shape, "--block-size", "16"]) == 2
    assert "no paged cache here; the caches are dynamic, static" in capsys.readouterr().err


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
    assert "'ca' does not fit: after 'c' no 'a' can come" in out


def test_a_token_that_does_not_fit_at_all_is_explained_at_its_beginning(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--regex", "aé", "--text", "a", "--token", "x", "--token", "à"]) == 0
    out = capsys.readouterr().out
    assert "shortest way to an end: 'é'" in out
    assert "'x' does not fit: at its beginning no 'x' can come" in out
    assert "'à' does not fit: at its beginning no 'à' can come" in out


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "",
            ["nothing has been written yet", "shortest way to an end: 'ab'", "1 of 257 tokens may come next", "  'a'"],
        ),
        ("ab", ["'ab' is a sentence", "the text may end here", "nothing but the end may come next"]),
    ],
)
def test_the_beginning_and_the_end_are_explained(
    text: str, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "--regex", "ab", "--text", text]) == 0
    assert capsys.readouterr().out.splitlines() == lines


def test_an_empty_token_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--regex", "ab", "--text", "", "--token", ""]) == 2
    assert "--token: the text is empty" in capsys.readouterr().err


def test_a_text_that_cannot_begin_so_is_explained_at_the_byte(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--regex", "abc", "--text", "abd"]) == 0
    out = capsys.readouterr().out
    assert "'abd': the text cannot begin like this: after 'ab' no 'd' can come" in out
    assert "1 of 257 tokens may come next" in out


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith("constrained ")
