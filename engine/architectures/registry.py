"""Architectures by the name that a model's files give them.

Another decoder is one file: a function that reads its `config.json` into a `ModelConfig`, one that lists a layer's tensors,
and `register(Architecture(...))`.  What the engine computes is said by the `ModelConfig` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.architectures.tensors import Part
from engine.errors import UnknownArchitecture

if TYPE_CHECKING:
    from engine.config import ModelConfig

Read = Callable[[Mapping[str, Any], Mapping[str, Any]], "ModelConfig"]
"""`config.json` and `generation_config.json` (or an empty mapping) → configuration."""


@dataclass(frozen=True)
class Architecture:
    """One decoder.

    Attributes:
        name: `model_type` of its `config.json`.
        read: makes the configuration.
        layer_parts: the tensors of one layer.
        norms_from_one: norm weights are stored as what they differ from 1 by.
    """

    name: str
    read: Read
    layer_parts: Callable[[ModelConfig, int], list[Part]]
    norms_from_one: bool = False


_known: dict[str, Architecture] = {}


def register(architecture: Architecture) -> None:
    """Makes `architecture` known under its name, in place of what had the name before."""
    _known[architecture.name] = architecture


def names() -> tuple[str, ...]:
    """All architectures, in the order in which they were registered."""
    return tuple(_known)


def find(name: str) -> Architecture:
    """The architecture of that name.

    Raises:
        UnknownArchitecture: there is none.
    """
    if name not in _known:
        raise UnknownArchitecture(f"unknown architecture {name!r}: this engine runs {', '.join(_known)}")
    return _known[name]


def read_huggingface(config: Mapping[str, Any], generation: Mapping[str, Any]) -> ModelConfig:
    """The configuration of a `config.json`.

    Raises:
        UnknownArchitecture, ModelFileError: see `ModelConfig.from_huggingface`.
    """
    name = str(config.get("model_type", "(none)"))
    if name not in _known:
        raise UnknownArchitecture(f"unknown architecture {name!r} in config.json: this engine runs {', '.join(_known)}")
    return _known[name].read(config, generation)
