"""Text from a language model that cannot come out invalid: grammar x vocabulary -> token masks, and the front door.

Public names are imported when they are first used, so that `import constrained` costs nothing and a program that only
needs masks never loads torch.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from constrained.async_llm import AsyncLLM, AsyncTextStream
    from constrained.batch_masks import fill_masks
    from constrained.compile import Constraint, compile
    from constrained.errors import (
        BatchError,
        BudgetError,
        EmptyLanguage,
        EmptyRow,
        GrammarError,
        LarkError,
        LimitExceeded,
        RegexError,
        ResultError,
        SchemaError,
        TokenRejected,
        ToolStepsExceeded,
        UnsupportedFeature,
    )
    from constrained.limits import Limits
    from constrained.llm import LLM
    from constrained.matcher import Matcher
    from constrained.reasoning import ReasoningOptions
    from constrained.replies import Reply
    from constrained.results import Generation, Metrics, StreamEvent
    from constrained.shared import generate_json
    from constrained.streaming import TextStream
    from constrained.tools import Tool, ToolCall
    from constrained.vocabulary import Vocabulary
    from engine.sampling import Sampling
    from grammars import Choice, Gbnf, JsonSchema, Lark, Regex, ToolCalls

__version__ = "0.1.0"

__all__ = [
    "LLM",
    "AsyncLLM",
    "AsyncTextStream",
    "BatchError",
    "BudgetError",
    "Choice",
    "Constraint",
    "EmptyLanguage",
    "EmptyRow",
    "Gbnf",
    "Generation",
    "GrammarError",
    "JsonSchema",
    "Lark",
    "LarkError",
    "LimitExceeded",
    "Limits",
    "Matcher",
    "Metrics",
    "ReasoningOptions",
    "Regex",
    "RegexError",
    "Reply",
    "ResultError",
    "Sampling",
    "SchemaError",
    "StreamEvent",
    "TextStream",
    "TokenRejected",
    "Tool",
    "ToolCall",
    "ToolCalls",
    "ToolStepsExceeded",
    "UnsupportedFeature",
    "Vocabulary",
    "compile",
    "fill_masks",
    "generate_json",
]

_HOMES = {
    "LLM": "constrained.llm",
    "AsyncLLM": "constrained.async_llm",
    "AsyncTextStream": "constrained.async_llm",
    "Choice": "grammars",
    "Constraint": "constrained.compile",
    "Gbnf": "grammars",
    "Generation": "constrained.results",
    "JsonSchema": "grammars",
    "Lark": "grammars",
    "Limits": "constrained.limits",
    "Matcher": "constrained.matcher",
    "Metrics": "constrained.results",
    "ReasoningOptions": "constrained.reasoning",
    "Regex": "grammars",
    "Reply": "constrained.replies",
    "Sampling": "engine.sampling",
    "StreamEvent": "constrained.results",
    "TextStream": "constrained.streaming",
    "Tool": "constrained.tools",
    "ToolCall": "constrained.tools",
    "ToolCalls": "grammars",
    "Vocabulary": "constrained.vocabulary",
    "fill_masks": "constrained.batch_masks",
    "generate_json": "constrained.shared",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES.get(name, "constrained.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """This package: `constrained.compile` is the function, also once the module of the same name has been imported."""

    @property
    def compile(self) -> Any:
        importlib.import_module("constrained.kernel_notice").announce_compilation()
        module = importlib.import_module("constrained.compile")
        module.prepare()  # whoever imports the function does so when it starts, not when an answer is due
        return module.compile

    @compile.setter
    def compile(self, module: ModuleType) -> None:
        """The import system puts each submodule here; this one stays reachable by `import_module` alone."""


sys.modules[__name__].__class__ = _Package
