"""Values without some constants: what `uniqueItems` leaves of an item once others have been seen.

A constant is known by its key, which is equal for two JSON values exactly where JSON Schema calls them equal (the keys of
`grammars.json_schema.scalars.equality_key`): texts, decimals, `(None,)`, `(True,)`, `(False,)`, `("[", *items)`, and
frozen sets of (name, key) for objects.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from constrained.automata.excluded import ArrayBut, ObjectBut
from grammars import regular
from grammars.json_schema.formulas import LOCK, Node
from grammars.json_schema.instances import instances
from grammars.json_schema.numbers import INTEGER, MEASURED, NUMBER, equal_number_rx, other_number_rx
from grammars.json_schema.object_algebra import has
from grammars.json_schema.scalars import equality_key
from grammars.json_schema.shapes import Alternatives, ArrayShape, ObjectShape, Property, Value
from grammars.memory import remembered
from grammars.regular import NONE, Rx

Key = Hashable
Keys = frozenset[Key]
NO_KEYS: Keys = frozenset()
_NAMES = {None: "null", True: "true", False: "false"}
_DEPTH = 4
_FARTHEST = 10**18 - 1
_MOST_PLAIN = 2_000
"""Numbers up to so many digits are looked up as plain decimals too; languages hold the normalised ones otherwise."""


def parsed(text: bytes) -> Any:
    """A JSON text, numbers as exact decimals."""
    return _DECODER.decode(text.decode())


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent of 19 digits or more: all that are as far out count as equal
        mantissa, _, exponent = text.lower().partition("e")
        sign = "-" if mantissa.startswith("-") else ""
        return (
            Decimal(f"{sign}1e{'-' if exponent.startswith('-') else ''}{_FARTHEST}")
            if Decimal(mantissa)
            else Decimal(0)
        )


_DECODER = json.JSONDecoder(parse_int=_decimal, parse_float=_decimal)


def key_of(value: Any) -> Key:
    """The key of a parsed JSON value."""
    return equality_key(value)


def is_array(key: Key) -> bool:
    """Whether the key is that of an array."""
    return isinstance(key, tuple) and key[0] == "["


def text_size(key: Key) -> int:
    """Bytes of a short text of the constant, at most as many as the shortest has."""
    if isinstance(key, str):
        return 2 + len(key)
    if isinstance(key, Decimal):
        return 1
    if isinstance(key, frozenset):
        return 1 + max(1, sum(4 + len(name) + text_size(item) for name, item in key))
    items = cast("tuple[Any, ...]", key)
    if items[0] == "[":
        return 1 + max(1, sum(1 + text_size(item) for item in items[1:]))
    return len(_NAMES[items[0]])


@dataclass(frozen=True, slots=True)
class Among:
    """One of finitely many constants."""

    keys: Keys
    pointer: str = field(default="", compare=False)

    def alternatives(self) -> Alternatives:
        return _among(self.keys)

    def is_empty(self) -> bool:
        return not self.keys


@remembered(4096)
def _among(keys: Keys) -> Alternatives:
    numbers = [equal_number_rx(key) for key in keys if isinstance(key, Decimal)]
    arrays = [cast("tuple[Any, ...]", key)[1:] for key in keys if is_array(key)]
    objects = [key for key in keys if isinstance(key, frozenset)]
    return Alternatives(
        frozenset(_NAMES[key[0]] for key in keys if isinstance(key, tuple) and key[0] != "["),
        regular.union(*numbers) if numbers else NONE,
        _texts(keys),
        tuple(
            ArrayShape(tuple(Among(frozenset([item])) for item in items), Among(NO_KEYS), len(items))
            for items in arrays
        ),
        tuple(
            ObjectShape(
                tuple(
                    Property(name, Among(frozenset([item])), True) for name, item in sorted(pairs, key=lambda p: p[0])
                ),
                (),
            )
            for pairs in objects
        ),
    )


def _texts(keys: Iterable[Key]) -> Rx:
    texts = [key for key in keys if isinstance(key, str)]
    return regular.literals(texts) if texts else NONE


@dataclass(frozen=True, slots=True)
class But:
    """A value other than certain constants; make one with `but`."""

    value: Node
    excluded: Keys

    @property
    def pointer(self) -> str:
        return self.value.pointer

    def alternatives(self) -> Alternatives:
        return _but(self.value, self.excluded)

    def is_empty(self) -> bool:
        return not has_other(self.value, self.excluded)


def but(value: Value, excluded: Keys) -> Value:
    """`value`, a node, without constants."""
    return But(cast(Node, value), excluded) if excluded else value


@remembered(4096)
def _but(value: Node, excluded: Keys) -> Alternatives:
    base = value.alternatives()
    string, number = base.string, base.number
    texts = _texts(excluded)
    if string is not NONE and texts is not NONE:
        string = _reduced(regular.difference(string, texts))
    if number is not NONE:
        number = _other_numbers(number, [key for key in excluded if isinstance(key, Decimal)])
    names = frozenset(_NAMES[key[0]] for key in excluded if isinstance(key, tuple) and key[0] != "[")
    tuples = [key for key in excluded if is_array(key)]
    sets = [key for key in excluded if isinstance(key, frozenset)]
    arrays: list[ArrayShape] = []
    for array in base.arrays:
        here = frozenset(key for key in tuples if array_admits(array, key))
        arrays.append(cast(ArrayShape, ArrayBut(array, here)) if here else array)
    objects: list[ObjectShape] = []
    for members in base.objects:
        here = frozenset(key for key in sets if object_admits(members, key))
        objects.append(cast(ObjectShape, ObjectBut(members, here)) if here else members)
    return Alternatives(base.literals - names, number, string, tuple(arrays), tuple(objects))


def _other_numbers(rx: Rx, excluded: list[Decimal]) -> Rx:
    """The numbers of a language that are equal to none of the excluded ones.

    Once a number was seen that plain texts of a sensible length cannot write, only such texts are left: to tell 1e66000
    from its plain decimals takes as many states as those have digits.
    """
    wild = [key for key in excluded if _is_wild(key)]
    if wild:
        tame = _reduced(regular.intersect(rx, _TAME))
        if tame is not NONE:
            rx, excluded = tame, [key for key in excluded if not _is_wild(key)]
    if not excluded:
        return rx
    return _reduced(regular.intersect(rx, other_number_rx(regular.union(*map(equal_number_rx, excluded)))))


def is_wild(key: Key) -> bool:
    """Whether a number occurs in a constant that cannot be told from others within a sensible number of states."""
    if isinstance(key, Decimal):
        return _is_wild(key)
    if isinstance(key, frozenset):
        return any(is_wild(item) for _, item in key)
    return isinstance(key, tuple) and any(map(is_wild, key))


def _is_wild(number: Decimal) -> bool:
    """Whether `_TAME` holds no text of the number."""
    _, digits, exponent = number.as_tuple()
    last = next((at for at, digit in enumerate(reversed(digits)) if digit), 0)
    return bool(number) and (number.adjusted() > 38 or cast(int, exponent) + last < -38)


_DIGIT, _SIGN = regular.chars([(0x30, 0x39)]), regular.repeat(regular.literal("-"), 0, 1)
_EXPONENT = regular.concat(
    regular.chars([(0x45, 0x45), (0x65, 0x65)]),
    regular.repeat(regular.chars([(0x2B, 0x2B), (0x2D, 0x2D)]), 0, 1),
    _DIGIT,
)
_TAME = regular.concat(
    _SIGN,
    regular.union(regular.literal("0"), regular.concat(regular.chars([(0x31, 0x39)]), regular.repeat(_DIGIT, 0, 29))),
    regular.repeat(regular.concat(regular.literal("."), regular.repeat(_DIGIT, 1, 29)), 0, 1),
    regular.repeat(_EXPONENT, 0, 1),
)


def _reduced(rx: Rx) -> Rx:
    return NONE if regular.is_empty(rx) else rx


# ---- membership


def admits(value: Value, key: Key) -> bool:
    """Whether a value admits the constant."""
    if isinstance(value, Among):
        return key in value.keys
    if isinstance(value, But):
        return key not in value.excluded and admits(value.value, key)
    here = value.alternatives()
    if isinstance(key, str):
        return here.string is not NONE and has(here.string, key)
    if isinstance(key, Decimal):
        return here.number is not NONE and _is_number_of(here.number, key)
    if isinstance(key, frozenset):
        return any(object_admits(shape, key) for shape in here.objects)
    if is_array(key):
        return any(array_admits(shape, key) for shape in here.arrays)
    return _NAMES[cast("tuple[Any]", key)[0]] in here.literals


@remembered(4096)
def _is_number_of(rx: Rx, number: Decimal) -> bool:
    if rx is NUMBER or rx is MEASURED or (rx is INTEGER and number == number.to_integral_value()):
        return True
    sign, digits, _ = number.as_tuple()
    text = "".join(map(str, digits)).strip("0") or "0"
    mantissa = text[0] + ("." + text[1:] if text[1:] else "")
    written = ("-" if sign and number else "") + mantissa + (f"e{number.adjusted()}" if number else "")
    if regular.matches(rx, written):
        return True
    return abs(number.adjusted()) < _MOST_PLAIN and regular.matches(rx, f"{number:f}")


def array_admits(shape: ArrayShape, key: Key) -> bool:
    """Whether the array is of the shape."""
    items = cast("tuple[Any, ...]", key)[1:]
    if len(items) < shape.min_items or (shape.max_items is not None and len(items) > shape.max_items):
        return False
    for index, item in enumerate(items):
        if not admits(shape.prefix[index] if index < len(shape.prefix) else shape.rest, item):
            return False
    different = len(set(items)) == len(items)
    if (shape.unique and not different) or (shape.repeated and different):
        return False
    for count in shape.counts:
        number = sum(admits(count.value, item) for item in items[count.start :])
        if number < count.least or (count.most is not None and number > count.most):
            return False
    return True


def object_admits(shape: ObjectShape, key: Key) -> bool:
    """Whether the object is of the shape."""
    members: dict[str, Key] = dict(cast("frozenset[Any]", key))
    if len(members) < shape.min_properties or (
        shape.max_properties is not None and len(members) > shape.max_properties
    ):
        return False
    declared = {one.name: one for one in shape.properties}
    if any(one.required and one.name not in members for one in shape.properties):
        return False
    for name, item in members.items():
        if name in declared:
            value: Value | None = declared[name].value
        else:
            value = next((group.value for group in shape.groups if has(group.names, name)), None)
        if value is None or not admits(value, item):
            return False
    return all(
        any(has(one.names, name) and admits(one.value, item) for name, item in members.items())
        for one in shape.witnesses
    )


# ---- how many there are


@remembered(16384)
def has_other(value: Node, excluded: Keys) -> bool:
    """Whether a value admits anything beside the excluded constants.

    Raises:
        LimitExceeded: that takes too many steps to tell.
    """
    if value.is_empty():
        return False
    if not excluded or has_more(value, len(excluded)):
        return True
    return any(key not in excluded for key in some_keys(value, len(excluded) + 1))


def some_keys(value: Node, number: int) -> tuple[Key, ...]:
    """Different constants of a value: at least `number`, or all."""
    return _some_keys(value, 4 << max(0, (number - 1).bit_length() - 2))


def _some_keys(value: Node, number: int) -> tuple[Key, ...]:
    return tuple([key for key, _ in _some_instances(value, number)])


@remembered(4096)
def _some_instances(value: Node, number: int) -> tuple[tuple[Key, int], ...]:
    with LOCK:
        return tuple([(one.key, len(one.text.encode())) for one in instances(value, number)])


def least_sizes(value: Node, excluded: Keys, number: int) -> list[int] | None:
    """Bytes of that many different constants of a value beside the excluded ones, if they are scalars; else None."""
    here = value.alternatives()
    if here.arrays or here.objects:
        return None
    wanted = len(excluded) + number
    found = [
        size for key, size in _some_instances(value, 4 << max(0, (wanted - 1).bit_length() - 2)) if key not in excluded
    ]
    return found[:number]


def has_more(value: Value, number: int, depth: int = _DEPTH) -> bool:
    """A cheap sufficient test that a value has more than `number` different constants."""
    if value.is_empty() or isinstance(value, Among | But):
        return False
    here = value.alternatives()
    if here.number is NUMBER or here.number is INTEGER:
        return True
    if here.string is not NONE and regular.words(here.string, number) is None:
        return True
    if depth == 0:
        return False
    return any(_more_arrays(shape, number, depth - 1) for shape in here.arrays) or any(
        _more_objects(shape, number, depth - 1) for shape in here.objects
    )


def _more_arrays(shape: ArrayShape, number: int, depth: int) -> bool:
    if shape.counts or shape.unique or shape.repeated:
        return False
    if shape.max_items is None and not shape.rest.is_empty() and not any(item.is_empty() for item in shape.prefix):
        return True
    items = [*shape.prefix, shape.rest][: shape.min_items]
    return any(has_more(item, number, depth) for item in items)


def _more_objects(shape: ObjectShape, number: int, depth: int) -> bool:
    if shape.witnesses:
        return False
    free = shape.max_properties is None
    if any((one.required or free) and has_more(one.value, number, depth) for one in shape.properties):
        return True
    return free and any(not group.value.is_empty() and regular.is_endless(group.names) for group in shape.groups)
