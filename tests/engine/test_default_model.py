"""The real default weights give what Transformers gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from engine.errors import ContextError
from engine.loading import load_model
from engine.model import Model

PROMPTS = (Path(__file__).parent / "prompts.txt").read_text("utf-8").splitlines()


def _chat(model: Model, prompt: str) -> list[int]:
    assert model.text is not None
    return model.text.encode_chat([{"role": "user", "content": prompt}])


def _greedy(model: Model, ids: list[int], most: int) -> list[int]:
    cache = model.new_cache()
    out: list[int] = []
    logits = model.forward(torch.tensor([ids]), cache)
    while len(out) < most:
        out.append(int(logits.argmax()))
        if out[-1] in model.config.eos_token_ids:
            break
        logits = model.forward(torch.tensor([out[-1:]]), cache)
    return out


def test_logits_equal_those_of_transformers(default_model: Model, published: Any) -> None:
    for prompt in (PROMPTS[0], PROMPTS[18], "\n".join(PROMPTS)):
        ids = torch.tensor([_chat(default_model, prompt)])
        with torch.no_grad():
            expected = published(ids).logits
        torch.testing.assert_close(default_model.forward(ids, logits="all"), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("cache_name", ["dynamic", "static"])
def test_cached_logits_equal_uncached_ones_at_every_step_of_a_padded_batch(
    default_model: Model, cache_name: str
) -> None:
    rows = [_chat(default_model, prompt)[-24:] for prompt in (PROMPTS[0], PROMPTS[3])]
    rows[1] = rows[1][-15:]
    alone = [default_model.forward(torch.tensor([row]), logits="all")[0] for row in rows]
    cache = default_model.new_cache(cache_name, batch=2, capacity=64)
    held = [16, 7]
    prompt = torch.zeros(2, 16, dtype=torch.int64)
    for at, (row, length) in enumerate(zip(rows, held, strict=True)):
        prompt[at, 16 - length :] = torch.tensor(row[:length])
    logits = default_model.forward(prompt, cache, lengths=held, padding="left")
    for step in range(9):
        expected = torch.stack([whole[length + step - 1] for whole, length in zip(alone, held, strict=True)])
        torch.testing.assert_close(logits, expected, rtol=1e-3, atol=1e-3)
        if step < 8:
            new = torch.tensor([[row[length + step]] for row, length in zip(rows, held, strict=True)])
            logits = default_model.forward(new, cache)


@pytest.mark.slow
def test_greedy_text_equals_that_of_transformers_for_twenty_prompts(default_model: Model, published: Any) -> None:
    assert len(PROMPTS) == 20 and default_model.text is not None
    for prompt in PROMPTS:
        ids = _chat(default_model, prompt)
        with torch.no_grad():
            expected = published.generate(
                torch.tensor([ids]),
                attention_mask=torch.ones(1, len(ids), dtype=torch.int64),
                max_new_tokens=24,
                do_sample=False,
            )[0, len(ids) :].tolist()
        found = _greedy(default_model, ids, 24)
        assert default_model.text.decode(found) == default_model.text.decode(expected), prompt
        assert found == expected, prompt


def test_bfloat16_predicts_like_float32(default_model: Model, default_gguf: Path) -> None:
    rounded = load_model(default_gguf, device="cpu", dtype="bfloat16")
    ids = torch.tensor([_chat(default_model, "\n".join(PROMPTS))])
    exact = default_model.forward(ids, logits="all")[0].log_softmax(-1)
    cache = rounded.new_cache()
    prefilled = rounded.forward(ids[:, :-8], cache, logits="all")[0]
    stepped = [rounded.forward(ids[:, at : at + 1], cache) for at in range(ids.shape[1] - 8, ids.shape[1])]
    found = torch.cat([prefilled, *stepped]).log_softmax(-1)
    divergence = (exact.exp() * (exact - found)).sum(-1)
    assert divergence.mean() < 0.01
    assert (exact.argmax(-1) == found.argmax(-1)).float().mean() > 0.9


def test_a_prompt_longer_than_the_context_is_refused_before_anything_runs(default_model: Model) -> None:
    cache = default_model.new_cache()
    default_model.forward(torch.tensor([[1, 2, 3]]), cache)
    with pytest.raises(ContextError, match="8193 tokens do not fit into the model's context of 8192"):
        default_model.forward(torch.ones(1, 8190, dtype=torch.int64), cache)
    assert cache.lengths == (3,)
