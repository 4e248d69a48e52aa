"""uri, uri-reference (RFC 3986 appendix A), iri, iri-reference (RFC 3987 section 2.2), uri-template (RFC 6570)."""

from __future__ import annotations

from grammars.json_schema.formats.addresses import ipv6_rx
from grammars.json_schema.formats.pieces import (
    ALPHA,
    DIGIT,
    DIGITS,
    HEXDIG,
    IPRIVATE,
    LETTERS,
    UCSCHAR,
    among,
    any_number,
    exactly,
    optional,
    separated,
    some,
)
from grammars.regular import EPSILON, Rx, chars, concat, literal, repeat, union

_UNRESERVED = (*LETTERS, *DIGITS, *among("-._~"))
_SUB_DELIMS = among("!$&'()*+,;=")
_ENCODED = concat(literal("%"), exactly(HEXDIG, 2))
_SLASH = literal("/")

Ranges = tuple[tuple[int, int], ...]


def uri_rx() -> Rx:
    """`URI`."""
    return _Grammar((), ()).absolute()


def uri_reference_rx() -> Rx:
    """`URI-reference`."""
    return _Grammar((), ()).reference()


def iri_rx() -> Rx:
    """`IRI`."""
    return _Grammar(UCSCHAR, IPRIVATE).absolute()


def iri_reference_rx() -> Rx:
    """`IRI-reference`."""
    return _Grammar(UCSCHAR, IPRIVATE).reference()


class _Grammar:
    """The rules of RFC 3986, with more characters for IRIs."""

    def __init__(self, more: Ranges, more_in_query: Ranges) -> None:
        def characters(extra: Ranges) -> Rx:
            return union(chars((*_UNRESERVED, *_SUB_DELIMS, *more, *extra)), _ENCODED)

        segment = any_number(characters(among(":@")))
        self._later = any_number(concat(_SLASH, segment))
        self._first = some(characters(among(":@")))
        self._first_without_colon = some(characters(among("@")))
        self._query = any_number(characters((*among(":@/?"), *more_in_query)))
        self._fragment = any_number(characters(among(":@/?")))
        future = concat(
            chars(among("vV")), some(HEXDIG), literal("."), some(chars((*_UNRESERVED, *_SUB_DELIMS, *among(":"))))
        )
        # An IPv4 address is a registered name as far as texts go.
        host = union(concat(literal("["), union(ipv6_rx(), future), literal("]")), any_number(characters(())))
        user = optional(concat(any_number(characters(among(":"))), literal("@")))
        self._authority = concat(user, host, optional(concat(literal(":"), any_number(DIGIT))))

    def absolute(self) -> Rx:
        scheme = concat(ALPHA, any_number(chars((*LETTERS, *DIGITS, *among("+-.")))))
        return concat(scheme, literal(":"), self._after_scheme(self._first))

    def reference(self) -> Rx:
        return union(self.absolute(), self._after_scheme(self._first_without_colon))

    def _after_scheme(self, first_segment: Rx) -> Rx:
        path = union(
            concat(literal("//"), self._authority, self._later),
            concat(_SLASH, optional(concat(self._first, self._later))),
            concat(first_segment, self._later),
            EPSILON,
        )
        query = optional(concat(literal("?"), self._query))
        return concat(path, query, optional(concat(literal("#"), self._fragment)))


def uri_template_rx() -> Rx:
    """`URI-Template`, less the operators that RFC 6570 section 2.2 keeps for later; `'` is legal (erratum 6937)."""
    plain = (
        *among("!#$&'"),
        (0x28, 0x3B),
        *among("="),
        (0x3F, 0x5B),
        *among("]_"),
        (0x61, 0x7A),
        *among("~"),
        *UCSCHAR,
        *IPRIVATE,
    )
    letter = union(chars((*LETTERS, *DIGITS, *among("_"))), _ENCODED)
    name = separated(some(letter), literal("."))
    length = concat(literal(":"), chars(((0x31, 0x39),)), repeat(DIGIT, 0, 3))
    variable = concat(name, optional(union(length, literal("*"))))
    operator = optional(chars(among("+#./;?&")))
    expression = concat(literal("{"), operator, separated(variable, literal(",")), literal("}"))
    return any_number(union(chars(plain), _ENCODED, expression))
