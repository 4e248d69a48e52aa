"""The commonest expensive rows on disk: local rows of strings, so that the next process does not walk for them.

A local row of a string depends on the vocabulary, on the language, and on the code; nothing else.  A file holds those of
one vocabulary that took the longest walks.  It is named by the vocabulary's fingerprint and the digest of the sources that
rows come from, read when the first store of a vocabulary is made, and written when the interpreter ends.

A file is a magic line, the SHA-256 of what follows, a JSON head, and rows.  It is written beside its place and renamed, so
that readers and other writers see whole files only; one that does not check out is ignored and written again.

Rows are written such that little has to be done to have them back: most allow few tokens or differ little from the row that
allows the most, the file's *reference*, so what is written is the words that are not 0, or not the reference's.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import threading
import unicodedata
import weakref
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from constrained.cache_folder import cache_folder, checksum, write_whole
from constrained.kernels import jit
from constrained.vocabulary import Vocabulary
from grammars.memory import forgets
from grammars.regular import Rx, language_digest

ENVIRONMENT = "CONSTRAINED_KEEP_ROWS"
"""The environment variable that, set to 0, keeps rows from being read from disk and written to it."""
LEAST_COST, STATE_COST = 20_000, 1_000
"""Cheaper walks are not worth to be remembered.  The unit is a visited node of the trie, some 10 ns; a state that had to be
made for the walk is as dear as a thousand of them."""
LEAST_TOKENS = 4_096
"""Vocabularies with fewer tokens have no long walks."""
_MOST_BYTES = 4 << 20
_MOST_NEW = 256
"""Rows that one process adds at most."""
_MAGIC = b"constrained rows 2\n"
_WHOLE, _FROM_NOTHING, _FROM_REFERENCE = range(3)
"""How a row is written: all of its words, or the places and values of those that are not 0, or not the reference's."""
_MOST_PLACES = 1 << 16
_PLACE, _WORD, _EXIT = np.dtype("<u2"), np.dtype("<u4"), np.dtype("<i4")
_DIGEST_BYTES = 32
_SOURCES = (
    "constrained/automata/machine.py",
    "constrained/automata/transitions.py",
    "constrained/automata/strings.py",
    "constrained/automata/character_classes.py",
    "constrained/automata/counted_strings.py",
    "constrained/automata/code_points.py",
    "constrained/masks/row_store.py",
)
_LANGUAGES = ("grammars/regular", "grammars/json_schema/formats")
"""What gives a normal form its meaning, and a description of a machine (`Unfolding.description`)."""
Languages = tuple[Rx, ...]


@dataclass(frozen=True, slots=True)
class LocalRow:
    """The local row of a state.

    Attributes:
        dense: uint32[words], the tokens.
        exits: int32[n, 3], `E_*` columns; none of them names a state.
        cost: what the walk for it took, in units of `LEAST_COST`.
    """

    dense: NDArray[np.uint32]
    exits: NDArray[np.int32]
    cost: int


@dataclass(frozen=True, slots=True)
class _Entry:
    """A row as it is on disk, with what tells at a glance which languages it cannot be of.

    Attributes:
        orders: whether escapes are canonical, and the structural hash of each language.
        cost: see `LocalRow`.
        form: how the row is written.
        places: how many words are, with their places.
        data: places, words and exits.
    """

    orders: tuple[int, ...]
    cost: int
    form: int
    places: int
    data: bytes


@dataclass(frozen=True, slots=True)
class _Contents:
    """What a file holds: the reference, uint32[words] (empty if there is no row), and the rows by their names."""

    reference: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, dtype=np.uint32))
    entries: dict[str, _Entry] = field(default_factory=dict)


class KeptRows:
    """The rows of one vocabulary that are on disk, and those that are to be."""

    def __init__(self, fingerprint: str, words: int) -> None:
        self._words = words
        self._name = f"{fingerprint[:32]}-{_version()}.rows"
        self._lock = threading.Lock()
        self._file = _read(self._path)
        self._orders = {entry.orders for entry in self._file.entries.values()}
        self._new: dict[tuple[bool, Languages], LocalRow] = {}

    @property
    def _path(self) -> Path:
        return cache_folder() / "rows" / self._name

    def get(self, canonical: bool, languages: Languages) -> LocalRow | None:
        """The row of a string that reads `languages`, if it is kept."""
        if (canonical, *[rx.order for rx in languages]) not in self._orders:
            return None
        key = _key(canonical, languages)
        entry = None if key is None else self._file.entries.get(key)
        return None if entry is None else _unpacked(entry, self._file.reference, self._words)

    def put(self, canonical: bool, languages: Languages, row: LocalRow) -> None:
        """Note a row that has been made, to be written at the end."""
        with self._lock:
            new = self._new
            if len(new) >= _MOST_NEW:
                cheapest = min(new, key=lambda key: new[key].cost)
                if row.cost <= new[cheapest].cost:
                    return
                del new[cheapest]
            new[canonical, languages] = row

    def write(self) -> None:
        """Merge what has been made into the file; one that cannot be written only costs the next process its walks."""
        with self._lock:
            new, self._new = self._new, {}
        named = {key: (languages, row) for languages, row in new.items() if (key := _key(*languages)) is not None}
        if not named:
            return
        there = _read(self._path)  # what other processes have written since is kept
        reference = there.reference if len(there.reference) else _largest([row.dense for _, row in named.values()])
        made = {
            key: _packed((canonical, *[rx.order for rx in languages]), row, reference)
            for key, ((canonical, languages), row) in named.items()
        }
        with contextlib.suppress(OSError):
            write_whole(self._path, _file(self._name, _Contents(reference, there.entries | made)))


def kept_rows(vocabulary: Vocabulary) -> KeptRows | None:
    """The rows kept for a vocabulary; None for small ones, or where the environment says that none are."""
    if len(vocabulary.trie.token_ids) < LEAST_TOKENS or os.environ.get(ENVIRONMENT) == "0":
        return None
    with _lock:
        found = _in_use.get(vocabulary.fingerprint)
        if found is None:
            found = _in_use[vocabulary.fingerprint] = KeptRows(vocabulary.fingerprint, vocabulary.row_words)
            weakref.finalize(vocabulary, _let_go, vocabulary.fingerprint)
        return found


def _let_go(fingerprint: str) -> None:
    """The vocabulary is gone: write what was made for it now, or with the others when the interpreter ends."""
    with _lock:
        found = _in_use.pop(fingerprint, None)
    if found is not None:
        found.write()


@forgets
@atexit.register
def _write_all() -> None:
    for found in [*_in_use.values()]:
        found.write()


_lock = threading.RLock()
_in_use: dict[str, KeptRows] = {}


@cache
def _version() -> str:
    """The digest of the sources that rows come from."""
    root = Path(__file__).resolve().parents[2]
    tables = (version("idna"), unicodedata.unidata_version)  # which labels are valid, which letters are alike
    digest = hashlib.blake2b(repr((jit.STAMP, tables)).encode(), digest_size=16)
    languages = [path for folder in _LANGUAGES for path in sorted((root / folder).glob("*.py"))]
    for path in [*(root / name for name in _SOURCES), *languages]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _key(canonical: bool, languages: Languages) -> str | None:
    """The name of a row: the digests of the languages in their order."""
    digest = hashlib.blake2b(bytes([canonical]), digest_size=16)
    for rx in languages:
        part = language_digest(rx)
        if part is None:
            return None
        digest.update(part)
    return digest.hexdigest()


def _largest(rows: list[NDArray[np.uint32]]) -> NDArray[np.uint32]:
    """The row with the most tokens."""
    return max(rows, key=lambda row: int(np.unpackbits(row.view(np.uint8)).sum()))


def _packed(orders: tuple[int, ...], row: LocalRow, reference: NDArray[np.uint32]) -> _Entry:
    dense, exits = row.dense, row.exits.astype(_EXIT).tobytes()
    few, near = np.flatnonzero(dense), np.flatnonzero(dense != reference)
    form, places = (_FROM_NOTHING, few) if len(few) <= len(near) else (_FROM_REFERENCE, near)
    if 3 * len(places) >= 2 * len(dense) or len(dense) > _MOST_PLACES:
        return _Entry(orders, row.cost, _WHOLE, 0, dense.astype(_WORD).tobytes() + exits)
    written = places.astype(_PLACE).tobytes() + dense[places].astype(_WORD).tobytes()
    return _Entry(orders, row.cost, form, len(places), written + exits)


def _unpacked(entry: _Entry, reference: NDArray[np.uint32], words: int) -> LocalRow:
    data, count = entry.data, entry.places
    # copies, since kernels are compiled for arrays that can be written to
    if entry.form == _WHOLE:
        dense = np.frombuffer(data, dtype=_WORD, count=words).astype(np.uint32)
        end = 4 * words
    else:
        dense = np.zeros(words, dtype=np.uint32) if entry.form == _FROM_NOTHING else reference.copy()
        places = np.frombuffer(data, dtype=_PLACE, count=count)
        dense[places] = np.frombuffer(data, dtype=_WORD, count=count, offset=2 * count)
        end = 6 * count
    exits = np.frombuffer(data, dtype=_EXIT, offset=end).reshape(-1, 3).astype(np.int32)
    return LocalRow(dense, exits, entry.cost)


def _read(path: Path) -> _Contents:
    """What is in a file; nothing if it is not there or not sound."""
    try:
        data = path.read_bytes()
        start = len(_MAGIC) + _DIGEST_BYTES
        if not data.startswith(_MAGIC) or data[len(_MAGIC) : start] != checksum([memoryview(data)[start:]]):
            return _Contents()
        end = data.index(b"\n", start)
        name, words, rows = json.loads(data[start:end])
        if name != path.name:
            return _Contents()
        reference = np.frombuffer(data, dtype=_WORD, count=words, offset=end + 1).astype(np.uint32)
        found = {}
        at = end + 1 + 4 * words
        for key, orders, cost, form, places, size in rows:
            found[key] = _Entry((bool(orders[0]), *orders[1:]), cost, form, places, data[at : at + size])
            at += size
        return _Contents(reference, found)
    except (OSError, ValueError, TypeError, IndexError):
        return _Contents()


def _file(name: str, contents: _Contents) -> list[bytes]:
    """A file of those entries that took the longest walks, as far as there is room."""
    reference = contents.reference.astype(_WORD).tobytes()
    head, rows, size = [], [], len(reference)
    for key, entry in sorted(contents.entries.items(), key=lambda item: -item[1].cost):
        size += len(entry.data)
        if size > _MOST_BYTES:
            break
        head.append((key, entry.orders, entry.cost, entry.form, entry.places, len(entry.data)))
        rows.append(entry.data)
    body = [json.dumps((name, len(contents.reference), head)).encode(), b"\n", reference, *rows]
    return [_MAGIC, checksum(body), *body]
