"""What rounding of weights or caches costs: perplexity and greedy agreement on fixed texts, against the model as it was.

The texts are of the kinds that the engine is used for: prose, code, JSON, and instructions.  They are part of the measure,
so they never change without a new version of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.caches.quantized import FP8_MOST, Scales
from engine.errors import CacheError, EngineError

if TYPE_CHECKING:
    from engine.caches import Cache
    from engine.model import Model

VERSION = 1

MOST_WORSE = 0.01
"""Share by which the perplexity of a default may be above the reference's."""

TEXTS = (
    "The harbour of the small town lies in a bay that is open to the south. In winter the fishermen repair their nets "
    "in the sheds along the quay, and when the weather allows it they go out before sunrise and come back in the early "
    "afternoon. The lighthouse was built in 1871 after three ships had been lost on the rocks within a year. Its keeper "
    "wrote down the weather each evening, the names of the ships that passed, and sometimes a remark about the birds "
    "that rested on the gallery. Most of these books are now in the museum, where visitors can read them.",
    "Water boils at a lower temperature on a mountain because the pressure of the air is lower there. At sea level the "
    "boiling point is 100 degrees Celsius; at a height of 3,000 metres it is about 90 degrees. Food that is cooked in "
    "boiling water therefore needs more time. A pressure cooker works the other way round: the steam cannot escape, "
    "the pressure rises, and the water becomes hotter than 100 degrees before it boils.",
    'def read_lines(path, encoding=\'utf-8\'):\n    """Return the lines of a text file without their line ends."""\n'
    "    with open(path, encoding=encoding) as file:\n        return [line.rstrip('\\n') for line in file]\n\n\n"
    "def count_words(lines):\n    counts = {}\n    for line in lines:\n        for word in line.lower().split():\n"
    "            counts[word] = counts.get(word, 0) + 1\n    return counts\n",
    '{"name": "Ada Lovelace", "born": "1815-12-10", "died": "1852-11-27", "occupation": ["mathematician", "writer"], '
    '"address": {"street": "St James\'s Square", "number": 12, "city": "London", "country": "United Kingdom"}, '
    '"known_for": "The first published algorithm intended for a machine", "children": 3, "living": false}',
    "Question: A train leaves at 9:40 and arrives at 12:05. How long does the journey take?\nAnswer: From 9:40 to 12:00 "
    "are 2 hours and 20 minutes, and 5 more minutes make 2 hours and 25 minutes.\nQuestion: Which planet is the largest "
    "of the solar system?\nAnswer: Jupiter is the largest planet of the solar system.",
)


@dataclass(frozen=True, slots=True)
class Quality:
    """How a rounded model compares with its reference on `TEXTS`.

    Attributes:
        perplexity, reference: exp of the mean negative log-likelihood of a token.
        agreement: share of positions at which both find the same token most likely.
    """

    perplexity: float
    reference: float
    agreement: float

    @property
    def worse(self) -> float:
        """Share by which the perplexity is above the reference's; negative where it is below."""
        return self.perplexity / self.reference - 1.0

    @property
    def passes(self) -> bool:
        """Whether a default may be that much worse."""
        return self.worse <= MOST_WORSE


def compare(model: Model, reference: Model, sequences: Sequence[Sequence[int]]) -> Quality:
    """Runs both over tokenised texts; those of fewer than two tokens say nothing and are left out.

    Raises:
        EngineError: nothing to compare on.
    """
    pairs = []
    for tokens in sequences:
        ids = torch.tensor([list(tokens)], dtype=torch.int64)
        if ids.shape[1] > 1:
            ours, theirs = (each.forward(ids.to(each.device), logits="all")[0] for each in (model, reference))
            pairs.append((ids[0], ours, theirs))
    return _quality(pairs)


CHUNK = 32
"""Tokens of a step where caches are compared: what one step has put into the cache, the next ones read."""


def compare_caches(model: Model, cache: Cache, reference: Cache, tokens: Sequence[int]) -> Quality:
    """Runs a text through the model with either cache (each empty, of one row), in steps of `CHUNK` tokens.

    Raises:
        EngineError: nothing to compare on.
    """
    ids = torch.tensor([list(tokens)], dtype=torch.int64, device=model.device)
    rows = [
        torch.cat(
            [model.forward(part, each, logits="all")[0] for part in ids.split_with_sizes(_steps(ids.shape[1]), 1)]
        )
        for each in (cache, reference)
    ]
    return _quality([(ids[0], rows[0], rows[1])])


def check_cache(model: Model, cache: Cache, reference: Cache) -> Quality:
    """What a lossy cache costs a model on `TEXTS`.

    Raises:
        CacheError: more than `MOST_WORSE`, or the model has no tokenizer to read the texts with.
    """
    if model.text is None:
        raise CacheError(
            f"a {cache.name} cache is checked on texts first, and the model came without a tokenizer: pass "
            "unchecked=True to use it all the same"
        )
    tokens = [token for text in TEXTS for token in model.text.encode(text)]
    quality = compare_caches(model, cache, reference, tokens[: model.config.context_length])
    if not quality.passes:
        raise CacheError(
            f"a {cache.name} cache makes the perplexity of this model {quality.worse:.1%} worse, more than the "
            f"{MOST_WORSE:.0%} that are let through: use cache='dynamic', or pass unchecked=True"
        )
    return quality


@torch.inference_mode()
def calibrate_scales(model: Model, tokens: Sequence[int] | None = None) -> Scales:
    """Scales for `bits="fp8"`: of each layer, the largest key and the largest value of a text, over the largest number of fp8.

    Args:
        tokens: the text; `None`: `TEXTS`.

    Raises:
        CacheError: the model has no tokenizer to read the texts with, or latents for keys.
    """
    if model.config.latent is not None:
        raise CacheError("scales of latents: keys and values are one there; use cache='latent'")
    read = _read_texts(model) if tokens is None else list(tokens)
    cache = model.new_cache("dynamic")
    model.forward(torch.tensor([read], device=model.device), cache)
    cache.begin(1)
    empty = [torch.zeros((1, model.config.kv_heads, 1, width), device=model.device, dtype=model.dtype)
             for width in (model.config.head_dim, model.config.value_dim)]  # fmt: skip
    scales = []
    for layer in range(model.config.layers):
        keys, values = cache.update(layer, *empty)
        most = [max(float(side[:, :, :-1].abs().amax()), 1e-6) / FP8_MOST for side in (keys, values)]
        scales.append((most[0], most[1]))
    return tuple(scales)


def cache_report(model: Model) -> dict[str, Quality]:
    """What each kind of quantized cache costs a model on `TEXTS`, by a name for it.

    Raises:
        CacheError: as `calibrate_scales`.
    """
    tokens, scales = _read_texts(model), calibrate_scales(model)
    kinds: dict[str, dict[str, Any]] = {
        "int8": {"bits": 8},
        "int4": {"bits": 4},
        "fp8, default scales": {"bits": "fp8"},
        "fp8, calibrated scales": {"bits": "fp8", "scales": scales},
    }
    return {
        name: compare_caches(
            model, model.new_cache("quantized", unchecked=True, **options), model.new_cache("dynamic"), tokens
        )
        for name, options in kinds.items()
    }


def _read_texts(model: Model) -> list[int]:
    if model.text is None:
        raise CacheError("the model came without a tokenizer to read texts with: pass tokens")
    tokens = [token for text in TEXTS for token in model.text.encode(text)]
    return tokens[: model.config.context_length - 1]


def _steps(length: int) -> list[int]:
    return [min(CHUNK, length - at) for at in range(0, length, CHUNK)]


def _quality(pairs: Sequence[tuple[Tensor, Tensor, Tensor]]) -> Quality:
    """Of (tokens [n], logits [n, vocab], the reference's) for each text."""
    losses, agreeing, positions = torch.zeros(2, dtype=torch.float64), 0, 0
    for ids, *both in pairs:
        rows = [row[:-1].float().cpu() for row in both]
        targets = ids[1:].cpu()
        losses += torch.stack([F.cross_entropy(row, targets, reduction="sum").double() for row in rows])
        agreeing += int((rows[0].argmax(-1) == rows[1].argmax(-1)).sum())
        positions += len(targets)
    if not positions:
        raise EngineError("no text of two tokens or more to compare on")
    perplexity, plain = (math.exp(float(loss) / positions) for loss in losses)
    return Quality(perplexity, plain, agreeing / positions)
