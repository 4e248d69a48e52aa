from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.devices import PACKINGS, choose_numbers
from engine.errors import DeviceError, ModelError
from engine.layers import Linear
from engine.loading import load_model
from engine.loading.packing import default_packing, read_record
from engine.packed import GROUP, MOST_ROWS, PackedLinear, quantize
from engine.quality import MOST_WORSE, TEXTS, Quality, compare

WIDE = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "vocab_size": 112}


def _matrix(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * 0.1


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("rows", [1, 2, MOST_ROWS, MOST_ROWS + 1, 9])
@pytest.mark.parametrize("biased", [False, True])
def test_a_product_is_the_one_with_the_rounded_matrix_for_any_number_of_rows(
    packing: Any, rows: int, biased: bool
) -> None:
    packed, scales, rounded = quantize(_matrix(48, 96), packing)
    bias = _matrix(1, 48, 1)[0].bfloat16() if biased else None
    linear = PackedLinear(rounded, bias, packing, packed, scales)
    x, residual = _matrix(rows, 96, 2).bfloat16() * 10, _matrix(rows, 48, 3).bfloat16()
    expected = x.float() @ rounded.float().t() + (0 if bias is None else bias.float())
    torch.testing.assert_close(linear(x).float(), expected, rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(linear.add_to(residual, x).float(), expected + residual.float(), rtol=2e-2, atol=2e-2)
    assert linear(x.view(1, rows, 96)).shape == (1, rows, 48)
    unpacked, total = linear(x, True), linear.add_to(residual, x, True)
    assert not torch.equal(unpacked, linear(x)) and torch.equal(unpacked, Linear(rounded, bias)(x))
    torch.testing.assert_close(total.float(), expected + residual.float(), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("packing", PACKINGS)
def test_rounding_moves_no_weight_by_more_than_half_a_step(packing: Any) -> None:
    weight = _matrix(32, 128)
    rounded = quantize(weight, packing)[2].float()
    if packing == "int8":
        step = weight.abs().amax(1, keepdim=True) / 127
    else:
        groups = weight.view(32, -1, GROUP)
        step = ((groups.amax(-1) - groups.amin(-1)) / 15).repeat_interleave(GROUP, dim=1)
    # half a step, and what bfloat16 takes from scales, zeros and the result
    assert ((rounded - weight).abs() <= 0.5 * step + 0.012 * weight.abs().amax()).all()


def test_a_grid_of_sixteen_levels_is_found_again() -> None:
    levels = torch.randint(0, 16, (16, 2, GROUP), generator=torch.Generator().manual_seed(5)).float()
    levels[..., 0], levels[..., 1] = 0.0, 15.0
    weight = (levels * 0.0625 - 0.5).view(16, 2 * GROUP)
    assert torch.equal(quantize(weight, "int4")[2].float(), weight)


def test_a_matrix_of_zeros_stays_one() -> None:
    for packing in PACKINGS:
        packed, scales, rounded = quantize(torch.zeros(16, 64), packing)
        assert not rounded.any()
        product = PackedLinear(rounded, None, packing, packed, scales)(torch.ones(1, 64, dtype=torch.bfloat16))
        assert not product.any()


def test_a_shape_that_the_kernel_does_not_take_is_named() -> None:
    with pytest.raises(ModelError, match="a matrix of 40 x 64 cannot be packed to int4"):
        quantize(_matrix(40, 64), "int4")
    with pytest.raises(ModelError, match="a matrix of 48 x 48"):
        quantize(_matrix(48, 48), "int4")


def test_packed_weights_are_refused_where_no_kernel_is() -> None:
    assert choose_numbers("int4", torch.device("cpu")) == (torch.bfloat16, "int4")
    assert choose_numbers("bfloat16", torch.device("cpu")) == (torch.bfloat16, None)
    with pytest.raises(DeviceError, match="int8 weights run on the CPU, not on cuda"):
        choose_numbers("int8", torch.device("cuda"))
    with pytest.raises(DeviceError, match="unknown dtype 'int3': pass one of float32, bfloat16, float16, int8, int4"):
        choose_numbers("int3", torch.device("cpu"))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("packing", PACKINGS)
def test_a_packed_model_decodes_what_it_prefills(
    packing: str, tied: bool, tmp_path: Path, write_checkpoint: Callable[..., Any]
) -> None:
    write_checkpoint(tmp_path, "LlamaConfig", {**WIDE, "tie_word_embeddings": tied})
    model = load_model(tmp_path, device="cpu", dtype=packing)
    assert model.packing == packing and model.dtype == torch.bfloat16
    ids = torch.randint(0, 112, (1, 24), generator=torch.Generator().manual_seed(3))
    whole = model.forward(ids, logits="all")[0].softmax(-1)
    cache = model.new_cache()
    stepped = torch.cat([model.forward(ids[:, at : at + 1], cache) for at in range(24)]).softmax(-1)
    assert (whole - stepped).abs().sum(-1).mean() < 0.1
    plain = load_model(tmp_path, device="cpu", dtype="bfloat16")
    assert plain.packing is None
    assert plain.nbytes < model.nbytes < 2.3 * plain.nbytes


def test_what_cannot_be_packed_is_said_when_it_is_asked_for(
    tmp_path: Path, write_checkpoint: Callable[..., Any]
) -> None:
    write_checkpoint(tmp_path, "LlamaConfig", {})
    with pytest.raises(ModelError, match="cannot be packed to int4"):
        load_model(tmp_path, device="cpu", dtype="int4")


def test_a_model_is_as_good_as_itself_and_worse_where_its_weights_are_spoilt(
    tmp_path: Path, write_checkpoint: Callable[..., Any]
) -> None:
    write_checkpoint(tmp_path, "LlamaConfig", WIDE)
    model = load_model(tmp_path, device="cpu", dtype="float32")
    ids = [list(range(2, 60)), [1]]
    same = compare(model, model, ids)
    assert same.worse == 0 and same.agreement == 1 and same.passes
    other = load_model(tmp_path, device="cpu", dtype="int4")
    assert compare(other, model, ids).perplexity != same.perplexity
    assert not Quality(10.2, 10.0, 0.9).passes and Quality(10.0 * (1 + MOST_WORSE), 10.0, 0.9).worse <= 0.0101


def test_the_first_packing_that_passed_is_remembered(tmp_path: Path) -> None:
    record = tmp_path / "quality.json"
    record.write_text(
        '{"version": 1, "int4": {"perplexity": 11.0, "reference": 10.0, "agreement": 0.8}, '
        '"int8": {"perplexity": 10.05, "reference": 10.0, "agreement": 0.98}}'
    )

    def never() -> Any:
        raise AssertionError("it was measured already")

    assert default_packing(record, never) == "int8"
    record.write_text('{"version": 1, "int4": {"perplexity": 10.0, "reference": 10.0, "agreement": 1.0}}')
    assert default_packing(record, never) == "int4"
    record.write_text('{"version": 1}')
    assert default_packing(record, never) is None
    for unreadable in ("{", '{"version": 0}', '{"version": 1, "int4": {"perplexity": 1}}', "[]"):
        record.write_text(unreadable)
        assert read_record(record) is None


@pytest.mark.slow
def test_the_default_model_passes_the_gate_in_four_bits(default_gguf: Path) -> None:
    plain = load_model(default_gguf, device="cpu", dtype="bfloat16")
    packed = load_model(default_gguf, device="cpu", dtype="int4")
    assert plain.text is not None
    quality = compare(packed, plain, [plain.text.encode(text) for text in TEXTS])
    assert quality.passes, quality
    assert quality.agreement > 0.9
    assert packed.packing == "int4"
