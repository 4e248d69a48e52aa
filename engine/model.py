"""The decoder: token ids in, logits out, with keys and values kept in a cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor

from engine import caches
from engine.attention import Backend
from engine.blocks import Block
from engine.caches import Cache, QuantizedCache, StaticCache
from engine.config import ModelConfig
from engine.devices import Packing, upload
from engine.errors import CacheError, ContextError, EngineError, TrainingError
from engine.fixed_step import FixedDecoder, FixedStep
from engine.layers import FEW, Linear, RMSNorm, can_pack
from engine.packed import MOST_ROWS, PackedLinear, make_linear
from engine.paged_step import PagedStep
from engine.rope import RotaryEmbedding
from engine.step import Step

if TYPE_CHECKING:
    from engine.quality import Quality
    from engine.text import Text


class Model:
    """A decoder-only transformer with its weights, for inference only.

    Attributes:
        config: shape and options, the end tokens among them.
        text: tokenizer and chat template, where the model's files have them.
        device, dtype: where and in what the weights are.
        backend: attention backend; one of `engine.attention.BACKENDS`, to be set before a forward pass.
        keeps_packed: whether packed weights stay packed however many rows decode together; see `batch_invariant`.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: Mapping[str, Tensor],
        text: Text | None = None,
        *,
        batch_invariant: bool = True,
    ) -> None:
        """`weights` are named and fused as `engine.loading.fuse.fuse_weights` does it; `batch_invariant` as `load_model`
        takes it."""
        self.config, self.text = config, text
        self.keeps_packed = batch_invariant
        self.backend: Backend = "sdpa"
        self._checked: dict[tuple[tuple[str, Any], ...], Quality] = {}
        self._embedding = weights["embedding.weight"]
        self.device, self.dtype = self._embedding.device, self._embedding.dtype
        factors = weights.get("rope.long_factors" if config.rope.is_stretched else "rope.factors")
        rotary = RotaryEmbedding(config.rope, config.rotated, self.device, self.dtype, factors)
        local = rotary
        if config.local_rope is not None:
            local = RotaryEmbedding(config.local_rope, config.rotated, self.device, self.dtype)

        self._rotaries = (rotary, local)

        def rotary_of(layer: int) -> RotaryEmbedding | None:
            if layer in config.unrotated_layers:
                return None
            return local if config.window(layer) else rotary

        self._blocks = [Block(config, layer, weights, rotary_of(layer)) for layer in range(config.layers)]
        self._norm = RMSNorm(weights["norm.weight"], config.norm_eps)
        self._shares_head = "head.weight" not in weights
        head = self._embedding if self._shares_head else weights["head.weight"]
        # Packed kernels of 8 bits are the slower ones from the second row on, and no faster for one.
        self._head = Linear(head) if self._shares_head or can_pack(head) else make_linear(weights, "head")
        linears = [self._head, *(linear for block in self._blocks for linear in block.linears)]
        plain = config.latent is None and config.experts is None
        self._rows_agree = plain and all(linear.rows_agree for linear in linears)
        self._fewest_rows = max(linear.fewest_rows for linear in linears) if self._rows_agree else 1

    def new_cache(self, name: str = "auto", batch: int = 1, capacity: int = 0, **options: Any) -> Cache:
        """An empty cache for `batch` rows on the model's device; see `engine.caches.create`.

        A `"quantized"` one is tried on texts first (`engine.quality`), once for a model and its options; `unchecked=True`
        leaves that out.

        Raises:
            CacheError: as `create`; or the quantized cache makes the model worse than is let through.
        """

        def make(name: str, batch: int, capacity: int, **options: Any) -> Cache:
            return caches.create(
                name, self.config, batch, device=self.device, dtype=self.dtype, capacity=capacity, **options
            )

        if name != QuantizedCache.name or options.pop("unchecked", False):
            return make(name, batch, capacity, **options)
        trial = tuple(sorted(options.items()))
        if trial not in self._checked:
            from engine.quality import check_cache

            self._checked[trial] = check_cache(self, make(name, 1, 0, **options), make("auto", 1, 0))
        return make(name, batch, capacity, **options)

    @torch.inference_mode()
    def forward(
        self,
        input_ids: Tensor,
        cache: Cache | None = None,
        *,
        lengths: Sequence[int] | None = None,
        padding: Literal["right", "left"] = "right",
        logits: Literal["last", "all"] | int = "last",
        layers: int | None = None,
        prompt: bool | None = None,
    ) -> Tensor:
        """Runs new tokens through the model, behind what the cache holds, and commits them to it.

        Args:
            input_ids: int64 [batch, new]; row i continues row i of the cache.
            cache: keys and values of the earlier tokens, extended in place; `None`: there are none and none are kept.
            lengths: how many of each row's tokens are real, 0 … new; `None`: all.  What the others are does not matter;
                they are neither seen nor committed.
            padding: the side on which the other tokens stand.
            logits: `"last"`: of each row's last real token; `"all"`: of every token (padding's mean nothing); a number n:
                of each row's last n real tokens, 1 … new (the first of a row that has fewer mean nothing).
            layers: run the first so many layers alone, the norm and the head behind them.  What the cache then holds of
                the others is to be taken back (`Cache.truncate`).
            prompt: whether the tokens are of prompts (all of them) or generated and guessed ones; `None`: they are of prompts
                where a row has more than `engine.layers.FEW`.  The two are computed in different ways, which agree up to
                rounding; a token that is always said to be the same of the two gets the same bits (`alike`).

        Returns:
            float32 [batch, vocab_size], or [batch, new, vocab_size] for `"all"`, or [batch, n, vocab_size]; an inference
            tensor.  A row without real tokens has meaningless logits.

        Raises:
            ContextError: a row would be longer than the model's context; the cache has not moved.
            EngineError: malformed input; likewise.
        """
        if input_ids.dim() != 2 or 0 in input_ids.shape:
            raise EngineError(f"input ids of shape {tuple(input_ids.shape)}: wanted is [batch, new], both at least 1")
        batch, new = input_ids.shape
        counts = self._counts(batch, new, lengths)
        if padding == "left" and lengths is not None:
            # Slots are positions, so inside the model rows begin at the left and padding is at the right.
            shift = new - upload(counts, self.device).unsqueeze(1)
            order = (torch.arange(new, device=self.device) + shift) % new
            input_ids = input_ids.gather(1, order)

        if isinstance(cache, StaticCache) and cache.runner != "plain" and counts == (1,) * batch and layers is None:
            return self._decode_fixed(input_ids, cache, logits)
        hidden = self._states(input_ids, cache, counts, layers, prompt)
        if logits == "last":
            return self.head(_last(hidden, counts))
        if isinstance(logits, int):
            return self.head(_last_few(hidden, counts, logits))
        everything = self.head(hidden)
        if padding == "left" and lengths is not None:
            back = (torch.arange(new, device=self.device) - shift) % new
            everything = everything.gather(1, back.unsqueeze(-1).expand_as(everything))
        return everything

    __call__ = forward

    def _decode_fixed(self, input_ids: Tensor, cache: StaticCache, logits: Literal["last", "all"] | int) -> Tensor:
        self._check_context(max(self._held(input_ids.shape[0], cache)) + 1)
        cache.begin(1)
        if cache.decoder is None:
            cache.decoder = FixedDecoder(self, cache, cache.runner)
        rows = cache.decoder.run(input_ids)
        cache.advance(1)
        return rows if logits == "last" else rows.unsqueeze(1)

    def fixed_step(self, input_ids: Tensor, step: FixedStep | PagedStep) -> Tensor:
        """Logits float32 [batch, vocab_size] behind one token a row, int64 [batch, 1]; the cache of `step` is written and
        not advanced.  Depends on no value of a tensor, so that it can be compiled and captured."""
        x = self.embed(input_ids)
        for block in self._blocks:
            x = block(x, step)
        return self.head(x[:, -1])

    def reach(self, positions: int) -> None:
        """Has the tables of all rotations reach so far, so that none grows within a step."""
        for rotary in self._rotaries:
            rotary.reach(positions)

    @torch.inference_mode()
    def states(
        self,
        input_ids: Tensor,
        cache: Cache | None = None,
        *,
        lengths: Sequence[int] | None = None,
        last: int | None = None,
        prompt: bool | None = None,
    ) -> Tensor:
        """What `head` makes logits of: the states behind the last layer, [batch, new, hidden], or [batch, last, hidden] of
        each row's last real tokens; otherwise as `forward`, with padding at the right."""
        batch, new = input_ids.shape
        counts = self._counts(batch, new, lengths)
        hidden = self._states(input_ids, cache, counts, prompt=prompt)
        return hidden if last is None else _last_few(hidden, counts, last)

    def _states(
        self,
        input_ids: Tensor,
        cache: Cache | None,
        counts: tuple[int, ...],
        layers: int | None = None,
        prompt: bool | None = None,
    ) -> Tensor:
        """[batch, new, hidden] of rows of tokens, of which the first `counts` are committed to the cache."""
        batch, new = input_ids.shape
        held = self._held(batch, cache)
        self._check_context(max(length + count for length, count in zip(held, counts, strict=True)))
        if cache is not None:
            cache.begin(new, counts)
        prompt = new > FEW if prompt is None else prompt
        unpacked = prompt or (batch > 1 and self._unpacks(batch * new))
        step = Step(
            held, new, cache, self.backend, self.device, counts=counts, prompt=prompt, alike=self.alike is not None,
            unpacked=unpacked, fewest=self._fewest_rows if self.packing is None or unpacked else 1,
        )  # fmt: skip
        x = step.fill(self.embed(input_ids))
        for block in self._blocks[:layers]:
            x = block(x, step)
        if cache is not None:
            cache.advance(counts)
        return step.real(x)

    @torch.no_grad()
    def embed(self, input_ids: Tensor) -> Tensor:
        """What the first layer gets: [..., hidden] of int64 [...]."""
        x = F.embedding(input_ids, self._embedding)
        if self.config.embedding_scale != 1.0:
            x = x * torch.tensor(self.config.embedding_scale, dtype=x.dtype)
        return x

    @torch.no_grad()
    def head(self, hidden: Tensor) -> Tensor:
        """Logits float32 [..., vocab_size] of hidden states [..., hidden] behind the last layer."""
        logits = self._head(self._norm(hidden)).float()
        cap = self.config.logit_softcap
        return (logits / cap).tanh() * cap if cap else logits

    def _check_context(self, longest: int) -> None:
        if longest > self.config.context_length:
            raise ContextError(
                f"{longest} tokens do not fit into the model's context of {self.config.context_length}: "
                f"shorten the prompt or lower max_tokens{self.config.longer_context}"
            )

    def _counts(self, batch: int, new: int, lengths: Sequence[int] | None) -> tuple[int, ...]:
        if lengths is None:
            return (new,) * batch
        counts = tuple(int(length) for length in lengths)
        if len(counts) != batch or min(counts) < 0 or max(counts) > new:
            raise EngineError(f"lengths {counts} for input ids of shape {(batch, new)}: one of 0 … {new} per row")
        return counts

    def _held(self, batch: int, cache: Cache | None) -> tuple[int, ...]:
        if cache is None:
            return (0,) * batch
        if cache.batch != batch:
            raise CacheError(f"{batch} rows of input ids for a cache of {cache.batch} rows")
        return cache.lengths

    def train(self, mode: bool = True) -> NoReturn:
        """Raises `TrainingError`: the engine keeps no gradients."""
        raise TrainingError("this engine only decodes: train the model with Transformers and load the result here")

    def with_layers(self, layers: Sequence[int]) -> Model:
        """A model of these layers alone, in that order, that shares its weights with this one.

        Raises:
            EngineError: a layer that there is not, or none.
        """
        if not layers or any(not 0 <= layer < self.config.layers for layer in layers):
            raise EngineError(
                f"layers {list(layers)} of {self.config.layers}: choose some of 0 to {self.config.layers - 1}"
            )
        config = self.config
        model = copy(self)
        model.config = replace(
            config,
            layers=len(layers),
            windows=tuple(config.windows[layer] for layer in layers) if config.windows else (),
            unrotated_layers=tuple(at for at, layer in enumerate(layers) if layer in config.unrotated_layers),
        )
        model._checked = {}
        model._blocks = [self._blocks[layer].at(place) for place, layer in enumerate(layers)]
        return model

    @property
    def packing(self) -> Packing | None:
        """How the layers' weights are packed for decoding; `None`: not at all."""
        first = self._blocks[0].attention.output
        return first.packing if isinstance(first, PackedLinear) else None

    @property
    def alike(self) -> int | None:
        """New tokens of one sequence up to which a pass over several gives each, bit for bit, what it gets in a pass of its
        own, nobody saying whether they are of a prompt; `None`: the two agree up to rounding.

        So it is with bfloat16 on a CPU, weights packed or not, where a row of a product has the same bits with any other rows
        (`Linear.rows_agree`).  Latent attention and experts add up in an order that depends on how many tokens there are.
        """
        return FEW if self._rows_agree and self.backend == "sdpa" else None

    @property
    def batch_invariant(self) -> bool:
        """Whether each token of a row gets, bit for bit, what it gets alone, whatever rows and how many tokens are computed
        together, as long as it is always of the prompt or always generated (`forward`'s `prompt`)."""
        return self.alike is not None and (self.keeps_packed or self.packing is None)

    def _unpacks(self, rows: int) -> bool:
        """Whether so many rows of generated tokens are multiplied by bfloat16 matrices instead of packed ones."""
        return rows > MOST_ROWS and not (self.keeps_packed and self._rows_agree)

    @property
    def has_blocked_weights(self) -> bool:
        """Whether weights are held in oneDNN's layout (`engine.layers.Linear`)."""
        return self._blocks[0].attention.output.packed or self._head.packed

    def read_bytes(self, rows: int) -> int:
        """Bytes of weights that a step of so many rows of activations reads: every matrix once, packed ones as they are
        packed where they are multiplied so; of the embedding nothing unless it is the head too."""
        unpacked = self._unpacks(rows)
        return sum(block.read_bytes(unpacked) for block in self._blocks) + self._head.read_bytes(unpacked)

    @property
    def nbytes(self) -> int:
        """Bytes of the weights as they are held in memory."""
        shared = self._shares_head and not self._head.packed
        return self._embedding.nbytes + self.layer_bytes(self.config.layers) + (0 if shared else self._head.nbytes)

    def layer_bytes(self, count: int) -> int:
        """Bytes of the matrices of the first `count` layers."""
        return sum(block.nbytes for block in self._blocks[:count])

    @property
    def step_bytes(self) -> int:
        """Bytes of weights that one token goes through: all layers and the head."""
        return self.layer_bytes(self.config.layers) + self._head.nbytes


def _last_few(hidden: Tensor, counts: tuple[int, ...], few: int) -> Tensor:
    """Each row's last `few` real states: [batch, few, hidden] of [batch, new, hidden]."""
    if not 1 <= few <= hidden.shape[1]:
        raise EngineError(f"logits of the last {few} of {hidden.shape[1]} tokens: choose 1 to {hidden.shape[1]}")
    if counts.count(hidden.shape[1]) == len(counts):
        return hidden[:, -few:]
    ends = upload(counts, hidden.device).unsqueeze(1)
    places = (ends + torch.arange(-few, 0, device=hidden.device)).clamp_(min=0)
    return hidden[torch.arange(len(counts), device=hidden.device).unsqueeze(1), places]


def _last(hidden: Tensor, counts: tuple[int, ...]) -> Tensor:
    """Each row's last real state: [batch, hidden] of [batch, new, hidden]."""
    if counts.count(hidden.shape[1]) == len(counts):
        return hidden[:, -1]
    last = upload(counts, hidden.device).sub_(1).clamp_(min=0)
    return hidden[torch.arange(len(counts), device=hidden.device), last]
