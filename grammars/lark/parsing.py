"""Lark itself on a grammar: its terminals and rules, and its complaints with their places."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from lark.exceptions import LarkError as LarkException
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.grammar import Rule
from lark.lexer import TerminalDef
from lark.load_grammar import load_grammar

from grammars.errors import LarkError
from grammars.lark.source import Source
from grammars.values import Lark

# A folder that is nowhere: relative imports are served from the value and never from a disk.
_ROOT = "/imports of the grammar"

_SYMBOLS = {
    "_COLON": "':'", "_COMMA": "','", "_OR": "'|'", "_DOT": "'.'", "_DOTDOT": "'..'", "_LPAR": "'('", "_RPAR": "')'",
    "_LBRA": "'['", "_RBRA": "']'", "_LBRACE": "'{'", "_RBRACE": "'}'", "OP": "'+', '*' or '?'", "TILDE": "'~'",
    "RULE_MODIFIERS": "'!' or '?'", "RULE": "the name of a rule", "TERMINAL": "the name of a terminal",
    "STRING": "a string", "REGEXP": "a regular expression", "_NL": "a new line", "_NL_OR": "'|' on a new line",
    "_TO": "'->'", "_IGNORE": "%ignore", "_OVERRIDE": "%override", "_DECLARE": "%declare", "_EXTEND": "%extend",
    "_IMPORT": "%import", "NUMBER": "a number", "$END": "the end of the grammar",
}  # fmt: skip
_MOST_EXPECTED = 8


@dataclass(frozen=True, slots=True)
class Compiled:
    """A grammar as Lark has it after its own expansion.

    Attributes:
        terminals: those that have a text; declared ones only occur in rules.
        rules: productions.
        ignored: names of terminals.
    """

    terminals: tuple[TerminalDef, ...]
    rules: tuple[Rule, ...]
    ignored: tuple[str, ...]


def compiled(value: Lark, source: Source) -> Compiled:
    """The grammar as Lark loads it.

    Raises:
        LarkError: Lark refuses it.
    """
    imports = _Imports(dict(value.imports))
    kept = set() if value.indenter is None else {value.indenter.newline}
    try:
        grammar, _ = load_grammar(source.text, f"{_ROOT}/grammar.lark", [imports], False)  # type: ignore[no-untyped-call]
        terminals, rules, ignored = grammar.compile([value.start], kept)
    except LarkException as error:
        raise _translated(error, source, imports.served) from None
    except OSError as error:
        raise _failed_import(error, source) from None
    except Exception as error:
        # Lark meets some malformed grammars with a bare exception, and expressions with that of `re` or of `regex`.
        pattern = getattr(error, "pattern", None)
        if pattern is not None:
            raise LarkError(f"no regular expression: {error}", *_holding(str(pattern), source)) from None
        what = str(error) or type(error).__name__
        raise LarkError(f"Lark cannot load the grammar: {what}", *_mentioned(what, source)) from None
    if not any(rule.origin.name == value.start for rule in rules):
        names = ", ".join(sorted(source.definitions)) or "none"
        raise LarkError(f"there is no rule {value.start!r} to start from; the grammar defines: {names}", 1, 1)
    return Compiled(tuple(terminals), tuple(rules), tuple(dict.fromkeys(ignored)))


class _Imports:
    """Serves relative imports from texts, as Lark asks for them."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts
        self.served: str | None = None

    def __call__(self, base: object, path: str) -> tuple[str, str]:
        if not isinstance(base, str) or not base.startswith(_ROOT):
            raise OSError
        inside = PurePosixPath(base[len(_ROOT) :].lstrip("/")) / path.replace("\\", "/")
        text = self.texts.get(inside.as_posix())
        if text is None:
            raise OSError
        self.served = inside.as_posix()
        return f"{_ROOT}/{self.served}", text


# --- complaints -------------------------------------------------------------------------------------------------------


def _translated(error: LarkException, source: Source, imported: str | None) -> LarkError:
    cause = error if isinstance(error, UnexpectedInput) else error.__context__
    message = str(error).split("\n\n")[0].strip()
    if isinstance(cause, (UnexpectedCharacters, UnexpectedToken)):
        said = _unexpected(cause, message)
        if imported is None:
            return LarkError(said, *source.written_place(cause.line, cause.column))
        # A grammar is read before what it imports, so this stands in what was imported last.
        name = imported.removesuffix(".lark").rpartition("/")[2]
        place = f"line {cause.line}, column {cause.column}"
        return LarkError(f"in the imported {imported}, {place}: {said}", *_mentioned(f"'{name}'", source))
    if len(error.args) == 2:  # a value that cannot be had, and why
        what, why = error.args
        if isinstance(why, SyntaxError):
            return LarkError(f"a bad escape in {what!r}: {why.msg}", *_holding(str(what), source))
    return LarkError(_shown(message, source), *_mentioned(message, source))


def _unexpected(cause: UnexpectedCharacters | UnexpectedToken, message: str) -> str:
    if isinstance(cause, UnexpectedToken):
        found = _SYMBOLS.get(str(cause.token.type), "") if not cause.token.strip() else repr(str(cause.token))
        names: Iterable[str] = cause.accepts or cause.expected
    else:
        found, names = repr(cause.char), cause.allowed or ()
    expected = sorted({_SYMBOLS.get(name, name) for name in names} - {"WS", "COMMENT", "BACKSLASH"})
    more = ", ..." if len(expected) > _MOST_EXPECTED else ""
    hint = message.partition(", at line")[0] if ", at line" in message else ""
    said = f"found {found or 'nothing'}, expected {', '.join(expected[:_MOST_EXPECTED])}{more}"
    return f"{hint}: {said}" if hint else said


def _shown(message: str, source: Source) -> str:
    """The message with what was written in the place of declared terminals."""
    for name, (_, written) in source.embedded.items():
        message = message.replace(name, written)
    return message


def _mentioned(message: str, source: Source) -> tuple[int, int]:
    """The place that a message is about: the first name in it, where that is used or else where it is defined."""
    span = re.search(r"\((-?\d+\.\.-?\d+) isn't allowed", message)
    if span is not None and span[1] in source.written:
        return source.place(source.written.index(span[1]))
    for name in re.findall(r"'(\w+)'", message) + re.findall(r"[A-Za-z_]\w*", message):
        defined = source.definitions.get(name, [])
        if defined and ("more than once" in message or "Recursion" in message):
            return source.place(defined[-1])
        used = [index for index in source.names.get(name, []) if index not in defined]
        if used or defined:
            return source.place((used or defined)[0])
    return _holding(message, source)


def _holding(text: str, source: Source) -> tuple[int, int]:
    """The place of a string or a regular expression that holds the text, or that the text holds."""
    for literal, index in source.literals.items():
        if literal in text or text in literal:
            return source.place(index)
    return 1, 1


def _failed_import(error: OSError, source: Source) -> LarkError:
    wanted = str(error.filename or "").replace("\\", "/")
    dotted = wanted.removesuffix(".lark").replace("/", ".")
    index = max(source.written.find(dotted), 0)
    return source.error(
        f"the imported grammar {wanted!r} is neither among imports= nor one of Lark's own; give the grammar as a file "
        "that lies beside it, or its text as imports={...}",
        index,
    )
