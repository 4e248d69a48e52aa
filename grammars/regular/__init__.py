"""Regular languages over Unicode scalar values: an algebra of interned expressions with lazy derivatives.

Every constructor normalises, so equality of normal forms is identity; derivatives are by sets of code points, memoised
on the node, and lead to live languages only.  See docs/regex.md.
"""

from grammars.regular.build import ALL, concat, literals, repeat, union  # isort: skip - before its other half
from grammars.regular.booleans import complement, difference, intersect
from grammars.regular.charset import ANY, chars
from grammars.regular.counters import NO_COUNTERS, completion_bound, counter_slack, relax_counters
from grammars.regular.derive import derivative, derivatives, matches, moves
from grammars.regular.endless import is_endless
from grammars.regular.explore import (
    at_hand,
    is_empty,
    is_equal,
    is_subset,
    longest_length,
    shortest,
    shortest_length,
    words,
)
from grammars.regular.language_digest import language_digest
from grammars.regular.rx import EPSILON, NONE, Rx
from grammars.regular.unfold import PlainUnfolding, Unfolding, unfold
from grammars.regular.words import literal

__all__ = [
    "ALL",
    "ANY",
    "EPSILON",
    "NONE",
    "NO_COUNTERS",
    "PlainUnfolding",
    "Rx",
    "Unfolding",
    "at_hand",
    "chars",
    "complement",
    "completion_bound",
    "concat",
    "counter_slack",
    "derivative",
    "derivatives",
    "difference",
    "intersect",
    "is_empty",
    "is_endless",
    "is_equal",
    "is_subset",
    "language_digest",
    "literal",
    "literals",
    "longest_length",
    "matches",
    "moves",
    "relax_counters",
    "repeat",
    "shortest",
    "shortest_length",
    "unfold",
    "union",
    "words",
]
