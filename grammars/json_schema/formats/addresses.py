"""ipv4 (RFC 2673 section 3.2) and ipv6 (RFC 4291 section 2.2)."""

from __future__ import annotations

from functools import lru_cache

from grammars.json_schema.formats.pieces import DIGIT, HEXDIG, among, exactly, optional
from grammars.regular import EPSILON, Rx, chars, concat, literal, repeat, union

_COLON = literal(":")
_GROUP = repeat(HEXDIG, 1, 4)


@lru_cache(maxsize=1)
def ipv4_rx() -> Rx:
    """Four decimal octets without leading zeros."""
    octet = union(
        DIGIT,
        concat(chars(among("123456789")), DIGIT),
        concat(literal("1"), exactly(DIGIT, 2)),
        concat(literal("2"), chars(among("01234")), DIGIT),
        concat(literal("25"), chars(among("012345"))),
    )
    return concat(octet, exactly(concat(literal("."), octet), 3))


@lru_cache(maxsize=2)
def ipv6_rx(least_compressed: int = 1) -> Rx:
    """Eight groups, where `::` may stand for `least_compressed` or more and an IPv4 address for the last two; no zone.

    RFC 4291 lets `::` stand for a single group; RFC 5321 section 4.1.3 asks for two.
    """

    def at_most(groups: int) -> Rx:
        """What follows `::`."""
        rest: Rx = EPSILON
        for count in range(1, groups + 1):
            tail = concat(_GROUP, optional(concat(_COLON, rest)) if count > 1 else EPSILON)
            rest = union(tail, ipv4_rx()) if count > 1 else tail
        return optional(rest)

    address = _GROUP
    for read in range(6, -1, -1):
        # `read` groups and their colons are read, `address` is what is right after one more.
        left = 8 - least_compressed - (read + 1)
        compressed = [concat(_COLON, at_most(left))] if left >= 0 else []
        group = concat(_GROUP, _COLON, union(address, *compressed))
        address = union(group, ipv4_rx()) if read == 6 else group
    return union(address, concat(literal("::"), at_most(8 - least_compressed)))
