from __future__ import annotations

from typing import Any

import pytest

from constrained.options import EngineOptions, format_size, parse_size
from engine.speculation import NGram


@pytest.mark.parametrize(
    "options",
    [
        {"proposer": "none"},
        {"proposer": "ngram"},
        {"proposer": "forced+suffix+ngram"},
        {"proposer": "forced+early_exit", "lookahead": "heuristic"},
        {"proposer": NGram(longest=2), "lookahead": 4},
    ],
)
def test_proposers_go_by_name_by_names_joined_or_as_objects(options: dict[str, Any]) -> None:
    EngineOptions(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"cache": "fast"},
        {"proposer": "oracle"},
        {"proposer": "ngram+oracle"},
        {"proposer": "ngram+ngram"},
        {"proposer": "draft+ngram"},
        {"proposer": "draft+early_exit"},
        {"proposer": "auto+ngram"},
        {"proposer": None},
        {"proposer": 3},
        {"lookahead": 0},
        {"lookahead": 16},
        {"lookahead": "far"},
        {"lookahead": True},
        {"kv_memory": "much"},
        {"kv_memory": 0},
        {"kv_memory": "0GiB"},
        {"max_sequences": 0},
        {"max_sequences": True},
        {"max_sequences": "8"},
        {"admission": "hopeful"},
    ],
)
def test_options_that_nobody_knows_are_refused_with_what_is_accepted(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"pass|write|can only be"):
        EngineOptions(**options)


@pytest.mark.parametrize(
    ("text", "size"), [("2GiB", 2**31), ("512MB", 512_000_000), ("1.5 KiB", 1536), (10, 10), ("77", 77)]
)
def test_sizes_are_read_in_decimal_and_binary_units(text: int | str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(("size", "text"), [(2**31, "2 GiB"), (1536, "1.5 KiB"), (7, "7 B")])
def test_sizes_are_written_in_the_largest_binary_unit(size: int, text: str) -> None:
    assert format_size(size) == text
