"""email: `Mailbox` of RFC 5321 section 4.1.2."""

from __future__ import annotations

from grammars.json_schema.formats.addresses import ipv4_rx, ipv6_rx
from grammars.json_schema.formats.hostnames import hostname_rx
from grammars.json_schema.formats.pieces import DIGITS, LETTERS, among, any_case, any_number, separated, some
from grammars.regular import ANY, Rx, chars, concat, intersect, literal, repeat, union

_ATEXT = (*LETTERS, *DIGITS, *among("!#$%&'*+-/=?^_`{|}~"))
_QTEXT = ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7E))
_MAX_LOCAL_PART = 64
# A mailbox has at most 254 characters (RFC 5321 section 4.5.3.1.3); with this limit none has more.
_MAX_DOMAIN = 254 - 1 - _MAX_LOCAL_PART


def email_rx() -> Rx:
    """A local part, quoted or not, and a host name or an address in brackets."""
    return concat(_local_part(chars(_ATEXT), chars(_QTEXT)), literal("@"), union(hostname_rx(_MAX_DOMAIN), _literals()))


def _local_part(atom: Rx, quoted: Rx) -> Rx:
    escaped = concat(literal("\\"), chars(((0x20, 0x7E),)))
    inside = any_number(union(quoted, escaped))
    limit = repeat(ANY, 0, _MAX_LOCAL_PART)
    return union(
        intersect(separated(some(atom), literal(".")), limit),
        intersect(concat(literal('"'), inside, literal('"')), limit),
    )


def _literals() -> Rx:
    """Address literals with a registered tag: an IPv4 address without any, or an IPv6 address."""
    address = union(ipv4_rx(), concat(any_case("IPv6:"), ipv6_rx(2)))
    return concat(literal("["), address, literal("]"))
