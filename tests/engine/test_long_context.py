"""RoPE that is stretched past the context of the pretraining: loaded for a longer one, the model computes what Transformers does
for sequences of that length, whatever came through the cache before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.errors import ContextError
from engine.generation import generate
from engine.loading import load_model
from engine.model import Model

VARIANTS: dict[str, tuple[str, dict[str, Any], int]] = {
    "longrope": (
        "Phi3Config",
        {
            "max_position_embeddings": 256,
            "original_max_position_embeddings": 64,
            "rope_parameters": {
                "rope_type": "longrope",
                "rope_theta": 10000.0,
                "short_factor": [1.0, 1.5, 2.0, 3.0],
                "long_factor": [2.0, 3.0, 4.0, 6.0],
                "original_max_position_embeddings": 64,
            },
        },
        64,
    ),
    "dynamic": (
        "LlamaConfig",
        {
            "max_position_embeddings": 64,
            "rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0},
        },
        64,
    ),
}
LONG = 150


@pytest.fixture(scope="module", params=sorted(VARIANTS))
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, write_checkpoint: Callable[..., Any]
) -> tuple[Any, Path, int]:
    folder = tmp_path_factory.mktemp("checkpoint")
    kind, changes, original = VARIANTS[request.param]
    return write_checkpoint(folder, kind, changes), folder, original


def _load(folder: Path, context: int | None) -> Model:
    return load_model(folder, device="cpu", dtype="float32", context_length=context)


def _ids(batch: int, length: int) -> torch.Tensor:
    return torch.randint(0, 97, (batch, length), generator=torch.Generator().manual_seed(length))


def test_loaded_for_a_length_it_computes_what_transformers_does_at_that_length(case: tuple[Any, Path, int]) -> None:
    published, folder, original = case
    for length in (original, LONG):
        with torch.no_grad():
            expected = published(_ids(2, length), use_cache=False).logits
        logits = _load(folder, length).forward(_ids(2, length), logits="all")
        torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("cache_name", ["dynamic", "paged"])
def test_what_is_cached_before_the_original_context_ends_holds_behind_it(
    case: tuple[Any, Path, int], cache_name: str
) -> None:
    _, folder, original = case
    model = _load(folder, LONG)
    whole = model.forward(_ids(2, LONG), logits="all")
    cache, at = model.new_cache(cache_name, batch=2), 0
    for step in (original - 3, 1, 1, 5, 1, LONG - original - 5):
        part = model.forward(_ids(2, LONG)[:, at : at + step], cache, logits="all")
        torch.testing.assert_close(part, whole[:, at : at + step], rtol=1e-4, atol=1e-4)
        at += step


def test_a_short_row_beside_a_long_one_is_what_it_is_alone(case: tuple[Any, Path, int]) -> None:
    _, folder, _ = case
    model = _load(folder, LONG)
    ids = _ids(2, LONG)
    together = model.forward(ids, lengths=[LONG, 20])
    torch.testing.assert_close(together[0], model.forward(ids[:1])[0], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(together[1], model.forward(ids[1:, :20])[0], rtol=1e-4, atol=1e-4)


def test_past_the_original_context_the_error_says_how_to_load_the_model(case: tuple[Any, Path, int]) -> None:
    _, folder, original = case
    model = _load(folder, None)
    assert model.config.context_length == original
    with pytest.raises(ContextError, match="load it with context_length up to 256"):
        model.forward(_ids(1, original + 1))
    with pytest.raises(ContextError, match="load it with context_length up to 256"):
        generate(model, list(range(3)), max_new_tokens=original)
    assert _load(folder, 32).config.context_length == 32
    for wrong in (0, 257):
        with pytest.raises(ContextError, match="this model takes 1 to 256"):
            _load(folder, wrong)


def test_a_model_that_is_not_stretched_has_no_longer_context(
    tmp_path: Path, write_checkpoint: Callable[..., Any]
) -> None:
    write_checkpoint(tmp_path, "LlamaConfig", {})
    with pytest.raises(ContextError, match="this model takes 1 to 256"):
        _load(tmp_path, 257)
    with pytest.raises(ContextError) as error:
        _load(tmp_path, 16).forward(_ids(1, 17))
    assert "context_length" not in str(error.value)
