"""idn-hostname: names in ASCII or with internationalised labels (RFC 5890), separators of RFC 3490 section 3.1."""

from __future__ import annotations

from grammars.json_schema.formats.alabels import a_label_rx
from grammars.json_schema.formats.hostnames import MAX_NAME, plain_label_rx
from grammars.json_schema.formats.idn_labels import left_label_rx, right_label_rx
from grammars.json_schema.formats.pieces import ALPHA, among, separated
from grammars.regular import ALL, ANY, NONE, Rx, chars, concat, intersect, repeat, union

_SEPARATORS = chars(among(".\u3002\uff0e\uff61"))


def idn_hostname_rx() -> Rx:
    """Names in ASCII, and international names of up to four labels."""
    ascii_names = intersect(separated(plain_label_rx(), _SEPARATORS), repeat(ANY, 0, MAX_NAME))
    return union(ascii_names, international_names_rx(_SEPARATORS, 4))


def international_names_rx(separator: Rx, labels: int) -> Rx:
    """Names with U-labels, or with one A-label; their A-labels and dots are at most 64 times `labels` less 3 long.

    Where one label is, or may be, written from right to left, RFC 5893 wants all labels to begin with a letter.
    """
    plain = plain_label_rx()
    lettered = intersect(plain, concat(ALPHA, ALL))
    left, right, encoded = left_label_rx(), right_label_rx(), a_label_rx()

    def names_with(special: Rx, before: Rx, after: Rx) -> Rx:
        names: Rx = NONE
        for others in range(labels):
            here = concat(special, repeat(concat(separator, after), 0, others))
            names = union(here, concat(before, separator, names))
        return names

    return union(
        names_with(left, plain, union(plain, left)),
        names_with(right, lettered, union(lettered, right)),
        names_with(encoded, lettered, lettered),
    )
