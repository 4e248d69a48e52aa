"""Loaded grammars on disk: read again as what they were, never trusted, never in the way."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from constrained import compile as compile_constraint
from constrained.automata.context_free import kept_grammars
from constrained.automata.context_free.kept_grammars import kept
from constrained.automata.context_free.parser import Parser
from constrained.automata.context_free.start import loaded
from constrained.cache_folder import checksum
from grammars import Lark, LarkError, Regex, library
from grammars.context_free.packed import PackedActions, PackedMaps
from grammars.context_free.prepared import Prepared
from grammars.lark import LarkWarning
from tests.constrained.automata.context_free.walks import END, LETTERS, VOCABULARY, after, texts
from tests.constrained.languages import mask

COLLIDING = 'start: x* B\nx: A | C "a"\nA: "ab"\nB: /[ab]+?b/\nC: "b"i\n%ignore / +/'
LOOKING_AHEAD = 'start: x* B\nx: A | C "a"\nA: /a(?=b)/\nB: /[ab]+(?! )/\nC: "b"i\n%ignore / +/'


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Grammars are kept in an empty folder, however soon they load."""
    monkeypatch.setenv("CONSTRAINED_CACHE", str(tmp_path))
    monkeypatch.setenv(kept_grammars.ENVIRONMENT, "1")
    monkeypatch.setattr(kept_grammars, "_LEAST_SECONDS", 0)
    kept_grammars._remembered.cache_clear()
    return tmp_path / "grammars"


def again(value: Lark, monkeypatch: pytest.MonkeyPatch) -> Prepared:
    """The grammar as the next process gets it, which must not load it."""
    kept_grammars._remembered.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(kept_grammars, "prepared", lambda grammar: pytest.fail("loaded once more"))
        return kept(value, loaded)


@pytest.mark.parametrize("name", ["json", "csv", "toml", "sql"])
def test_a_grammar_of_the_library_is_read_as_it_was_written(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value = library.load(name)
    first = kept(value, loaded)
    second = again(value, monkeypatch)
    assert second.grammar is not first.grammar
    assert (second.rules, second.empty) == (first.rules, first.empty)
    for one, other in zip(first.grammar.terminals, second.grammar.terminals, strict=True):
        assert (one.name, one.priority, one.order, one.flags) == (other.name, other.priority, other.order, other.flags)
    assert (first.separation is None) is (second.separation is None)
    if first.separation is not None and second.separation is not None:
        assert (first.separation.text, first.separation.words) == (second.separation.text, second.separation.words)
    if first.grammar.lalr is not None and second.grammar.lalr is not None:
        assert [dict(one) for one in first.grammar.lalr.actions] == list(second.grammar.lalr.actions)
        assert [dict(one) for one in first.grammar.lalr.gotos] == list(second.grammar.lalr.gotos)
        assert [len(one) for one in first.tried] == [len(one) for one in second.tried]
    Parser(second)


@pytest.mark.parametrize("text", [COLLIDING, LOOKING_AHEAD], ids=["colliding", "lookahead"])
@pytest.mark.parametrize("lexer", ["dynamic", "contextual"])
def test_what_was_read_has_the_same_masks(lexer: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value = Lark(text, lexer=lexer)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = compile_constraint(value, VOCABULARY)
        again(value, monkeypatch)
        renamed = Lark(text, lexer=lexer)  # type: ignore[arg-type]
        object.__setattr__(renamed, "name", "another store's")  # equal grammars on one vocabulary are one constraint
        monkeypatch.setattr(kept_grammars, "_path", lambda grammar, of=kept_grammars._path: of(value))
        read = compile_constraint(renamed, VOCABULARY)
    queue = [text for text in texts(3) if text == ""]
    while queue:
        text = queue.pop()
        allowed = mask(after(made, text))
        assert mask(after(read, text)) == allowed, text
        queue += [text + one for one in LETTERS if len(text) < 4 and VOCABULARY.tokens.index(one.encode()) in allowed]
    assert END not in mask(after(made, ""))


def test_a_damaged_file_is_ignored_and_written_again(folder: Path) -> None:
    value = Lark('start: "a" /b+/')
    kept(value, loaded)
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    for damaged in (b"", whole[:-1], whole[:60] + b"x" + whole[61:], whole.replace(b"grammar 1", b"grammar 0")):
        path.write_bytes(damaged)
        kept_grammars._remembered.cache_clear()
        kept(value, loaded)
        assert path.read_bytes() == whole


def test_a_file_that_asks_for_another_class_is_not_unpickled(folder: Path) -> None:
    value = Lark('start: "a" /c+/')
    kept(value, loaded)
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    body = pickle.dumps((Path("x"), ()))
    path.write_bytes(kept_grammars._MAGIC + checksum([body]) + body)
    kept_grammars._remembered.cache_clear()
    assert isinstance(kept(value, loaded), Prepared)
    assert path.read_bytes() == whole


def test_warnings_of_the_loading_are_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    value = Lark('start: "a" | endless\nendless: "b" endless')
    for read in (lambda: kept(value, loaded), lambda: again(value, monkeypatch)):
        with pytest.warns(LarkWarning, match="endless"):
            read()


def test_errors_grammars_with_others_in_them_and_those_of_who_says_no_are_not_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LarkError):
        kept(Lark("start: nothing"), loaded)
    kept(Lark("start: @x", embedded={"x": Regex("a")}), loaded)
    kept(Lark('start: %json {"type": "null"}'), loaded)
    monkeypatch.setenv(kept_grammars.ENVIRONMENT, "0")
    kept(Lark('start: "a" /d+/'), loaded)
    assert not folder.exists()


def test_the_oldest_files_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_grammars, "_MOST_FILES", 3)
    for number in range(5):
        kept(Lark(f'start: "a{number}"'), loaded)
        newest = max(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        os.utime(newest, ns=(number, number))
    assert sorted(path.stat().st_mtime_ns for path in folder.iterdir())[-2:] == [3, 4]
    assert len(list(folder.iterdir())) == 3


def test_a_process_that_finds_the_grammar_on_disk_does_not_load_lark() -> None:
    code = """
import sys
from constrained.automata.context_free.kept_grammars import kept
from constrained.automata.context_free.start import loaded
from grammars import library
kept(library.load("json"), loaded)
print("lark" in sys.modules)
"""
    said = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        for _ in range(2)
    ]
    assert said == ["True", "False"]


def test_packed_tables_are_what_they_were() -> None:
    maps = [{}, {3: 4, -1: 7}, {0: 0}]
    packed = pickle.loads(pickle.dumps(PackedMaps.of(maps)))
    assert list(packed) == maps
    assert packed[-1] == {0: 0}
    assert packed[1:] == maps[1:]
    actions = [{-1: ("reduce", 5), 2: ("shift", 0)}, {}]
    assert list(pickle.loads(pickle.dumps(PackedActions.of(actions)))) == actions  # type: ignore[arg-type]
