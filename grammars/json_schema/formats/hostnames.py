"""hostname (RFC 1123 section 2.1, lengths of RFC 1035 section 2.3.4), with A-labels as RFC 5890 has them."""

from __future__ import annotations

from functools import lru_cache

from grammars.json_schema.formats.alabels import MAX_A_LABEL, a_label_rx
from grammars.json_schema.formats.pieces import ALNUM, DIGITS, LETTERS, among, optional, separated
from grammars.regular import ANY, NONE, Rx, chars, concat, intersect, literal, repeat, union

MAX_NAME = 253
_LDH = chars((*LETTERS, *DIGITS, *among("-")))


_MAX_LABEL = 63
_DOT = literal(".")


@lru_cache(maxsize=1)
def plain_label_rx() -> Rx:
    """Letters, digits and inner hyphens, up to 63; no reserved label, which has hyphens third and fourth (RFC 5890)."""
    third_and_fourth = union(concat(ALNUM, _LDH), concat(literal("-"), ALNUM))
    longer = concat(ALNUM, _LDH, third_and_fourth, repeat(_LDH, 0, _MAX_LABEL - 5), ALNUM)
    return union(concat(ALNUM, optional(concat(repeat(_LDH, 0, 2), ALNUM))), longer)


@lru_cache(maxsize=4)
def hostname_rx(longest: int = MAX_NAME) -> Rx:
    """Labels with dots between them, `longest` characters in all; no dot at the end.

    Names with A-labels have only so many labels that they cannot get too long: four in 253 characters.
    """
    plain = intersect(separated(plain_label_rx(), _DOT), repeat(ANY, 0, longest))
    label = union(plain_label_rx(), a_label_rx())
    encoded: Rx = NONE
    for others in range((longest - MAX_A_LABEL) // (_MAX_LABEL + 1) + 1):
        here = concat(a_label_rx(), repeat(concat(_DOT, label), 0, others))
        encoded = union(here, concat(plain_label_rx(), _DOT, encoded))
    return union(plain, encoded)
