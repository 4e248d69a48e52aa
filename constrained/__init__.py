"""Text from a language model that cannot come out invalid: grammar x vocabulary -> token masks, and the front door.

Public names are imported when they are first used, so that `import constrained` costs nothing and a program that only
needs masks never loads torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from constrained.errors import (
        BudgetError,
        EmptyLanguage,
        EmptyRow,
        GrammarError,
        LarkError,
        LimitExceeded,
        RegexError,
        SchemaError,
        TokenRejected,
        UnsupportedFeature,
    )

__version__ = "0.1.0"

_HOMES = {
    "BudgetError": "constrained.errors",
    "EmptyLanguage": "constrained.errors",
    "EmptyRow": "constrained.errors",
    "GrammarError": "constrained.errors",
    "LarkError": "constrained.errors",
    "LimitExceeded": "constrained.errors",
    "RegexError": "constrained.errors",
    "SchemaError": "constrained.errors",
    "TokenRejected": "constrained.errors",
    "UnsupportedFeature": "constrained.errors",
}

__all__ = [
    "BudgetError",
    "EmptyLanguage",
    "EmptyRow",
    "GrammarError",
    "LarkError",
    "LimitExceeded",
    "RegexError",
    "SchemaError",
    "TokenRejected",
    "UnsupportedFeature",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
