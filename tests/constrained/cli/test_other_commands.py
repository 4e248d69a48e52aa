from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest

from constrained.cli import kv_plan, main


def test_the_memory_table_follows_the_formula(capsys: pytest.CaptureFixture[str]) -> None:
    shape = ["--layers", "30", "--kv-heads", "3", "--head-dim", "64", "--seq-len", "2048"]
    assert main(["kv-plan", *shape, "--batch", "8", "--memory", "2GiB", "--dtype-bytes", "2"]) == 0
    row = capsys.readouterr().out.splitlines()[-1].split()
    assert row == ["2", "bytes", "22.5", "KiB", "45", "MiB", "360", "MiB", "128", "45"]


def _rows(*more: str, **options: Any) -> dict[str, list[str]]:
    parser = ArgumentParser()
    kv_plan.add_options(parser)
    shape = ["--layers", "2", "--kv-heads", "1", "--head-dim", "8", "--seq-len", "20"]
    rows = kv_plan.rows(parser.parse_args([*shape, *more]), **options)
    return {name: cells for name, *cells in rows}


def test_the_memory_table_has_a_row_for_each_layout() -> None:
    assert _rows(memory=6144) == {
        "float32": ["128 B", "2.5 KiB", "2.5 KiB", "2", "1"],
        "bfloat16": ["64 B", "1.25 KiB", "1.25 KiB", "2", "3"],
        "float16": ["64 B", "1.25 KiB", "1.25 KiB", "2", "3"],
        # 20 tokens are all in the tail that stays as it is
        "quantized int8": ["42 B", "1.25 KiB", "1.25 KiB", "-", "4"],
        "quantized int4": ["26 B", "1.25 KiB", "1.25 KiB", "-", "4"],
    }
    more = _rows("--batch", "3", "--query-heads", "4", "--latent-dim", "6", "--block-size", "8", memory=None)
    assert more["4 heads, 2 bytes"] == ["256 B", "5 KiB", "15 KiB", "3"]
    assert more["1 head, 2 bytes"] == ["64 B", "1.25 KiB", "3.75 KiB", "3"]
    assert more["latent, 2 bytes"] == ["24 B", "480 B", "1.406 KiB", "3"]


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
