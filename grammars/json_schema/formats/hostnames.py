"""hostname (RFC 1123 section 2.1, lengths of RFC 1035 section 2.3.4), with A-labels as RFC 5890 has them."""

from __future__ import annotations

from functools import lru_cache

from grammars.json_schema.formats.alabels import a_label_rx
from grammars.json_schema.formats.pieces import ALNUM, DIGITS, LETTERS, among, optional, separated
from grammars.regular import ANY, Rx, chars, concat, intersect, literal, repeat, union

MAX_NAME = 253
_LDH = chars((*LETTERS, *DIGITS, *among("-")))


@lru_cache(maxsize=1)
def ascii_label_rx() -> Rx:
    """Letters, digits and inner hyphens, up to 63.

    Labels with hyphens third and fourth are reserved (RFC 5890 section 2.3.1): only A-labels among them are right.
    """
    third_and_fourth = union(concat(ALNUM, _LDH), concat(literal("-"), ALNUM))
    longer = concat(ALNUM, _LDH, third_and_fourth, repeat(_LDH, 0, 58), ALNUM)
    plain = union(concat(ALNUM, optional(concat(repeat(_LDH, 0, 2), ALNUM))), longer)
    return union(plain, a_label_rx())


@lru_cache(maxsize=4)
def hostname_rx(longest: int = MAX_NAME) -> Rx:
    """Labels with dots between them, `longest` characters in all; no dot at the end."""
    return intersect(separated(ascii_label_rx(), literal(".")), repeat(ANY, 0, longest))
