"""Grammars with contextual lexing that come last in a grammar made of parts: where they may stand, and what is read with them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from grammars.errors import UnsupportedFeature
from grammars.tool_calls.lowering import lowered
from grammars.values import Grammar, Lark, OneOf, Reasoning, Repeat, Sequence, SpecialToken, ToolCalls
from grammars.values.combined import Part


@dataclass(frozen=True, slots=True)
class Ending(Grammar):
    """What is read to the end of the text by a parser of its own.

    Attributes:
        grammar: with contextual lexing, perhaps behind what is regular.
        is_empty_apart: whether the empty text is told apart already, and only the others are meant.
    """

    grammar: Grammar
    is_empty_apart: bool = False


def contextual_end(value: Part) -> tuple[list[Part], Lark] | None:
    """What stands before a Lark grammar with contextual lexing that comes last, and that grammar."""
    if isinstance(value, Lark):
        return ([], value) if value.lexer == "contextual" else None
    if isinstance(value, Sequence) and value.parts:
        last = contextual_end(value.parts[-1])
        return None if last is None else ([*value.parts[:-1], *last[0]], last[1])
    if isinstance(value, Reasoning) and not value.optional:
        last = contextual_end(value.then)
        return None if last is None else ([replace(value, then=""), *last[0]], last[1])
    return None


def is_ending(value: Part) -> bool:
    """Whether a grammar with contextual lexing comes last, and no special token stands before it."""
    last = contextual_end(value)
    return last is not None and not any(map(_names_token, last[0]))


def with_ending(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts of a sequence; what follows the last special token is one of them, if it ends with contextual lexing."""
    last = contextual_end(Sequence(*parts))
    if last is None:
        return parts
    flat = [*_flat(last[0]), last[1]]
    behind = max((at for at, one in enumerate(flat) if _names_token(one)), default=-1) + 1
    return (*flat[:behind], Sequence(*flat[behind:])) if behind else parts


def check_endings(value: Part, begins: bool = True, ends: bool = True) -> None:
    """Refuse contextual lexing where something follows, or where what comes before it is not told apart.

    Args:
        begins: whether the text begins here, or a special token stands before.
        ends: whether nothing follows.

    Raises:
        UnsupportedFeature: it stands elsewhere.
    """
    if isinstance(value, ToolCalls):
        value = lowered(value)
    if is_ending(value):
        if not begins or not ends:
            raise UnsupportedFeature(
                "a Lark grammar has lexer='contextual'; inside another grammar it can stand at the end, at the beginning of "
                "the text or right behind a special token; elsewhere it needs lexer='dynamic'"
            )
    elif isinstance(value, Sequence):
        parts = [one for one in with_ending(value.parts) if one != ""]
        for at, one in enumerate(parts):
            is_first = at == 0 and begins
            check_endings(one, is_first or (at > 0 and _ends_with_token(parts[at - 1])), ends and at == len(parts) - 1)
    elif isinstance(value, OneOf):
        for one in value.options:
            check_endings(one, begins, ends)
    elif isinstance(value, Repeat):
        check_endings(value.part, begins, ends and value.most == 1)
        check_endings(value.separator, begins=False, ends=False)
    elif isinstance(value, Reasoning) and value.optional:
        check_endings(replace(value, optional=False), begins, ends)
        check_endings(value.then, begins, ends)
    elif isinstance(value, Reasoning):
        check_endings(value.then, isinstance(value.end, SpecialToken) and value.gap == 0, ends)


def _ends_with_token(value: Part) -> bool:
    if isinstance(value, Sequence):
        flat = _flat([value])
        return bool(flat) and _ends_with_token(flat[-1])
    if isinstance(value, OneOf):
        return all(map(_ends_with_token, value.options))
    if isinstance(value, Repeat):
        return value.least > 0 and _ends_with_token(value.part)
    return isinstance(value, SpecialToken)


def _names_token(value: Part) -> bool:
    if isinstance(value, Reasoning):
        return any(map(_names_token, (value.start, value.end, value.then)))
    if isinstance(value, (Sequence, OneOf)):
        return any(map(_names_token, value.parts if isinstance(value, Sequence) else value.options))
    if isinstance(value, Repeat):
        return _names_token(value.part) or _names_token(value.separator)
    return isinstance(value, SpecialToken) or (isinstance(value, ToolCalls) and bool(value.special))


def _flat(parts: list[Part]) -> list[Part]:
    found: list[Part] = []
    for one in parts:
        found += _flat(list(one.parts)) if isinstance(one, Sequence) else [one] if one != "" else []
    return found
