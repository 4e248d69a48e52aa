"""From the text of a GBNF grammar to a context-free grammar in numbers."""

from __future__ import annotations

from grammars.context_free import ContextFree
from grammars.context_free.trim import useful_rules
from grammars.ebnf import Definition, Text, flatten, fold
from grammars.errors import LarkError
from grammars.gbnf.reader import Reader
from grammars.memory import remembered
from grammars.regular import is_empty
from grammars.values import Gbnf


@remembered(64)
def rules(value: Gbnf) -> dict[str, Definition]:
    """The rules by name; not to be changed.

    Raises:
        LarkError: the text is no grammar, a rule is missing; with line and column.
        UnsupportedFeature: lookahead assertions, temperatures, and tokens that are named by what they are not.
    """
    reader = Reader(value.text, value.dialect == "xgrammar")
    found = reader.read()
    for name, index in reader.uses.items():
        if name not in found:
            reader.fail(f"the rule {name!r} is used and never defined", index)
    if value.root not in found:
        known = ", ".join(found) or "none"
        raise LarkError(f"there is no rule {value.root!r} to start from; the grammar defines: {known}", 1, 1)
    return found


def without_text(value: Gbnf) -> tuple[str, ...]:
    """The names of rules that are plainly regular and derive no text, in the order of the grammar.

    Raises:
        LarkError, UnsupportedFeature: as `rules`.
    """
    folded = fold(rules(value))
    return tuple(
        f"{name} (line {one.line})" for name, one in folded.items()
        if isinstance(one.expression, Text) and is_empty(one.expression.language)
    )  # fmt: skip


def load(value: Gbnf) -> ContextFree:
    """The grammar in numbers; what is regular in it is one terminal.

    Raises:
        LarkError, UnsupportedFeature: as `rules`.
        EmptyLanguage: no text is a sentence.
    """
    grammar = flatten(rules(value), value.root)
    useful_rules(grammar)
    return grammar
