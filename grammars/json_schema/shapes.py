"""What a JSON Schema comes down to: unions of typed shapes.

A `Value` is a schema position, resolved lazily.  Asked for its `alternatives`, it answers with a union of shapes that
holds no reference, no boolean operator and no empty member: scalars are regular languages, arrays and objects name
their children as `Value`s again.  Everything that recognises, generates or measures JSON documents works on shapes.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from grammars.regular import Rx


class Value(Protocol, Hashable):
    """One schema position.  Equal positions are the same object wherever that is cheap to know."""

    @property
    def pointer(self) -> str:
        """JSON pointer of the subschema that this value came from, for messages."""

    def alternatives(self) -> Alternatives:
        """The union of shapes that this position accepts; computed at the first call, then kept.

        Raises `UnsupportedFeature`, `SchemaError` or `LimitExceeded` with the pointer of the place.
        """

    def is_empty(self) -> bool:
        """Whether no JSON value satisfies this position (least fixpoint through recursion)."""


class Property(NamedTuple):
    """A key of an object that is known by name, and what its value must satisfy.

    `declared`: by `properties` of some subschema; names that are only asked for come behind those.
    """

    name: str
    value: Value
    required: bool
    declared: bool = True


class KeyGroup(NamedTuple):
    """Undeclared keys: every key in `names` (decoded code points) that is no declared property may hold `value`."""

    names: Rx
    value: Value


class KeyWitness(NamedTuple):
    """At least one property whose key is in `names` must hold a `value` (negated `additionalProperties`, …)."""

    names: Rx
    value: Value


@dataclass(frozen=True, slots=True)
class ObjectShape:
    """Objects: declared properties in generation order, then groups of undeclared keys.

    A key is looked up among `properties` first; only a key that is none of them is looked up in `groups`, whose
    languages are pairwise disjoint.  A key found nowhere is not allowed.  A declared property whose value is empty
    is a key that may not occur.  `patternProperties`, `additionalProperties`, `propertyNames` and `required` names
    outside `properties` are already folded into these two fields.
    """

    properties: tuple[Property, ...]
    groups: tuple[KeyGroup, ...]
    min_properties: int = 0
    max_properties: int | None = None
    witnesses: tuple[KeyWitness, ...] = ()
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        return self._hash or _hashed(
            self, (self.properties, self.groups, self.min_properties, self.max_properties, self.witnesses)
        )


@dataclass(frozen=True, slots=True)
class ItemCount:
    """Between `least` and `most` items at index `start` or later satisfy `value` (`contains`, negated `items`)."""

    value: Value
    least: int
    most: int | None
    start: int = 0


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """Arrays: a value for each of the first items, one for all that follow, bounds on how many there are.

    `rest` may be empty, in which case no item may follow `prefix`.
    """

    prefix: tuple[Value, ...]
    rest: Value
    min_items: int = 0
    max_items: int | None = None
    counts: tuple[ItemCount, ...] = ()
    unique: bool = False
    repeated: bool = False
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        return self._hash or _hashed(
            self, (self.prefix, self.rest, self.min_items, self.max_items, self.counts, self.unique, self.repeated)
        )


@dataclass(frozen=True, slots=True)
class Alternatives:
    """A union of typed shapes; an absent type is an empty set, the empty language or an empty tuple.

    Attributes:
        literals: of `"null"`, `"true"`, `"false"`.
        number: language of the number's text as JSON writes it (ASCII).
        string: language of the string's *decoded* content in code points, without quotes.
        arrays, objects: alternatives that may overlap; each has at least one instance.
    """

    literals: frozenset[str]
    number: Rx
    string: Rx
    arrays: tuple[ArrayShape, ...]
    objects: tuple[ObjectShape, ...]
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "literals", _LITERAL_SETS.setdefault(self.literals, self.literals))

    def __hash__(self) -> int:
        return self._hash or _hashed(self, (self.literals, self.number, self.string, self.arrays, self.objects))


def _hashed(shape: ObjectShape | ArrayShape | Alternatives, parts: tuple[object, ...]) -> int:
    """The hash of a shape, kept on it: shapes are large, and keys of many tables."""
    found = hash((type(shape), parts)) or 1
    object.__setattr__(shape, "_hash", found)
    return found


_LITERAL_SETS: dict[frozenset[str], frozenset[str]] = {}
"""Each of the eight, once: one set for each union would be as much work for the garbage collector as the unions are."""
