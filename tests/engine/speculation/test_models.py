from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engine import Sampling, generate
from engine.caches import NAMES as CACHES
from engine.config import ModelConfig
from engine.errors import EngineError, SpeculationError
from engine.loading.random_weights import random_model as random_model_of
from engine.model import Model
from engine.sampling import Sampler, SamplerRow
from engine.speculation import Combined, DraftModel, EarlyExit, HeadProposer, Speculation
from engine.speculation.models import agreement, fitted, relative_cost
from tests.engine.speculation.toys import Guesser, fitted_head

PROMPT = [5, 6, 7, 8, 9, 5]


def _noise(tokens: list[int], most: int) -> list[int]:
    rng = np.random.default_rng(tokens)
    return [int(token) for token in rng.integers(3, 90, most if rng.random() < 0.5 else 0)]


def proposers(model: Model, sampled: bool) -> dict[str, Any]:
    vocab = model.config.vocab_size
    return {
        "itself": DraftModel(model, vocab, 1.0, sampled=sampled),
        "some layers": DraftModel(model.with_layers([0, 2]), vocab, 0.7, sampled=sampled),
        "early exit": EarlyExit(model, 2, sampled=sampled),
        "a head": HeadProposer(model, fitted_head(model, PROMPT), sampled=sampled),
        "after nonsense": Combined([Guesser(_noise), DraftModel(model, vocab, 1.0, sampled=sampled)]),
        "exit after nonsense": Combined([Guesser(_noise), EarlyExit(model, 2, sampled=sampled)]),
        "head after nonsense": Combined(
            [Guesser(_noise), HeadProposer(model, fitted_head(model, PROMPT), sampled=sampled)]
        ),
    }


NAMES = [
    "itself",
    "some layers",
    "early exit",
    "a head",
    "after nonsense",
    "exit after nonsense",
    "head after nonsense",
]
SAMPLINGS = [
    Sampling(temperature=0.0),
    Sampling(temperature=0.0, no_repeat_ngram=2, repetition_penalty=1.2),
    Sampling(seed=2, top_k=20, frequency_penalty=0.4),
]


@pytest.mark.parametrize("lookahead", [1, 4, 8])
@pytest.mark.parametrize("name", NAMES)
def test_best_tokens_as_guesses_change_no_text(random_model: Model, name: str, lookahead: int) -> None:
    proposer = proposers(random_model, sampled=False)[name]
    for sampling in SAMPLINGS:
        options: dict[str, Any] = {"sampling": sampling, "max_new_tokens": 24, "eos_token_ids": []}
        plain = generate(random_model, PROMPT, **options).result()
        found = generate(random_model, PROMPT, speculation=Speculation(proposer, lookahead), **options).result()
        assert found.token_ids == plain.token_ids
        assert found.metrics.drafted > 0
        if name == "itself" and sampling.is_greedy:  # so its own cache is in step with the text
            assert found.metrics.wasted == 0
            assert found.metrics.target_forwards == -(-24 // (lookahead + 1))


def test_a_head_that_fits_the_model_guesses_some_of_its_text(random_model: Model) -> None:
    proposer = HeadProposer(random_model, fitted_head(random_model, PROMPT))
    found = generate(
        random_model, PROMPT, max_new_tokens=60, eos_token_ids=[], speculation=Speculation(proposer, 2)
    ).result()
    assert found.metrics.accepted > 10


@pytest.mark.parametrize("cache", [name for name in CACHES if name not in ("latent", "quantized")])
@pytest.mark.parametrize("name", ["after nonsense", "exit after nonsense"])
def test_every_exact_cache_is_cut_back_to_what_was_accepted(random_model: Model, name: str, cache: str) -> None:
    options: dict[str, Any] = {"max_new_tokens": 60, "eos_token_ids": []}
    plain = generate(random_model, PROMPT, **options).result()
    speculation = Speculation(proposers(random_model, sampled=False)[name], 5)
    found = generate(random_model, PROMPT, speculation=speculation, cache=cache, **options).result()
    assert found.token_ids == plain.token_ids
    assert 0 < found.metrics.accepted < found.metrics.drafted


@pytest.mark.parametrize("cache", [name for name in CACHES if name != "latent"])
def test_a_block_that_was_taken_back_leaves_no_trace_in_any_cache(random_model: Model, cache: str) -> None:
    options = {"unchecked": True} if cache == "quantized" else {}
    plain, tried = (random_model.new_cache(cache, 2, 256, **options) for _ in range(2))
    rng = np.random.default_rng(3)
    text = torch.from_numpy(rng.integers(3, 90, (2, 130)))
    lengths = [7, 7]
    for held in (plain, tried):
        random_model.forward(text[:, :7], held)
    while max(lengths) < 110:
        accepted = [int(count) for count in rng.integers(0, 6, 2)]
        wrong = torch.from_numpy(rng.integers(3, 90, (2, 6)))
        block = wrong.clone()
        for row, count in enumerate(accepted):
            block[row, : count + 1] = text[row, lengths[row] : lengths[row] + count + 1]
        random_model.forward(block, tried)
        lengths = [length + count + 1 for length, count in zip(lengths, accepted, strict=True)]
        tried.truncate(lengths)
        assert tried.lengths == tuple(lengths)
    for at in range(7, 130):  # token by token, row by row its own length
        counts = [int(at < length) for length in lengths]
        if any(counts):
            random_model.forward(text[:, at : at + 1], plain, lengths=counts)
    last = torch.stack([text[row, length : length + 1] for row, length in enumerate(lengths)])
    close = {"atol": 2e-2, "rtol": 2e-2} if cache == "quantized" else {"atol": 1e-4, "rtol": 1e-4}
    torch.testing.assert_close(random_model.forward(last, tried), random_model.forward(last, plain), **close)


@pytest.fixture(scope="module")
def latent_model() -> Model:
    """Latent attention, and experts in two of its three layers."""
    shape = {
        "model_type": "deepseek_v2", "vocab_size": 97, "hidden_size": 48, "intermediate_size": 80,
        "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 6, "kv_lora_rank": 16,
        "q_lora_rank": None, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "n_routed_experts": 8,
        "n_shared_experts": 1, "num_experts_per_tok": 3, "moe_intermediate_size": 24, "first_k_dense_replace": 1,
        "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
    }  # fmt: skip
    return random_model_of(ModelConfig.from_huggingface(shape), device="cpu", dtype="float32", seed=5)


@pytest.mark.parametrize("cache", ["latent", "static", "paged", "offloaded", "sliding"])
def test_caches_of_latents_are_cut_back_to_what_was_accepted(latent_model: Model, cache: str) -> None:
    vocab = latent_model.config.vocab_size
    for sampling in (None, Sampling(seed=2, top_k=20, frequency_penalty=0.4)):
        options: dict[str, Any] = {"sampling": sampling, "max_new_tokens": 30, "eos_token_ids": []}
        plain = generate(latent_model, PROMPT, **options).result()
        for last in (DraftModel(latent_model, vocab, 1.0, sampled=False), EarlyExit(latent_model, 2, sampled=False)):
            speculation = Speculation(Combined([Guesser(_noise), last]), 5)
            found = generate(latent_model, PROMPT, speculation=speculation, cache=cache, **options).result()
            assert found.token_ids == plain.token_ids
            assert found.metrics.wasted > 0


@pytest.mark.parametrize("bits", [8, 4, "fp8"])
def test_a_quantized_cache_gives_the_text_that_it_gives_without_guesses(
    random_model: Model, bits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past several groups that are packed, with guesses that are refused where one was about to be."""
    make = random_model.new_cache
    monkeypatch.setattr(
        random_model, "new_cache",
        lambda name="auto", *sizes: make(name, bits=bits, tail=0, unchecked=True) if name == "quantized" else make(name, *sizes),
    )  # fmt: skip
    sampling = Sampling(seed=4, temperature=1.5, frequency_penalty=0.5, logprobs=0)
    options: dict[str, Any] = {
        "sampling": sampling, "max_new_tokens": 120, "eos_token_ids": [], "cache": "quantized"
    }  # fmt: skip
    plain = generate(random_model, PROMPT, **options).result()
    exact = generate(random_model, PROMPT, **{**options, "cache": "dynamic"}).result()
    assert plain.logprobs != exact.logprobs  # so it matters what is packed

    def guess(tokens: list[int], most: int) -> list[int]:
        """What will come, with a slip in every seventh guess or so."""
        rng = np.random.default_rng(len(tokens))
        right = plain.token_ids[len(tokens) - len(PROMPT) :][:most]
        return [token if rng.random() < 0.85 else 3 for token in right]

    for lookahead in (3, 12):
        found = generate(random_model, PROMPT, speculation=Speculation(Guesser(guess), lookahead), **options).result()
        assert found.token_ids == plain.token_ids
        assert 40 < found.metrics.accepted < found.metrics.drafted


@pytest.mark.parametrize("name", ["some layers", "early exit", "head after nonsense"])
def test_drawn_guesses_give_texts_distributed_as_without(
    random_model: Model, name: str, assert_distributed: Any
) -> None:
    proposer = proposers(random_model, sampled=True)[name]
    settings: dict[str, Any] = {"top_k": 3, "temperature": 2.0, "repetition_penalty": 1.1}
    trials, counts = 250, np.zeros((97, 97))
    accepted = 0
    for seed in range(trials):
        found = generate(
            random_model, PROMPT, sampling=Sampling(**settings, seed=seed), max_new_tokens=3, eos_token_ids=[],
            speculation=Speculation(proposer, 2),
        ).result()  # fmt: skip
        counts[tuple(found.token_ids[:2])] += 1
        accepted += found.metrics.accepted
    assert accepted > 20
    assert_distributed(counts, _joint(random_model, settings))


def _joint(model: Model, settings: dict[str, Any]) -> np.ndarray:
    """The distribution of the first two tokens."""
    joint = np.zeros((97, 97))
    sampler = Sampler([SamplerRow(Sampling(**settings, seed=1), PROMPT)], 97)
    first = sampler.probabilities(model.forward(torch.tensor([PROMPT])))[0]
    for token in first.nonzero().flatten().tolist():
        sampler.commit([token])
        second = sampler.probabilities(model.forward(torch.tensor([[*PROMPT, token]])))[0]
        joint[token] = float(first[token]) * second.double().numpy()
        sampler.rollback([1])
    return joint


class TestModel:
    def test_layers_taken_out_leave_a_model_of_the_others(self, random_model: Model) -> None:
        ids = torch.tensor([PROMPT])
        assert torch.equal(random_model.with_layers(range(3)).forward(ids), random_model.forward(ids))
        exit_logits = random_model.forward(ids, random_model.new_cache(), layers=2)
        assert torch.equal(random_model.with_layers([0, 1]).forward(ids), exit_logits)
        assert not torch.equal(random_model.with_layers([0, 2]).forward(ids), exit_logits)
        assert random_model.with_layers([2]).config.layers == 1
        assert random_model.config.layers == 3

    @pytest.mark.parametrize("layers", [[], [3], [-1], [0, 9]])
    def test_layers_that_there_are_not_are_refused(self, random_model: Model, layers: list[int]) -> None:
        with pytest.raises(EngineError, match="choose some of 0 to 2"):
            random_model.with_layers(layers)

    @pytest.mark.parametrize("layers", [0, 3, 4])
    def test_an_exit_that_is_none_is_refused(self, random_model: Model, layers: int) -> None:
        with pytest.raises(SpeculationError, match="choose 1 to 2"):
            EarlyExit(random_model, layers)

    def test_the_last_logits_of_each_row_are_those_of_all(self, random_model: Model) -> None:
        ids = torch.tensor([PROMPT, PROMPT[::-1]])
        everything = random_model.forward(ids, logits="all")
        torch.testing.assert_close(random_model.forward(ids, logits=3), everything[:, -3:])
        uneven = random_model.forward(ids, lengths=[6, 4], logits=2)
        torch.testing.assert_close(uneven[0], everything[0, 4:])
        torch.testing.assert_close(uneven[1], everything[1, 2:4])
        for count in (0, 7):
            with pytest.raises(EngineError, match="choose 1 to 6"):
                random_model.forward(ids, logits=count)

    def test_states_and_head_are_the_forward_pass(self, random_model: Model) -> None:
        ids = torch.tensor([PROMPT])
        logits = random_model.head(random_model.states(ids))
        torch.testing.assert_close(logits, random_model.forward(ids, logits="all"))

    def test_costs_are_shares_of_what_a_token_goes_through(self, random_model: Model) -> None:
        one, two = (EarlyExit(random_model, layers).cost for layers in (1, 2))
        assert 0 < one < two < 1
        assert relative_cost(random_model.with_layers([0]), random_model) == pytest.approx(one)


def test_agreement_is_the_length_of_the_common_beginning() -> None:
    assert agreement([1, 2, 3], [1, 2, 4, 5], 9) == 2
    assert agreement([1, 2, 3], [1, 2, 3, 5], 2) == 2
    assert agreement([], [1], 1) == 0


def test_logits_are_cut_or_filled_to_the_targets_width() -> None:
    logits = torch.tensor([[1.0, 2.0, 3.0]])
    assert fitted(logits, 2).tolist() == [[1.0, 2.0]]
    assert fitted(logits, 4).tolist() == [[1.0, 2.0, 3.0, -torch.inf]]
    assert fitted(logits, 3) is logits or torch.equal(fitted(logits, 3), logits)


class Letters:
    """A tokenizer whose tokens are letters, or, for the draft, pairs of them where there are two."""

    def __init__(self, pairs: bool) -> None:
        letters = "abcdefgh"
        self.tokens = [*letters, *(a + b for a in letters for b in letters)] if pairs else list(letters)
        self.longest = 2 if pairs else 1

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        ids = []
        while text:
            piece = text[: self.longest] if text[: self.longest] in self.tokens else text[:1]
            if piece in self.tokens:
                ids.append(self.tokens.index(piece))
            text = text[len(piece) :]
        return ids

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return "".join(self.tokens[token] for token in token_ids)


class Reciter:
    """A model of one text by heart; right except where the place is a multiple of `slip`."""

    def __init__(self, tokens: Letters, text: str, slip: int = 0) -> None:
        from types import SimpleNamespace

        self.tokens, self.text, self.slip = tokens, text, slip
        self.config: Any = SimpleNamespace(
            vocab_size=len(tokens.tokens), context_length=4000, eos_token_ids=(), layers=1
        )
        self.device = torch.device("cpu")
        self.ran = 0

    def new_cache(self, name: str = "auto", batch: int = 1, capacity: int = 0) -> Any:
        from tests.engine.speculation.toys import ToyCache

        return ToyCache()

    def forward(self, input_ids: Tensor, cache: Any, *, logits: Any = "last") -> Tensor:
        self.ran += input_ids.shape[1]
        cache.extend(input_ids[0].tolist())
        count = logits if isinstance(logits, int) else 1
        rows = []
        for back in range(count - 1, -1, -1):
            place = len(self.tokens.decode(cache[: len(cache) - back]))
            after = self.text[place:]
            if self.slip and place % self.slip == 0:
                after = "h" + after[1:]
            row = torch.zeros(len(self.tokens.tokens))
            row[self.tokens.encode(after)[0]] = 5.0
            rows.append(row)
        return torch.stack(rows).unsqueeze(0) if isinstance(logits, int) else rows[-1].unsqueeze(0)


@pytest.mark.parametrize("slip", [0, 7, 2, 1])
@pytest.mark.parametrize("lookahead", [1, 3, 8])
def test_a_draft_with_other_tokens_is_written_anew_in_the_targets(slip: int, lookahead: int) -> None:
    from engine.speculation import Universal

    text = "abcdefg" * 3 + "gfedcba" * 8 + "aabbccdd" * 3
    letters, pairs = Letters(pairs=False), Letters(pairs=True)
    target, draft = Reciter(letters, text), Reciter(pairs, text, slip)
    prompt, count = letters.encode(text[:9]), 60
    proposer = Universal(draft, pairs, letters)
    found = generate(target, prompt, max_new_tokens=count, speculation=Speculation(proposer, lookahead)).result()
    assert letters.decode(found.token_ids) == text[9 : 9 + count]
    metrics = found.metrics
    if slip == 0:
        assert metrics.wasted == 0
        assert metrics.target_forwards == -(-count // (lookahead + 1))
        assert draft.ran < 3 * count  # the draft's cache is kept, not filled anew
    assert metrics.retokenize_s > 0
    sampled = generate(
        target, prompt, sampling=Sampling(seed=1), max_new_tokens=count, speculation=Speculation(proposer, lookahead)
    ).result()
    plain = generate(target, prompt, sampling=Sampling(seed=1), max_new_tokens=count).result()
    assert sampled.token_ids == plain.token_ids


def test_guesses_that_do_not_go_on_from_the_text_are_given_up() -> None:
    from engine.speculation import Universal

    class Merging(Letters):
        """Writes a text of its own tokens otherwise than it was written: pairs from the front, and "ab" never back."""

        def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
            return super().decode(token_ids).replace("ab", "a")

    text = "abcdefgh" * 12
    letters, pairs = Letters(pairs=False), Letters(pairs=True)
    target = Reciter(letters, text)
    proposer = Universal(Reciter(pairs, text), pairs, Merging(pairs=False))
    found = generate(target, letters.encode(text[:8]), max_new_tokens=40, speculation=Speculation(proposer, 4)).result()
    assert letters.decode(found.token_ids) == text[8:48]
