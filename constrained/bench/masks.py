"""Recorded documents replayed through the masks: what the first mask costs, what each later one does."""

from __future__ import annotations

import json
import lzma
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from math import ceil
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from constrained.compile import Constraint, compile
from constrained.masks.tally import Counters
from constrained.matcher import Matcher
from constrained.vocabulary import Vocabulary
from grammars import JsonSchema
from grammars.errors import GrammarError

QUANTILES = (0.5, 0.9, 0.99, 0.999)

T = TypeVar("T")


class DataError(ValueError):
    """Test data that cannot be read."""


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON value, and whether it fits the schema."""

    data: Any
    valid: bool


@dataclass(frozen=True, slots=True)
class Case:
    """A schema and documents to replay under it."""

    id: str
    schema: Any
    documents: tuple[Document, ...]


@dataclass(frozen=True, slots=True)
class Replay:
    """What came of one case; times in microseconds.

    Attributes:
        refused: why the schema could not be compiled or a mask not be made; `None` if all went well.
        ttfm: compile, matcher and first mask; `None` where that failed.
        tbm: for each token of the documents: its mask, and its commit.
        wrong: indices of the documents that were judged otherwise than they are marked.
    """

    id: str
    refused: str | None
    ttfm: float | None
    tbm: tuple[float, ...]
    wrong: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Figures over all cases, times in microseconds; a figure that nothing was measured for is `None`.

    Attributes:
        right: cases of which every document was judged as it is marked.
        refused: cases that could not be compiled, or that a limit stopped.
        accepts_invalid, refuses_valid: cases with a document that was judged so.
        ttfm, tbm: time to the first mask, time between masks: `p50`, `p90`, `p99`, `p99.9`, `mean`, `max`.
        cost: of a case: the first mask and all later ones.
        counters: what the stores did after compiling, see `constrained.masks.row_store.Counters`; in a warm run, during
            the second pass.
    """

    cases: int
    tokens: int
    right: int
    refused: int
    accepts_invalid: int
    refuses_valid: int
    ttfm: dict[str, float | None]
    tbm: dict[str, float | None]
    cost: dict[str, float | None]
    counters: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def read_cases(path: Path) -> list[Case]:
    """Cases from JSON Lines of `{"id", "schema", "tests": [{"data", "valid"}]}`; a name that ends in .xz is unpacked.

    Raises:
        OSError: the file cannot be read.
        DataError: a line that is not of this form; the message names it.
    """
    cases = []
    try:
        with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    cases.append(_read_case(line, f"{path}, line {number}"))
    except (lzma.LZMAError, EOFError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {error}") from None
    return cases


def _read_case(line: str, place: str) -> Case:
    try:
        read = json.loads(line)
        documents = tuple(Document(test["data"], bool(test["valid"])) for test in read["tests"])
        return Case(str(read["id"]), read["schema"], documents)
    except ValueError as error:
        raise DataError(f"{place}: not JSON: {error}") from None
    except (KeyError, TypeError, IndexError):
        raise DataError(f'{place}: not of the form {{"id", "schema", "tests": [{{"data", "valid"}}]}}') from None


def draw(cases: Sequence[T], count: int | None, seed: int) -> list[T]:
    """`count` cases in random order, the same for the same seed; all of them for None."""
    shuffled = list(cases)
    random.Random(seed).shuffle(shuffled)
    return shuffled[:count]


class MaskBench:
    """Replays cases one after the other, on one thread, and adds up.

    Args:
        vocabulary: the tokens.
        grammar: makes the grammar of a schema; its time is part of the first mask's.
        warm: every case is replayed twice with its constraint kept, and the second time counts: `ttfm` is then a new
            matcher's first mask.
    """

    def __init__(self, vocabulary: Vocabulary, grammar: Callable[[Any], JsonSchema], *, warm: bool = False) -> None:
        self.vocabulary = vocabulary
        self.warm = warm
        self._grammar = grammar
        _load_kernels()
        self._row: NDArray[np.uint32] = np.zeros(vocabulary.row_words, dtype=np.uint32)
        self._cases: list[tuple[Case, Replay]] = []
        self._counted = dict.fromkeys((field.name for field in fields(Counters)), 0)

    def replay(self, case: Case) -> Replay:
        """Replay one case and count it in.

        Raises:
            VocabularyError: no tokens make up a document.
        """
        sequences = [self.vocabulary.canonical(json.dumps(one.data, ensure_ascii=False)) for one in case.documents]
        replay = self._replayed(case, sequences)
        self._cases.append((case, replay))
        return replay

    def _replayed(self, case: Case, sequences: list[list[int]]) -> Replay:
        started = perf_counter()
        try:
            constraint = compile(self._grammar(case.schema), self.vocabulary)
        except GrammarError as error:
            return Replay(case.id, _told(error), None, (), ())
        compiled = perf_counter() - started
        before = constraint.store.counters()
        ttfm: float | None = None
        times: list[float] = []
        wrong: list[int] = []
        refused = None
        try:
            first, started = self._first_mask(constraint)
            ttfm = (compiled + perf_counter() - started) * 1e6
            if self.warm:
                for tokens in sequences:
                    self._judge(constraint.matcher(), tokens, [])
                before = constraint.store.counters()
                first, started = self._first_mask(constraint)
                ttfm = (perf_counter() - started) * 1e6
            for index, (tokens, document) in enumerate(zip(sequences, case.documents, strict=True)):
                matcher = constraint.matcher() if index else first
                if self._judge(matcher, tokens, times) is not document.valid:
                    wrong.append(index)
        except GrammarError as error:
            refused = _told(error)
        self._count(before, constraint.store.counters())
        return Replay(case.id, refused, ttfm, tuple(times), tuple(wrong))

    def _first_mask(self, constraint: Constraint) -> tuple[Matcher, float]:
        """A new matcher whose mask has been filled, and when that began."""
        started = perf_counter()
        matcher = constraint.matcher()
        matcher.fill_mask(self._row)
        return matcher, started

    def _judge(self, matcher: Matcher, tokens: Sequence[int], times: list[float]) -> bool:
        """Whether the masks let a document through to its end; the time of each token's mask and commit is appended."""
        row = self._row
        for token in tokens:
            started = perf_counter()
            matcher.fill_mask(row)
            allowed = bool(row[token >> 5] >> np.uint32(token & 31) & np.uint32(1))
            if allowed:
                matcher.accept(token)
            times.append((perf_counter() - started) * 1e6)
            if not allowed:
                return False
        return matcher.is_accepting()

    def _count(self, before: Counters, now: Counters) -> None:
        for name in self._counted:
            value = getattr(now, name)
            if name in GAUGES:
                self._counted[name] = value
            else:
                self._counted[name] += value - getattr(before, name)

    def report(self) -> Report:
        """The figures over what has been replayed."""
        replays = [replay for _, replay in self._cases]
        judged = [(case, replay) for case, replay in self._cases if replay.refused is None]
        verdicts = [{case.documents[index].valid for index in replay.wrong} for case, replay in judged]
        return Report(
            cases=len(replays),
            tokens=sum(len(replay.tbm) for replay in replays),
            right=sum(not replay.wrong for _, replay in judged),
            refused=sum(replay.refused is not None for replay in replays),
            accepts_invalid=sum(False in marks for marks in verdicts),
            refuses_valid=sum(True in marks for marks in verdicts),
            ttfm=summary(replay.ttfm for replay in replays if replay.ttfm is not None),
            tbm=summary(time for replay in replays for time in replay.tbm),
            cost=summary(replay.ttfm + sum(replay.tbm) for _, replay in judged if replay.ttfm is not None),
            counters=dict(self._counted),
        )


GAUGES = frozenset({"states", "rows", "bytes"})
"""Counters that say how much there is now, not how much was done."""


def _told(error: GrammarError) -> str:
    return f"{type(error).__name__}: {error}"


def _load_kernels() -> None:
    """Have the kernels compiled or read from disk, which happens once a process, before anything is timed."""
    vocabulary = Vocabulary.from_token_bytes([b"1", b"{", b"}", b'"', b"a", b":", None], eos_token_ids=[6])
    matcher = compile(JsonSchema({"type": "object"}), vocabulary).matcher()
    row = np.zeros(vocabulary.row_words, dtype=np.uint32)
    for token in (1, 3, 4, 3, 5, 0, 2):
        matcher.fill_mask(row)
        matcher.accept(token)
    matcher.is_accepting()


def summary(times: Iterable[float]) -> dict[str, float | None]:
    """Quantiles (nearest rank), mean and maximum."""
    ordered = sorted(times)
    names = [*(f"p{100 * quantile:g}" for quantile in QUANTILES), "mean", "max"]
    if not ordered:
        return dict.fromkeys(names)
    ranks = [ordered[max(0, ceil(quantile * len(ordered)) - 1)] for quantile in QUANTILES]
    values = [*ranks, sum(ordered) / len(ordered), ordered[-1]]
    return {name: round(value, 2) for name, value in zip(names, values, strict=True)}


__all__ = ["Case", "DataError", "Document", "MaskBench", "Replay", "Report", "draw", "read_cases", "summary"]
