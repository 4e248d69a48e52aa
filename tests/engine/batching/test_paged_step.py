"""Batches whose steps have fixed shapes: the same texts and logits as those of ordinary steps, one program for each shape."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from engine import Sampling
from engine.batching import BatchEngine
from engine.caches import BlockPool, PagedCache
from engine.errors import CacheError
from engine.loading import load_model
from engine.model import Model
from engine.paged_step import PagedDecoder

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {}),
    "qwen3": ("Qwen3Config", {"head_dim": 16}),
    "mistral past its window": ("MistralConfig", {"sliding_window": 12}),
    "gemma2": ("Gemma2Config", {"head_dim": 16, "sliding_window": 12, "query_pre_attn_scalar": 24}),
}
LENGTHS = (3, 30, 17)


@pytest.fixture(params=sorted(VARIANTS))
def model(request: pytest.FixtureRequest, tmp_path: Path, write_checkpoint: Callable[..., Any]) -> Model:
    write_checkpoint(tmp_path, *VARIANTS[request.param])
    return load_model(tmp_path, device="cpu", dtype="float32")


def _ids(batch: int, length: int) -> torch.Tensor:
    return torch.randint(3, 97, (batch, length), generator=torch.Generator().manual_seed(length))


def test_logits_are_those_of_ordinary_steps_whatever_the_lengths(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.fixed_step.FIRST_BUCKET", 32)
    pool = BlockPool(model.config, model.device, model.dtype, block_size=8, most=40)
    plain, fixed = PagedCache(model.config, 3, model.device, model.dtype, pool=pool), None
    prompts = _ids(3, max(LENGTHS))
    model.forward(prompts, plain, lengths=LENGTHS)
    fixed = plain.fork()  # the last blocks are shared, and copied when they are written
    decoder = PagedDecoder(model, pool, "eager")
    for at in range(6):
        new = _ids(3, 50)[:, at]
        expected = model.forward(new.unsqueeze(1), plain)
        torch.testing.assert_close(decoder.run(new.tolist(), fixed), expected, rtol=1e-4, atol=1e-4)
        assert fixed.lengths == plain.lengths == tuple(length + at + 1 for length in LENGTHS)
    assert decoder.programs == {(4, 32): 1, (4, 64): 1}


def test_texts_are_those_of_ordinary_steps(model: Model) -> None:
    outputs = []
    for runner in ("plain", "eager"):
        engine = BatchEngine(model, blocks=64, max_sequences=5, chunk=16, runner=runner)  # type: ignore[arg-type]
        requests = [
            engine.add(
                _ids(1, 2 + 7 * at)[0].tolist(), max_new_tokens=4 + 3 * at, eos_token_ids=[],
                sampling=Sampling(temperature=0.8, seed=at) if at % 2 else None,
            )
            for at in range(7)
        ]  # fmt: skip
        engine.run()
        outputs.append([engine.result(request).token_ids for request in requests])
        assert engine.usage().used_blocks == 0
        assert (engine.decoder is None) == (runner == "plain")
    assert outputs[0] == outputs[1]
    assert engine.decoder is not None and set(engine.decoder.programs.values()) == {1}


def test_no_blocks_left_is_an_error_that_changes_nothing(model: Model) -> None:
    pool = BlockPool(model.config, model.device, model.dtype, block_size=4, most=2)
    cache = PagedCache(model.config, 1, model.device, model.dtype, pool=pool)
    model.forward(_ids(1, 8), cache)
    with pytest.raises(CacheError, match="blocks are needed"):
        PagedDecoder(model, pool, "eager").run([5], cache)
    assert cache.lengths == (8,)


def test_what_cannot_run_is_refused(tmp_path: Path, write_checkpoint: Callable[..., Any], random_model: Model) -> None:
    with pytest.raises(CacheError, match="unknown runner 'fast': choose 'plain', 'eager', 'graph', 'auto'"):
        BatchEngine(random_model, blocks=8, runner="fast")  # type: ignore[arg-type]
    with pytest.raises(CacheError, match="captures CUDA graphs, and the model is on cpu"):
        BatchEngine(random_model, blocks=8, runner="graph")
    latent = {"num_key_value_heads": 6, "kv_lora_rank": 16, "q_lora_rank": None, "qk_nope_head_dim": 10, "qk_rope_head_dim": 8,
              "v_head_dim": 12, "n_routed_experts": 8, "n_shared_experts": 2, "num_experts_per_tok": 3,
              "moe_intermediate_size": 24, "first_k_dense_replace": 3}  # fmt: skip
    write_checkpoint(tmp_path, "DeepseekV2Config", latent)
    model = load_model(tmp_path, device="cpu", dtype="float32")
    with pytest.raises(CacheError, match="latent attention and mixtures of experts"):
        BatchEngine(model, blocks=8, runner="eager")
    assert BatchEngine(model, blocks=8).decoder is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_captured_batches_give_the_texts_of_ordinary_ones() -> None:
    from engine.loading.random_weights import random_model as make

    model = make("smollm2-135m", device="cuda", dtype="float32")
    outputs = []
    for runner in ("plain", "graph"):
        engine = BatchEngine(model, blocks=256, max_sequences=8, runner=runner)  # type: ignore[arg-type]
        requests = [engine.add(_ids(1, 3 + 5 * at)[0].tolist(), max_new_tokens=20, eos_token_ids=[]) for at in range(8)]
        engine.run()
        outputs.append([engine.result(request).token_ids for request in requests])
    assert outputs[0] == outputs[1]
    assert engine.decoder is not None and set(engine.decoder.programs.values()) == {1}
