"""Texts replayed through the masks of a Lark grammar, by this engine and by others that are installed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import thread_time
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from constrained.automata.context_free.kept_grammars import forget
from constrained.bench.masks import DataError, summary
from constrained.compile import Constraint, compile
from constrained.limits import DEFAULT_LIMITS
from constrained.matcher import Matcher
from constrained.vocabulary import Vocabulary
from grammars import Lark, Regex
from grammars.errors import GrammarError

_STARTS = 5
"""How often the time to the first mask is taken."""


class Engine(Protocol):
    """An engine that masks one text at a time."""

    def first_mask(self) -> float:
        """Take the grammar from its text to the first mask, anew in this process; the time in microseconds.

        Raises:
            DataError: the engine refuses the grammar.
        """

    def begin(self) -> None:
        """Begin a new text."""

    def step(self, token: int) -> tuple[bool, float]:
        """Make a mask and commit a token if it is allowed; whether it is, and the time of both in microseconds."""

    def is_whole(self) -> bool:
        """Whether the text may end here."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What came of one engine; times are CPU time of the thread in microseconds.

    Attributes:
        ttfm: grammar text to first mask, the median of several times; `first`: the first time of all, when nothing of
            the grammar is known yet, in memory or on disk.
        tokens: masks that were made.
        rejected: names of the texts that the masks do not let through to their end.
        tbm: of a token: its mask and its commit.
        later: the same of the second half of the texts, when the engine has seen the first.
    """

    engine: str
    ttfm: float
    first: float
    texts: int
    tokens: int
    rejected: tuple[str, ...]
    tbm: dict[str, float | None]
    later: dict[str, float | None]


def read_texts(paths: Iterable[Path]) -> list[tuple[str, str]]:
    """(name, text) of files: all in a folder, the strings of JSON Lines (`.jsonl`), any other file as one text.

    Raises:
        OSError: a file cannot be read.
        DataError: it is not UTF-8, or a line is no JSON string.
    """
    found: list[tuple[str, str]] = []
    for path in paths:
        files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
        for file in files:
            try:
                text = file.read_text(encoding="utf-8")
            except UnicodeDecodeError as error:
                raise DataError(f"{file}: {error}") from None
            if file.suffix != ".jsonl":
                found.append((str(file), text))
                continue
            for number, line in enumerate(text.splitlines(), 1):
                try:
                    value = json.loads(line)
                except ValueError as error:
                    raise DataError(f"{file}, line {number}: not JSON: {error}") from None
                if not isinstance(value, str):
                    raise DataError(f"{file}, line {number}: not a string")
                found.append((f"{file}:{number}", value))
    return found


class Constrained:
    """This engine."""

    def __init__(self, vocabulary: Vocabulary, grammar: Lark) -> None:
        self._vocabulary = vocabulary
        self._grammar = grammar
        self._row: NDArray[np.uint32] = np.zeros(vocabulary.row_words, dtype=np.uint32)
        self._constraint: Constraint | None = None
        self._matcher: Matcher | None = None
        self._store = 0

    def first_mask(self) -> float:
        self._store += 1
        limits = replace(DEFAULT_LIMITS, step_states=DEFAULT_LIMITS.step_states + self._store)  # a store of its own
        compile(Regex("a"), self._vocabulary, limits)
        forget()
        started = thread_time()
        try:
            self._constraint = compile(self._grammar, self._vocabulary, limits)
            self._constraint.matcher().fill_mask(self._row)
        except GrammarError as error:
            raise DataError(f"{type(error).__name__}: {error}") from None
        return (thread_time() - started) * 1e6

    def begin(self) -> None:
        assert self._constraint is not None
        self._matcher = self._constraint.matcher()

    def step(self, token: int) -> tuple[bool, float]:
        matcher, row = self._matcher, self._row
        assert matcher is not None
        started = thread_time()
        matcher.fill_mask(row)
        allowed = bool(row[token >> 5] >> np.uint32(token & 31) & np.uint32(1))
        if allowed:
            matcher.accept(token)
        return allowed, (thread_time() - started) * 1e6

    def is_whole(self) -> bool:
        assert self._matcher is not None
        return self._matcher.is_accepting()


class LLGuidance:
    """llguidance (https://github.com/guidance-ai/llguidance), where it is installed; its Lark dialect is its own."""

    def __init__(self, tokenizer: Path, text: str) -> None:
        """
        Raises:
            DataError: it is not installed.
        """
        try:
            import llguidance  # type: ignore[import-not-found]
            from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask  # type: ignore[import-not-found]
        except ImportError as error:
            raise DataError(f"llguidance cannot be imported ({error}); install it to compare with it") from None
        self._matchers: Any = llguidance.LLMatcher
        self._fill: Any = fill_next_token_bitmask
        self._tokenizer: Any = llguidance.LLTokenizer(tokenizer.read_text(encoding="utf-8"))
        self._rows: Any = allocate_token_bitmask(1, self._tokenizer.vocab_size)
        self._row: NDArray[np.uint32] = self._rows[0].view(np.uint32)
        self._text = text
        self._made: Any = None
        self._matcher: Any = None

    def first_mask(self) -> float:
        started = thread_time()
        made = self._matchers(self._tokenizer, self._matchers.grammar_from_lark(self._text))
        if made.is_error():
            raise DataError(made.get_error())
        self._made = made.deep_copy()
        self._fill(made, self._rows, 0)
        return (thread_time() - started) * 1e6

    def begin(self) -> None:
        self._matcher = self._made.deep_copy()

    def step(self, token: int) -> tuple[bool, float]:
        matcher, row = self._matcher, self._row
        started = thread_time()
        self._fill(matcher, self._rows, 0)
        allowed = bool(row[token >> 5] >> np.uint32(token & 31) & np.uint32(1))
        if allowed:
            matcher.consume_token(token)
        return allowed, (thread_time() - started) * 1e6

    def is_whole(self) -> bool:
        return bool(self._matcher.is_accepting())


def replay(name: str, engine: Engine, texts: Sequence[tuple[str, list[int]]]) -> Figures:
    """Replay texts, given by name and tokens, one after the other on one thread.

    Raises:
        DataError: the engine refuses the grammar.
    """
    starts = [engine.first_mask() for _ in range(_STARTS)]
    times: list[float] = []
    half = 0
    rejected = []
    for number, (text, tokens) in enumerate(texts):
        if number == len(texts) // 2:
            half = len(times)
        engine.begin()
        allowed = True
        try:
            for token in tokens:
                allowed, time = engine.step(token)
                times.append(time)
                if not allowed:
                    break
            if not allowed or not engine.is_whole():
                rejected.append(text)
        except GrammarError as error:
            rejected.append(f"{text}: {type(error).__name__}: {error}")
    ttfm, first = round(median(starts), 1), round(starts[0], 1)
    return Figures(name, ttfm, first, len(texts), len(times), tuple(rejected), summary(times), summary(times[half:]))


__all__ = ["Constrained", "DataError", "Engine", "Figures", "LLGuidance", "read_texts", "replay"]
