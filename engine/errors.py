"""Errors of the engine.

Each message is one line that says what was found and what to do about it, so that a command line can print it as it is.
"""

from __future__ import annotations


class EngineError(RuntimeError):
    """Anything that the engine refuses or cannot do."""


class ModelError(EngineError):
    """A model that cannot be found, read or run."""


class UnknownArchitecture(ModelError):
    """A model whose architecture, or one of whose features, this engine does not compute."""


class ModelFileError(ModelError):
    """A model file that is missing, truncated or malformed."""


class ModelNotFound(ModelFileError):
    """A path or name that leads to no model."""


class DeviceError(ModelError):
    """A device or a dtype that does not exist, or not on this machine."""


class ChecksumError(ModelFileError):
    """A fetched file whose contents are not the published ones."""


class FetchError(ModelError):
    """A model that could not be fetched, most often because there is no network."""


class TextError(EngineError):
    """A tokenizer or chat template that is missing, unknown, or refuses the messages it was given."""


class ContextError(EngineError):
    """A sequence longer than the model's context."""


class CacheError(EngineError):
    """A key/value cache that does not exist, is full, or was asked for something that it does not hold."""


class TrainingError(EngineError):
    """An attempt to train, or to record gradients through, a model that only decodes."""


class QueueFull(EngineError):
    """As many requests wait for an engine as may."""


class EngineClosed(EngineError):
    """A request to an engine that was stopped."""


class SpeculationError(EngineError, ValueError):
    """A proposer or lookahead that there is not, or that does not fit the model."""
