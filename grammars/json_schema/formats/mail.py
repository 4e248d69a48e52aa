"""email: `Mailbox` of RFC 5321 section 4.1.2; idn-email: the same extended by RFC 6531."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from grammars.json_schema.formats.addresses import ipv4_rx, ipv6_rx
from grammars.json_schema.formats.hostnames import hostname_rx
from grammars.json_schema.formats.idn_characters import Ranges
from grammars.json_schema.formats.idn_hostnames import international_names_rx
from grammars.json_schema.formats.pieces import (
    ALNUM,
    DIGITS,
    LETTERS,
    among,
    any_case,
    any_number,
    optional,
    separated,
    some,
)
from grammars.regular import ANY, PlainUnfolding, Rx, chars, concat, intersect, literal, repeat, unfold, union

_ATEXT = (*LETTERS, *DIGITS, *among("!#$%&'*+-/=?^_`{|}~"))
_QTEXT = ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7E))
_BEYOND_ASCII = ((0x80, 0x10FFFF),)
_ACCENTS = ((0x300, 0x304), (0x306, 0x30C), (0x323, 0x328))
_MAX_LOCAL_PART = 64
# A mailbox has at most 254 characters (RFC 5321 section 4.5.3.1.3); with this limit none has more.
_MAX_DOMAIN = 254 - 1 - _MAX_LOCAL_PART
# Three labels and their dots are shorter than that.
_MAX_OCTETS_OF_LABEL = (_MAX_DOMAIN - 2) // 3


def email_rx() -> Rx:
    """A local part, quoted or not, and a host name or an address in brackets."""
    local = _local_part(_ATEXT, _QTEXT, repeat(ANY, 0, _MAX_LOCAL_PART))
    return concat(local, literal("@"), union(hostname_rx(_MAX_DOMAIN), _literals()))


def idn_email_rx() -> Rx:
    """The same with characters beyond ASCII (RFC 6531 section 3.3).

    International domains have three labels at most.  RFC 6531 does not normalise, so accents that compose may also
    stand for themselves behind letters and digits.
    """
    local = _local_part((*_ATEXT, *_BEYOND_ASCII), (*_QTEXT, *_BEYOND_ASCII), unfold(_Octets(_MAX_LOCAL_PART)))
    accented = intersect(
        separated(some(concat(ALNUM, optional(chars(_ACCENTS)))), literal("-")), unfold(_Octets(_MAX_OCTETS_OF_LABEL))
    )
    labels = concat(accented, repeat(concat(literal("."), accented), 0, 2))
    domain = union(international_names_rx(literal("."), 3), labels)
    return concat(local, literal("@"), union(hostname_rx(_MAX_DOMAIN), domain, _literals()))


def _local_part(atom: Ranges, quoted: Ranges, limit: Rx) -> Rx:
    # A space needs no backslash, and some readers take none.
    escaped = concat(literal("\\"), chars(((0x21, 0x7E),)))
    inside = any_number(union(chars(quoted), escaped))
    return union(
        intersect(separated(some(chars(atom)), literal(".")), limit),
        intersect(concat(literal('"'), inside, literal('"')), limit),
    )


@dataclass(frozen=True, slots=True)
class _Octets(PlainUnfolding):
    """Texts of at most `left` octets in UTF-8."""

    left: int

    @property
    def nullable(self) -> bool:
        return True

    @property
    def order(self) -> int:
        return self.left

    @property
    def longest(self) -> int:
        return self.left

    def moves(self) -> Iterator[tuple[int, int, Rx]]:
        for octets, first, last in ((1, 0, 0x7F), (2, 0x80, 0x7FF), (3, 0x800, 0xFFFF), (4, 0x10000, 0x10FFFF)):
            if octets <= self.left:
                yield first, last, unfold(_Octets(self.left - octets))


def _literals() -> Rx:
    """Address literals with a registered tag: an IPv4 address without any, or an IPv6 address."""
    address = union(ipv4_rx(), concat(any_case("IPv6:"), ipv6_rx(2)))
    return concat(literal("["), address, literal("]"))
