"""A draft model with another tokenizer, where both tokenizers are those of published models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from torch import Tensor

from engine import Sampling, generate
from engine.config import ModelConfig
from engine.loading.random_weights import random_model
from engine.speculation import Speculation, Universal
from engine.text import Text
from tests.engine.speculation.toys import ToyCache

PAIRS = [("llama2", "qwen3"), ("llama3", "gptoss"), ("qwen3", "llama3")]
WRITTEN = (
    "The committee met on 3 March 2026 in Zürich; present were Ada Lovelace, José Ñandú and 王小明.\n\n"
    '{"name": "Ada", "tags": ["α", "β"], "price": 1234.50, "note": "naïve café \U0001f680\U0001f469\u200d\U0001f680 ok"}\n'
    "def f(x):\n    return [y ** 2  for y in x if y % 3 == 0]   # done\n\tnext\tone — and so on, and so on."
)


@pytest.fixture(scope="module")
def texts(tokenizer_file: Callable[[str], Path]) -> Callable[[str], Text]:
    known: dict[str, Text] = {}

    def text(name: str) -> Text:
        if name not in known:
            known[name] = Text(Tokenizer.from_file(str(tokenizer_file(name))))
        return known[name]

    return text


class Reciter:
    """A model that knows one text by heart and goes on with it in its own tokens, wherever it is in it."""

    def __init__(self, text: Text, written: str) -> None:
        self.text, self.written = text, written
        self.device = torch.device("cpu")
        self.config: Any = SimpleNamespace(vocab_size=text.vocab_size, context_length=10_000, eos_token_ids=())

    def new_cache(self, name: str = "auto", batch: int = 1, capacity: int = 0) -> Any:
        return ToyCache()

    def forward(self, input_ids: Tensor, cache: Any, *, logits: Any = "last") -> Tensor:
        cache.extend(input_ids[0].tolist())
        count = logits if isinstance(logits, int) else 1
        rows = torch.stack([self._after(cache[: len(cache) - back]) for back in range(count - 1, -1, -1)])
        return rows.unsqueeze(0) if isinstance(logits, int) else rows[-1:]

    def _after(self, held: list[int]) -> Tensor:
        row = torch.zeros(self.config.vocab_size)
        whole = self.text.encode(self.written, add_special_tokens=False)
        if held == whole[: len(held)] and len(held) < len(whole):
            row[whole[len(held)]] = 9.0
            return row
        known = len(b"".join(self.text.token_bytes(token) for token in held))
        data, begin = self.written.encode(), known
        while begin < len(data) and data[begin] & 0xC0 == 0x80:  # inside a character
            begin -= 1
        done = begin
        for token in self.text.encode(data[begin:].decode(), add_special_tokens=False):
            if done >= known:
                row[token] = 9.0
                break
            done += len(self.text.token_bytes(token))
        return row


@pytest.mark.parametrize("lookahead", [3, 8])
@pytest.mark.parametrize(("target", "draft"), PAIRS)
def test_a_draft_that_knows_the_text_saves_passes_and_changes_nothing(
    target: str, draft: str, lookahead: int, texts: Callable[[str], Text]
) -> None:
    written, prompt = texts(target).encode(WRITTEN, add_special_tokens=False), 12
    model = Reciter(texts(target), WRITTEN)
    proposer = Universal(Reciter(texts(draft), WRITTEN), texts(draft), texts(target))
    found = generate(
        model, written[:prompt], max_new_tokens=len(written) - prompt, speculation=Speculation(proposer, lookahead)
    ).result()
    assert found.token_ids == written[prompt:]
    metrics = found.metrics
    assert metrics.accepted > 0.8 * metrics.drafted > 0
    assert metrics.forwards_per_token < (0.6 if lookahead == 3 else 0.5)
    assert metrics.retokenize_s > 0


@pytest.mark.parametrize(("target", "draft"), [*PAIRS[:2], ("qwen3", "llama2")])
def test_models_that_write_anything_are_not_disturbed(target: str, draft: str, texts: Callable[[str], Text]) -> None:
    """Texts of random weights, which no tokenizer would write as they are, byte tokens and special ones among them."""

    def model(name: str, seed: int) -> Any:
        shape = {
            "model_type": "llama", "vocab_size": texts(name).vocab_size, "hidden_size": 32, "intermediate_size": 32,
            "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-5,
            "max_position_embeddings": 4096, "tie_word_embeddings": True,
        }  # fmt: skip
        return random_model(ModelConfig.from_huggingface(shape), device="cpu", dtype="float32", seed=seed)

    big, small = model(target, 1), model(draft, 2)
    proposer = Universal(small, texts(draft), texts(target))
    prompt = texts(target).encode("Once upon a time")
    for sampling in (Sampling(temperature=0.0, no_repeat_ngram=1), Sampling(seed=3, temperature=1.5)):
        options: dict[str, Any] = {"sampling": sampling, "max_new_tokens": 24, "eos_token_ids": []}
        plain = generate(big, prompt, **options).result().token_ids
        found = generate(big, prompt, speculation=Speculation(proposer, 4), **options).result()
        assert found.token_ids == plain
        assert found.metrics.drafted > 0
