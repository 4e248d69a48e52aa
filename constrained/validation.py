"""The independent check of finished JSON: jsonschema, with exact numbers and the formats asserted.

A result goes through here although the masks already promise it, because a second opinion that shares no code with
the first is worth its fraction of a millisecond.  Where jsonschema itself deviates from the specification, the
deviation is mended here:

- numbers are compared as decimals (`0.07` is a multiple of `0.01`), not as binary fractions;
- patterns that Python's `re` cannot read (`\\p{Letter}`) are matched by `grammars.regex`, in the ECMA-262 dialect that
  JSON Schema asks for (2020-12 Core, section 6.4);
- a leap second and the year 0000 are valid in RFC 3339 times, which Python's `datetime` refuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import constrained.quick_jsonschema  # noqa: F401 - it has to come before jsonschema itself

# isort: split
import jsonschema
from jsonschema.protocols import Validator
from jsonschema_specifications import REGISTRY as SPECIFICATIONS
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from constrained.deep_stack import with_deep_stack
from constrained.errors import ResultError
from constrained.json_numbers import Json, Literal, plain, read_exact
from grammars import JsonSchema
from grammars.json_schema import format_asserted

_DRAFTS: Final = {
    "4": jsonschema.Draft4Validator,
    "6": jsonschema.Draft6Validator,
    "7": jsonschema.Draft7Validator,
    "2019-09": jsonschema.Draft201909Validator,
    "2020-12": jsonschema.Draft202012Validator,
}


class JsonCheck:
    """Checks texts against one schema, by its own draft; `format` is asserted unless the grammar only annotates it."""

    def __init__(self, grammar: JsonSchema) -> None:
        schema = grammar.document
        default = _DRAFTS[grammar.draft] if grammar.draft is not None else jsonschema.Draft202012Validator
        base = default if isinstance(schema, bool) else jsonschema.validators.validator_for(schema, default=default)
        registry: Registry[Json] = SPECIFICATIONS  # the metaschemas; nothing is fetched
        for uri, text in grammar.resources:
            document = read_exact(text)
            registry = registry.with_resource(uri, Resource.from_contents(document, default_specification=DRAFT202012))
        formats = _format_checker(base) if format_asserted(grammar) else None
        self._validator: Validator = _exact_validator(base)(schema, registry=registry, format_checker=formats)

    def parse(self, text: str) -> Json:
        """The value that `text` stands for, checked.

        Numbers come back as `constrained.json_numbers.plain` has them: without a loss, integers as `int`.

        Raises:
            ResultError: not JSON, or not an instance of the schema; says where and why.
        """
        try:
            return with_deep_stack(lambda: self._parse(text))
        except RecursionError:
            raise ResultError(
                "the JSON is nested too deeply to be checked; bound the depth of its schema", text
            ) from None

    def _parse(self, text: str) -> Json:
        try:
            exact = read_exact(text)
        except ValueError as error:
            raise ResultError(f"the text is not JSON: {error}", text) from None
        problem = jsonschema.exceptions.best_match(self._validator.iter_errors(exact))
        if problem is not None:
            raise ResultError(f"the JSON does not fit the schema at {problem.json_path}: {problem.message}", text)
        return plain(exact)


def _is_integer(_: object, instance: object) -> bool:
    if isinstance(instance, bool):
        return False
    if isinstance(instance, Literal):
        whole = instance == instance.to_integral_value()
        instance.is_integer |= whole  # so it comes back as one
        return whole
    return isinstance(instance, int)


def _multiple_of(_: Validator, divisor: Json, instance: Json, __: Json) -> Iterator[jsonschema.ValidationError]:
    if isinstance(instance, bool) or not isinstance(instance, int | Decimal):
        return
    if not _is_multiple(Decimal(instance), Fraction(divisor)):
        yield jsonschema.ValidationError(f"{instance} is not a multiple of {divisor}")


def _is_multiple(number: Decimal, divisor: Fraction) -> bool:
    """Whether digits * 10**exponent / divisor is whole, without ever writing out a huge power of ten."""
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    scaled = int(Decimal((0, digits, 0))) * divisor.denominator
    if exponent >= 0:
        return scaled * pow(10, exponent, divisor.numerator) % divisor.numerator == 0
    if scaled == 0:
        return True
    return -exponent <= scaled.bit_length() and scaled % (divisor.numerator * 10**-exponent) == 0


def _pattern(_: Validator, pattern: str, instance: Json, __: Json) -> Iterator[jsonschema.ValidationError]:
    if isinstance(instance, str) and not _search(pattern)(instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Json], instance: Json, _: Json
) -> Iterator[jsonschema.ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in patterns.items():
        search = _search(pattern)
        for key, value in instance.items():
            if search(key):
                yield from validator.descend(value, subschema, path=key, schema_path=pattern)


@lru_cache(maxsize=512)
def _search(pattern: str) -> Callable[[str], bool]:
    """Whether a text contains a match of an ECMA-262 pattern."""
    try:
        compiled = re.compile(_as_python(pattern), re.ASCII)
    except re.error:
        from grammars.regex import parse
        from grammars.regular import matches

        language = parse(pattern, dialect="ecma", mode="search")
        return lambda text: matches(language, text)
    return lambda text: compiled.search(text) is not None


_ECMA_SPACE: Final = r"\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"


def _as_python(pattern: str) -> str:
    """The pattern with the few notations replaced that mean something else in Python (`re.ASCII` does the rest).

    In ECMA-262 `$` does not match before a final newline, `.` stops at four line terminators, `\\s` is Unicode's.
    """
    replaced: list[str] = []
    inside = False
    position = 0
    while position < len(pattern):
        char = pattern[position]
        if char == "\\" and position + 1 < len(pattern):
            pair = pattern[position : position + 2]
            if pair == r"\s":
                replaced.append(_ECMA_SPACE if inside else f"[{_ECMA_SPACE}]")
            elif pair == r"\S" and not inside:
                replaced.append(f"[^{_ECMA_SPACE}]")
            else:
                replaced.append("/" if pair == r"\/" else pair)
            position += 2
            continue
        if inside:
            inside = char != "]"
            replaced.append(char)
        else:
            inside = char == "["
            replaced.append({"$": r"\Z", ".": r"[^\n\r\u2028\u2029]"}.get(char, char))
        position += 1
    return "".join(replaced)


@lru_cache(maxsize=16)
def _exact_validator(base: type[Validator]) -> Callable[..., Validator]:
    checker = base.TYPE_CHECKER.redefine("integer", _is_integer)
    keywords = {"multipleOf": _multiple_of, "pattern": _pattern, "patternProperties": _pattern_properties}
    return jsonschema.validators.extend(base, validators=keywords, type_checker=checker)  # type: ignore[no-untyped-call,no-any-return]


@lru_cache(maxsize=16)
def _format_checker(base: type[Validator]) -> jsonschema.FormatChecker:
    """The draft's format checks, with RFC 3339's leap seconds and year 0000 let through."""
    checker = jsonschema.FormatChecker(())
    checker.checkers = dict(base.FORMAT_CHECKER.checkers)
    for name in ("date", "time", "date-time"):
        known = checker.checkers.get(name)
        if known is not None:
            function, raises = known
            checker.checkers[name] = (_with_rfc3339_times(function), raises)
    return checker


def _with_rfc3339_times(function: Callable[[object], bool]) -> Callable[[object], bool]:
    def check(instance: object) -> bool:
        if isinstance(instance, str):
            # 0000 and 0004 are both leap years of the proleptic calendar.
            instance = re.sub(r"^0000-", "0004-", instance)
            instance = re.sub(r"(:[0-5]\d):60", r"\1:59", instance)
        return function(instance)

    return check
