from __future__ import annotations

import cmath

import pytest
import torch

from engine.config import RopeConfig
from engine.rope import RotaryEmbedding, frequencies, rotate

CPU = torch.device("cpu")


@pytest.mark.parametrize("start", [0, 7, 600, 5000])
def test_a_plane_turns_by_position_times_frequency(start: int) -> None:
    rotary = RotaryEmbedding(RopeConfig(theta=100.0), 8, CPU, torch.float32)
    x = torch.randn(1, 3, 2, 8, generator=torch.Generator().manual_seed(start))
    turned = rotate(x, *rotary.at(start, 3))
    for at in range(3):
        for head in range(2):
            for plane in range(4):
                before = complex(x[0, at, head, plane], x[0, at, head, plane + 4])
                after = before * cmath.exp(1j * (start + at) * 100.0 ** (-plane / 4))
                found = complex(turned[0, at, head, plane], turned[0, at, head, plane + 4])
                assert abs(found - after) < 2e-3


def test_gathered_positions_equal_a_stretch_of_them() -> None:
    rotary = RotaryEmbedding(RopeConfig(), 16, CPU, torch.float32)
    positions = torch.tensor([[3, 4, 5], [1500, 1501, 1502]])
    for gathered, start in ((0, 3), (1, 1500)):
        for table, row in zip(rotary.at(start, 3), rotary.gather(positions, 1502), strict=True):
            assert torch.equal(table, row[gathered])


def test_bfloat16_tables_are_rounded_from_exact_angles() -> None:
    exact = RotaryEmbedding(RopeConfig(), 64, CPU, torch.float32).at(3000, 200)
    rounded = RotaryEmbedding(RopeConfig(), 64, CPU, torch.bfloat16).at(3000, 200)
    for table, coarse in zip(exact, rounded, strict=True):
        assert torch.equal(table.bfloat16(), coarse)


def test_the_frequency_factors_of_a_file_divide_the_plain_frequencies() -> None:
    plain, _ = frequencies(RopeConfig(), 8)
    scaled, attention = frequencies(RopeConfig(kind="llama3"), 8, torch.tensor([1.0, 2.0, 4.0, 8.0]))
    assert attention == 1.0
    torch.testing.assert_close(scaled * torch.tensor([1.0, 2.0, 4.0, 8.0]), plain)
