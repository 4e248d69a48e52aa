"""uuid (RFC 9562), json-pointer (RFC 6901) and relative-json-pointer (draft-handrews-relative-json-pointer-01)."""

from __future__ import annotations

from grammars.json_schema.formats.pieces import DIGIT, HEXDIG, among, any_number, exactly
from grammars.regular import ANY, Rx, chars, concat, difference, literal, union


def uuid_rx() -> Rx:
    """Five groups of hexadecimal digits in either case; every version and variant."""
    groups = [exactly(HEXDIG, count) for count in (8, 4, 4, 4, 12)]
    return concat(groups[0], *(concat(literal("-"), group) for group in groups[1:]))


def json_pointer_rx() -> Rx:
    """`json-pointer` as a string, not as a URI fragment."""
    plain = difference(ANY, chars(among("/~")))
    token = any_number(union(plain, literal("~0"), literal("~1")))
    return any_number(concat(literal("/"), token))


def relative_json_pointer_rx() -> Rx:
    """`relative-json-pointer`; the index manipulation of later drafts is left out, as validators know none."""
    up = union(literal("0"), concat(chars(((0x31, 0x39),)), any_number(DIGIT)))
    return concat(up, union(literal("#"), json_pointer_rx()))
