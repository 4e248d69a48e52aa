"""Grammar and vocabulary together: a constraint, made at once and filled in while it is used."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from functools import cached_property
from typing import TYPE_CHECKING, Any

from constrained.automata.machine import Machine
from constrained.automata.style import Style
from constrained.automata.text import text_start
from constrained.automata.values import value_start
from constrained.limits import DEFAULT_LIMITS, Limits
from constrained.masks.row_store import RowStore
from constrained.matcher import Matcher
from constrained.vocabulary import Vocabulary
from grammars import Choice, JsonSchema, Regex
from grammars.errors import EmptyLanguage, GrammarError
from grammars.json_schema import check_root, root_value
from grammars.regex import parse
from grammars.regular import EPSILON, NONE, Rx, chars, concat, literal, literals, repeat, union

if TYPE_CHECKING:
    from constrained.masks.completion_store import CompletionStore

Grammar = JsonSchema | Regex | Choice
_KEPT = 256

_SPACE, _TAB, _LINE = literal(" "), literal("\t"), literal("\n")
GAPS: dict[str, Rx] = {
    "compact": EPSILON,
    "any": repeat(chars([(9, 10), (13, 13), (32, 32)]), 0, None),
    "bounded": union(EPSILON, _SPACE, concat(_LINE, union(repeat(_SPACE, 0, 24), repeat(_TAB, 0, 8)))),
}
"""Whitespace between JSON tokens.  Bounded: nothing, one space, or a line break with an indentation."""


class Constraint:
    """A grammar compiled for a vocabulary; immutable, shared between threads, pickled as grammar and vocabulary.

    Attributes:
        grammar: the value that it was compiled from.
        vocabulary: the tokens.
        store: the rows that it shares with the other constraints on the vocabulary.
        start: the state before the first byte.
    """

    def __init__(self, grammar: Grammar, vocabulary: Vocabulary, store: RowStore) -> None:
        self.grammar = grammar
        self.vocabulary = vocabulary
        self.store = store
        self.token_bounds = store.token_bounds
        self.end_tokens = store.end_tokens
        with store.machine.lock:
            self.start = start_state(store.machine, grammar)

    def matcher(self, max_tokens: int | None = None) -> Matcher:
        """A new sequence under this constraint.

        Args:
            max_tokens: tokens that the sequence may have, its end token included; masks then keep it finishable.

        Raises:
            BudgetError: no sentence fits into `max_tokens`.
        """
        return Matcher(self, max_tokens)

    @cached_property
    def completions(self) -> CompletionStore:
        """Shortest completions, shared by all constraints on the store."""
        return self.store.completions(self.vocabulary)

    def __reduce__(self) -> tuple[Any, ...]:
        return (compile, (self.grammar, self.vocabulary, self.store.limits))

    def __repr__(self) -> str:
        return f"Constraint({self.grammar!r}, vocabulary {self.vocabulary.fingerprint[:8]})"


class _Stores:
    """The store and the kept constraints of each vocabulary in use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: weakref.WeakKeyDictionary[Vocabulary, dict[Limits, _Kept]] = weakref.WeakKeyDictionary()

    def get(self, vocabulary: Vocabulary, limits: Limits) -> _Kept:
        with self._lock:
            by_limits = self._kept.setdefault(vocabulary, {})
            kept = by_limits.get(limits)
            if kept is None or kept.store.bytes_used() > limits.bytes:
                # What is in use lives on in the constraints that hold it; new ones start afresh.
                kept = by_limits[limits] = _Kept(RowStore(vocabulary, limits))
            return kept


class _Kept:
    def __init__(self, store: RowStore) -> None:
        self.store = store
        self.constraints: OrderedDict[Grammar, tuple[int, Rx | None]] = OrderedDict()


_STORES = _Stores()


def compile(grammar: Grammar, vocabulary: Vocabulary, limits: Limits = DEFAULT_LIMITS) -> Constraint:
    """A constraint; only its start is made now, the rest when it is reached.

    Raises:
        GrammarError: a subclass that names the place in the grammar.
    """
    if not isinstance(grammar, Grammar):
        raise GrammarError(
            f"cannot compile {type(grammar).__name__}; a grammar is one of JsonSchema, Regex, Choice"
        )
    if not isinstance(vocabulary, Vocabulary):
        raise TypeError(f"the vocabulary is a {type(vocabulary).__name__}; make one with Vocabulary.from_...")
    return Constraint(grammar, vocabulary, _STORES.get(vocabulary, limits).store)


def start_state(machine: Machine, grammar: Grammar) -> int:
    """The state before the first byte of a sentence of `grammar`."""
    if isinstance(grammar, JsonSchema):
        root = root_value(grammar)
        check_root(root)
        gap = GAPS.get(grammar.whitespace)
        if gap is None:
            gap = parse(grammar.whitespace, dialect="ecma", mode="fullmatch")
        style = Style(gap, grammar.property_order == "any", grammar.escapes == "canonical")
        return value_start(machine, style, (root,))
    rx = parse(grammar.pattern, dialect=grammar.dialect, flags=grammar.flags) if isinstance(grammar, Regex) else literals(grammar.options)
    if rx is NONE:
        raise EmptyLanguage(f"no text matches {grammar!r}")
    return text_start(machine, rx)
