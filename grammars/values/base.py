"""What every grammar value is, and the checks that they share."""

from __future__ import annotations

from grammars.errors import GrammarError


class Grammar:
    """A grammar as a value: frozen, hashable, picklable, equal to another when it says the same."""

    __slots__ = ()


def one_of(option: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse an option value that is not one of the allowed ones."""
    if value not in allowed:
        raise GrammarError(f"{option}={value!r} is not one of {', '.join(map(repr, allowed))}")


def check_text(option: str, value: object) -> str:
    """The value, if it is a string that a text can hold."""
    if not isinstance(value, str):
        raise GrammarError(f"{option} takes strings, not {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise GrammarError(f"{value!r} holds half a surrogate pair, which no text produces") from None
    return value


def texts(option: str, value: str | object) -> tuple[str, ...]:
    """One string or several, as a tuple without repeats; empty strings are refused."""
    given = (value,) if isinstance(value, str) else value
    if isinstance(given, (bytes, dict)) or not hasattr(given, "__iter__"):
        raise GrammarError(f"{option}={value!r} is neither a string nor a list of strings")
    unique = tuple(dict.fromkeys(check_text(option, one) for one in given))
    if "" in unique:
        raise GrammarError(f"{option} holds the empty string, which occurs in every text")
    return unique
