"""XGrammar's macros: `TagDispatch`, `Token`, and those that name tokens by what they are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grammars.ebnf import Alternatives, Concatenation, Definition, Expression, Foreign, Reference, Text
from grammars.errors import UnsupportedFeature
from grammars.regular import ALL, ANY, EPSILON, Rx, complement, concat, intersect, literal, literals
from grammars.values import SpecialToken

if TYPE_CHECKING:
    from grammars.gbnf.reader import Reader

_FLAGS = {"true": True, "false": False}


def read_macro(reader: Reader, name: str, start: int) -> Expression:
    """The rest of a macro, its name and the opening parenthesis being read.

    Raises:
        LarkError: it is not written as the macro is.
        UnsupportedFeature: `ExcludeToken`, `TokenTagDispatch`.
    """
    if name == "TagDispatch":
        return _tag_dispatch(reader, start)
    if name == "Token":
        options: list[Expression] = []
        while True:
            number = _number(reader)
            options.append(Foreign(SpecialToken(number=number), f"Token({number})"))
            if not reader.take(","):
                break
        _close(reader)
        return options[0] if len(options) == 1 else Alternatives(tuple(options))
    raise UnsupportedFeature(
        f"{name} on line {reader.place(start)[0]}: tokens other than given ones are no matter of text; "
        "free text is written TagDispatch(...)"
    )


def _number(reader: Reader) -> int:
    start = reader.position
    while reader.text[reader.position : reader.position + 1].isdecimal():
        reader.position += 1
    if reader.position == start:
        reader.fail(f"found {reader.found()}, expected the number of a token")
    number = int(reader.text[start : reader.position])
    reader.gap()
    return number


def _close(reader: Reader) -> None:
    if reader.text[reader.position : reader.position + 1] != ")":
        reader.fail(f"found {reader.found()}, expected ')'")
    reader.position += 1


def _string(reader: Reader) -> str:
    if reader.text[reader.position : reader.position + 1] != '"':
        reader.fail(f"found {reader.found()}, expected a string")
    text = reader.string()
    if not text:
        reader.fail("an empty tag occurs everywhere")
    reader.gap()
    return text


def _tag_dispatch(reader: Reader, start: int) -> Expression:
    """Free text until a tag, then the tag's rule, and again."""
    tags: list[tuple[str, str]] = []
    again = True
    excluded: list[str] = []
    while reader.text[reader.position : reader.position + 1] != ")":
        if reader.take("("):
            tag = _string(reader)
            reader.want(",")
            tags.append((tag, _name(reader)))
            reader.want(")")
        elif reader.take("loop_after_dispatch"):
            reader.want("=")
            again = _flag(reader)
        elif reader.take("excludes"):
            reader.want("=")
            excluded = _strings(reader)
        else:
            reader.fail(
                f'found {reader.found()}, expected ("tag", rule), loop_after_dispatch=true or excludes=("text", ...)'
            )
        if not reader.take(","):
            break
    _close(reader)
    if not tags:
        reader.fail("TagDispatch without a tag", start)
    for text in excluded:
        if any(tag.startswith(text) for tag, _ in tags):
            reader.fail(f"the excluded text {text!r} begins one of the tags", start)
    stops = literals([*(tag for tag, _ in tags), *excluded])
    options: list[Expression] = [Text(complement(concat(ALL, stops, ALL)))]
    name = f"TagDispatch on line {reader.place(start)[0]}, column {reader.place(start)[1]}"
    then = Reference(name) if again else Text(EPSILON)
    for tag, rule in tags:
        options.append(Concatenation((Text(_up_to(tag, stops, literals(excluded))), Reference(rule), then)))
    reader.rules[name] = Definition(Alternatives(tuple(options)), reader.place(start)[0])
    return Reference(name)


def _up_to(tag: str, stops: Rx, excluded: Rx) -> Rx:
    """Free text and the tag behind it, which is complete before any other tag and any excluded text is."""
    before = complement(concat(ALL, stops, ALL, ANY))
    return intersect(concat(ALL, literal(tag)), before, complement(concat(ALL, excluded, ALL)))


def _name(reader: Reader) -> str:
    start = reader.position
    while (char := reader.text[reader.position : reader.position + 1]) and (char.isalnum() or char in "_-."):
        reader.position += 1
    if reader.position == start:
        reader.fail(f"found {reader.found()}, expected the name of a rule")
    name = reader.text[start : reader.position]
    reader.uses.setdefault(name, start)
    reader.gap()
    return name


def _flag(reader: Reader) -> bool:
    for word, value in _FLAGS.items():
        if reader.take(word):
            return value
    reader.fail(f"found {reader.found()}, expected true or false")


def _strings(reader: Reader) -> list[str]:
    reader.want("(")
    out: list[str] = []
    while not reader.take(")"):
        out.append(_string(reader))
        if not reader.take(","):
            reader.want(")")
            break
    return out
