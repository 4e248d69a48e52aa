"""Sets of characters in the two parts that byte automata want, and the splitting of many such sets at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from grammars.memory import remembered
from grammars.regular import NONE, Rx, chars
from grammars.regular.charset import join_all, meet, minus
from grammars.regular.rx import MAX_CODE_POINT

Letters = tuple[int, Rx]
"""A set of characters: ASCII as 128 bits, the others as a set of the algebra (NONE if there are none)."""

_WIDE = chars([(0x80, MAX_CODE_POINT)])
ALL_LETTERS: Letters = ((1 << 128) - 1, _WIDE)

_FEW = 8
"""Up to so many characters of a set are looked at one by one."""

T = TypeVar("T")


@remembered(1 << 14)
def letters(characters: Rx) -> Letters:
    """The two parts of a set (a node of kind CHARS)."""
    bits = 0
    for low, high in characters.a:
        if low < 0x80:
            bits |= (1 << (min(high, 0x7F) + 1)) - (1 << low)
    return bits, meet(characters, _WIDE)


def common(left: Letters, right: Letters) -> Letters:
    """The characters of two sets that both have."""
    wide = NONE if NONE in (left[1], right[1]) else meet(left[1], right[1])
    return left[0] & right[0], wide


def ascii_ranges(bits: int) -> list[tuple[int, int]]:
    """The runs of bits that are set, first and last included."""
    ranges = []
    while bits:
        low = (bits & -bits).bit_length() - 1
        run = bits >> low
        length = (~run & (run + 1)).bit_length() - 1
        ranges.append((low, low + length - 1))
        bits &= ~(((1 << length) - 1) << low)
    return ranges


def split(items: Sequence[tuple[Letters, T]]) -> list[tuple[Letters, tuple[T, ...]]]:
    """Disjoint sets of characters with the values of those items, in their order, that hold them."""
    members: dict[int, int] = {}
    parts: list[tuple[int, int]] = []
    wide: list[tuple[Rx, int]] = []
    for number, ((bits, others), _) in enumerate(items):
        bit = 1 << number
        if bits.bit_count() > _FEW:
            parts = _split_bits(parts, bits, bit)
        else:
            while bits:
                low = bits & -bits
                members[low] = members.get(low, 0) | bit
                bits ^= low
        if others is not NONE:
            wide = _split_wide(wide, others, bit)
    bits_of: dict[int, int] = {}
    single = 0
    for low, mask in members.items():
        single |= low
        mask |= next((more for bits, more in parts if bits & low), 0)
        bits_of[mask] = bits_of.get(mask, 0) | low
    for bits, mask in parts:
        if bits & ~single:
            bits_of[mask] = bits_of.get(mask, 0) | (bits & ~single)
    wide_of: dict[int, list[Rx]] = {}
    for others, mask in wide:
        wide_of.setdefault(mask, []).append(others)
    return [
        ((bits_of.get(mask, 0), join_all(wide_of[mask]) if mask in wide_of else NONE), _chosen(items, mask))
        for mask in {**bits_of, **wide_of}
    ]


def _split_bits(parts: list[tuple[int, int]], bits: int, bit: int) -> list[tuple[int, int]]:
    found = []
    for one, mask in parts:
        both = one & bits
        if both:
            found.append((both, mask | bit))
            bits ^= both
        if both != one:
            found.append((one ^ both, mask))
    return [*found, (bits, bit)] if bits else found


def _chosen(items: Sequence[tuple[Letters, T]], mask: int) -> tuple[T, ...]:
    chosen = []
    while mask:
        low = mask & -mask
        chosen.append(items[low.bit_length() - 1][1])
        mask ^= low
    return tuple(chosen)


def _split_wide(parts: Iterable[tuple[Rx, int]], others: Rx, bit: int) -> list[tuple[Rx, int]]:
    found = []
    for one, mask in parts:
        both = one if others is one else meet(one, others) if others is not NONE else NONE
        if both is NONE:
            found.append((one, mask))
            continue
        found.append((both, mask | bit))
        rest = minus(one, both)
        if rest is not NONE:
            found.append((rest, mask))
        others = minus(others, both)
    if others is not NONE:
        found.append((others, bit))
    return found
