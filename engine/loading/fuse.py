"""From a model file's tensors to the engine's: fused QKV and gate/up, one name per thing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from engine import architectures
from engine.architectures.tensors import Part
from engine.config import ModelConfig
from engine.errors import ModelFileError

GetTensor = Callable[[str], Tensor]
"""Gives a tensor by its Transformers name (`model.layers.0.self_attn.q_proj.weight`) in the engine's dtype."""


def fuse_weights(config: ModelConfig, get: GetTensor, *, norms_from_one: bool | None = None) -> dict[str, Tensor]:
    """The engine's weights: `embedding`, `norm`, `head` (unless tied), and under `layers.N.` what the architecture's
    `layer_parts` name; each `.weight`, some `.bias`.

    Args:
        norms_from_one: norm weights are what they differ from 1 by; `None`: as the architecture's checkpoints have it.

    Raises:
        ModelFileError: a tensor whose shape is not the one that the configuration implies.
    """
    architecture = architectures.find(config.architecture)
    shift = architecture.norms_from_one if norms_from_one is None else norms_from_one

    def sized(name: str, *shape: int) -> Tensor:
        tensor = get(name)
        if tuple(tensor.shape) != shape:
            raise ModelFileError(
                f"tensor {name} has the shape {list(tensor.shape)}, but the model's configuration asks for {list(shape)}: "
                "the files do not belong together, or are damaged; fetch the model again"
            )
        return tensor

    hidden, vocab = config.hidden_size, config.vocab_size
    weights = {
        "embedding.weight": sized("model.embed_tokens.weight", vocab, hidden),
        "norm.weight": sized("model.norm.weight", hidden),
    }
    if not config.tied_embeddings:
        weights["head.weight"] = sized("lm_head.weight", vocab, hidden)
    for layer in range(config.layers):
        for part in architecture.layer_parts(config, layer):
            theirs, ours = f"model.layers.{layer}.", f"layers.{layer}.{part.name}"
            for kind, tensor in _fused(part, theirs, sized):
                weights[f"{ours}.{kind}"] = tensor
    if shift:
        for name, tensor in weights.items():
            if name.endswith("norm.weight"):
                weights[name] = (tensor.float() + 1.0).to(tensor.dtype)
    return weights


def _fused(part: Part, prefix: str, sized: Callable[..., Tensor]) -> Iterator[tuple[str, Tensor]]:
    """`weight` and, where there is one, `bias`."""
    shape = (part.width,) if part.width else ()
    if part.experts:
        stack = [
            _joined([sized(f"{prefix}{name.format(expert=at)}.weight", rows, *shape) for name, rows in part.sources])
            for at in range(part.experts)
        ]
        yield "weight", torch.stack(stack)
        return
    for kind, widths in (("weight", shape), ("bias", ())) if part.bias else (("weight", shape),):
        joined = _joined([sized(f"{prefix}{name}.{kind}", rows, *widths) for name, rows in part.sources])
        yield kind, joined[list(part.order)] if part.order else joined


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
