"""The models that module-level calls use, one for each name, kept for the life of the process."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Any, TypeVar, overload

from constrained.llm import LLM
from constrained.prompts import Prompt

T = TypeVar("T")

_shared: dict[str | None, LLM] = {}
_shared_lock = Lock()


def shared_llm(model: str | Path | None = None) -> LLM:
    """The model that module-level calls use; loaded at the first call, then kept."""
    key = None if model is None else str(model)
    with _shared_lock:
        if key not in _shared:
            _shared[key] = LLM(model)
        return _shared[key]


@overload
def generate_json(prompt: Prompt, schema: type[T], *, model: str | Path | None = None, **options: Any) -> T: ...
@overload
def generate_json(prompt: Prompt, schema: Any, *, model: str | Path | None = None, **options: Any) -> Any: ...
def generate_json(prompt: Prompt, schema: Any, *, model: str | Path | None = None, **options: Any) -> Any:
    """One JSON value that fits `schema`, from the default model or the one named; see `LLM.generate_json`."""
    return shared_llm(model).generate_json(prompt, schema, **options)
