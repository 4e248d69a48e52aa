"""Grammar and vocabulary together: a constraint, made at once and filled in while it is used."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from constrained.automata.machine import Machine
from constrained.automata.schema_start import schema_start
from constrained.automata.text import text_start
from constrained.limits import DEFAULT_LIMITS, Limits
from constrained.masks.row_store import RowStore
from constrained.matcher import Matcher
from constrained.source_bytes import source_bytes
from constrained.vocabulary import Vocabulary
from grammars import Choice, Gbnf, JsonSchema, Regex
from grammars import Grammar as Grammar
from grammars.errors import EmptyLanguage, GrammarError, LimitExceeded
from grammars.json_schema import check_reachable, check_root, prepare_formats, root_value
from grammars.memory import forget
from grammars.regular import NONE, Rx, is_empty
from grammars.texts import language

if TYPE_CHECKING:
    from constrained.masks.completion_store import CompletionStore
    from constrained.masks.row_table import RowTable

_KEPT_STARTS = 1024
_MOST_NAMED = 12
"""Rules that an error names."""


class Constraint:
    """A grammar compiled for a vocabulary; immutable, shared between threads.

    Pickles hold the grammar and the vocabulary's fingerprint; where they are loaded, the vocabulary must be in use or in
    the cache folder.

    Attributes:
        grammar: the value that it was compiled from.
        vocabulary: the tokens.
        store: the rows that it shares with the other constraints on the vocabulary.
        start: the state before the first byte.
        spelled: the tokens as the store has them: where the grammar names special tokens, these have bytes too.
    """

    def __init__(
        self, grammar: Grammar, vocabulary: Vocabulary, store: RowStore, start: int, spelled: Vocabulary | None = None
    ) -> None:
        self.grammar = grammar
        self.vocabulary = vocabulary
        self.spelled = vocabulary if spelled is None else spelled
        self.store = store
        self.start = start
        self.token_bounds = store.token_bounds
        self.end_tokens = store.end_tokens

    def matcher(self, max_tokens: int | None = None) -> Matcher:
        """A new sequence under this constraint.

        Args:
            max_tokens: tokens that the sequence may have, its end token included; masks then keep it finishable.

        Raises:
            BudgetError: no sentence fits into `max_tokens`.
        """
        return Matcher(self, max_tokens)

    @property
    def table(self) -> RowTable:
        """The rows that `Matcher.state_row` numbers, shared by all constraints on the store."""
        return self.store.table

    @property
    def completions(self) -> CompletionStore:
        """Shortest completions, shared by all constraints on the store."""
        return self.store.completions(self.spelled)

    def __reduce__(self) -> tuple[Any, ...]:
        self.vocabulary.keep()
        return (_unpickled, (self.grammar, self.vocabulary.fingerprint, self.store.limits))

    def __repr__(self) -> str:
        return f"Constraint({self.grammar!r}, vocabulary {self.vocabulary.fingerprint[:8]})"


class _Kept:
    """The store of one vocabulary, and where the grammars compiled on it start."""

    def __init__(self, store: RowStore) -> None:
        self.store = store
        self._lock = threading.Lock()
        self._starts: OrderedDict[Grammar, int] = OrderedDict()
        self._constraints: weakref.WeakValueDictionary[Grammar, Constraint] = weakref.WeakValueDictionary()

    def constraint(self, grammar: Grammar, vocabulary: Vocabulary, spelled: Vocabulary) -> Constraint:
        """The constraint for `grammar`, the same one as long as somebody holds it."""
        with self._lock:
            found = self._constraints.get(grammar)
            if found is not None:
                return found
            start = self._starts.get(grammar)
            if start is not None:
                self._starts.move_to_end(grammar)
        if start is None:
            machine = self.store.machine
            try:
                with machine.lock, machine.timed:
                    machine.tokens = vocabulary.table if spelled is not vocabulary else None
                    start = start_state(machine, grammar)
                    machine.source_bytes += source_bytes(grammar)
            except LimitExceeded as error:
                error.add_note(_compiling(grammar))
                raise
        with self._lock:
            self._starts[grammar] = start
            while len(self._starts) > _KEPT_STARTS:
                self._starts.popitem(last=False)
            made = Constraint(grammar, vocabulary, self.store, start, spelled)
            return self._constraints.setdefault(grammar, made)

    def in_use(self) -> list[Constraint]:
        """The constraints that somebody holds."""
        with self._lock:
            return list(self._constraints.values())


class _Stores:
    """The stores of the vocabularies in use; a store goes when its vocabulary does."""

    def __init__(self) -> None:
        self.retired: weakref.WeakSet[Constraint] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._kept: weakref.WeakKeyDictionary[Vocabulary, dict[Limits, _Kept]] = weakref.WeakKeyDictionary()
        self._vocabularies: weakref.WeakValueDictionary[str, Vocabulary] = weakref.WeakValueDictionary()

    def get(self, vocabulary: Vocabulary, limits: Limits) -> _Kept:
        """The store to compile on: a fresh one where the last has outgrown its budget, and what grammars remember is let go.

        What is in use lives on in the constraints that hold the old store.
        """
        with self._lock:
            self._vocabularies.setdefault(vocabulary.fingerprint, vocabulary)
            by_limits = self._kept.setdefault(vocabulary, {})
            last = kept = by_limits.get(limits)
            if kept is None or kept.store.outgrown():
                prepare_formats()  # with what else is done once
                kept = by_limits[limits] = _Kept(RowStore(vocabulary, limits))
        if last is not None and kept is not last:
            self.retired.update(last.in_use())
            forget()
        return kept

    def vocabulary(self, fingerprint: str) -> Vocabulary:
        """A vocabulary by its fingerprint: one in use, or one kept on disk."""
        found = self._vocabularies.get(fingerprint)
        return Vocabulary.kept(fingerprint) if found is None else found


_STORES = _Stores()


def retired() -> int:
    """How many constraints are in use on stores that have been replaced: while there are some, so are those."""
    return len(_STORES.retired)


def compile(grammar: Grammar, vocabulary: Vocabulary, limits: Limits = DEFAULT_LIMITS) -> Constraint:
    """A constraint; only its start is made now, the rest when it is reached.

    Equal grammars give the same constraint as long as it is held.

    Raises:
        GrammarError: a subclass that names the place in the grammar.
    """
    if not isinstance(grammar, Grammar):
        raise GrammarError(
            f"cannot compile {type(grammar).__name__}; a grammar is a value of `grammars`, as JsonSchema"
        )
    if not isinstance(vocabulary, Vocabulary):
        raise TypeError(f"the vocabulary is a {type(vocabulary).__name__}; make one with Vocabulary.from_...")
    try:
        with limits.timed():
            spelled = vocabulary.spelled if _names_tokens(grammar) else vocabulary
    except LimitExceeded as error:
        error.add_note(_compiling(grammar))
        raise
    return _STORES.get(spelled, limits).constraint(grammar, vocabulary, spelled)


@cache
def prepare() -> None:
    """Have the kernels loaded, or compiled, and the formats made: no grammar then waits for them."""
    vocabulary = Vocabulary.from_token_bytes([*(bytes([byte]) for byte in range(256)), None], eos_token_ids=[256])
    store = RowStore(vocabulary, Limits(states=10_000, stack_depth=10, bytes=1 << 16))
    grammar = JsonSchema({"properties": {"a": {}}})
    constraint = Constraint(grammar, vocabulary, store, start_state(store.machine, grammar))
    matcher = constraint.matcher()
    row = np.empty(vocabulary.row_words, dtype=np.uint32)
    for byte in b'{"a":"b","c":1,"d"':
        matcher.fill_mask(row)
        matcher.accept(byte)
        matcher.fill_mask(row)
    constraint.matcher(max_tokens=3).fill_mask(row)  # a budget has kernels of its own
    prepare_formats()


def _unpickled(grammar: Grammar, fingerprint: str, limits: Limits) -> Constraint:
    return compile(grammar, _STORES.vocabulary(fingerprint), limits)


def check_grammar(grammar: Grammar) -> None:
    """Raise what `compile` would, and what is wrong further down in a schema, without a vocabulary or a model.

    Raises:
        GrammarError: a subclass that names the place in the grammar.
    """
    if isinstance(grammar, JsonSchema):
        root = root_value(grammar)
        check_root(root)
        check_reachable(root)
    elif isinstance(grammar, (Regex, Choice)):
        _not_empty(grammar, language(grammar))
    else:
        from constrained.automata.context_free.start import check_context_free
        from grammars.combined import followed

        phrases = followed(grammar)
        rx = _regular(grammar)
        if phrases is not None:
            assert isinstance(phrases.within, Grammar)
            check_grammar(phrases.within)
        elif rx is None:
            check_context_free(grammar)
        else:
            _not_empty(grammar, rx)


def start_state(machine: Machine, grammar: Grammar) -> int:
    """The state before the first byte of a sentence of `grammar`."""
    if isinstance(grammar, JsonSchema):
        return schema_start(machine, grammar)
    if isinstance(grammar, (Regex, Choice)):
        return text_start(machine, _not_empty(grammar, language(grammar)))
    # Imported here: programs that need schemas alone do not load parsers.
    from constrained.automata.context_free.start import context_free_start
    from constrained.automata.phrases.start import phrases_start
    from grammars.combined import followed

    phrases = followed(grammar)
    if phrases is not None:
        return phrases_start(machine, phrases)
    rx = _regular(grammar)
    return context_free_start(machine, grammar) if rx is None else text_start(machine, _not_empty(grammar, rx))


def _compiling(grammar: Grammar) -> str:
    return f"when compiling {repr(grammar)[:200]}"


def _names_tokens(grammar: Grammar) -> bool:
    """Whether a grammar names special tokens."""
    if isinstance(grammar, (JsonSchema, Regex, Choice)) or _regular(grammar) is not None:
        return False
    from constrained.automata.context_free.start import special_tokens_of
    from grammars.combined import followed

    phrases = followed(grammar)
    if phrases is not None:
        assert isinstance(phrases.within, Grammar)
        return _names_tokens(phrases.within)
    return bool(special_tokens_of(grammar))


def _regular(grammar: Grammar) -> Rx | None:
    """The language of a grammar that is plainly regular; None of those that are parsed."""
    from constrained.automata.context_free.start import is_context_free
    from grammars.combined import regular

    return None if is_context_free(grammar) else regular(grammar)


def _not_empty(grammar: Grammar, rx: Rx) -> Rx:
    if rx is NONE or is_empty(rx):
        if isinstance(grammar, Gbnf):
            from grammars.gbnf import without_text

            names = ", ".join(without_text(grammar)[:_MOST_NAMED])
            raise EmptyLanguage(f"no text is a sentence of the grammar: {names} cannot be derived to an end")
        raise EmptyLanguage(f"no text matches {grammar!r}")
    return rx
