"""What is known of a JSON value while it is written: never more than the whole will hold."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Collection, Iterable, Mapping, MutableSequence, Sequence
from dataclasses import is_dataclass
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic_core import from_json
from typing_extensions import is_typeddict

_NUMBER_AT_END: Final = re.compile(r"(?<![a-z])-?[0-9][-+.0-9eE]*\Z|-\Z")
_OF_NOTE: Final = re.compile(r'["\\]')


class PartialJson:
    """A JSON text that comes in pieces.

    Members and items appear as they begin, strings grow, and numbers appear once they cannot grow any more.
    """

    def __init__(self, typed: Callable[[Any], Any] = lambda value: value) -> None:
        """`typed` makes the caller's type of a plain value."""
        self._typed = typed
        self._text = ""
        self._read = 0
        self._in_string = False
        self._value: Any = None

    def push(self, piece: str) -> Any:
        """The value so far; `None` where nothing is known yet."""
        if not piece:
            return self._value
        self._text += piece
        self._follow()
        text = self._text if self._in_string else _NUMBER_AT_END.sub("", self._text)
        try:
            self._value = self._typed(from_json(text, allow_partial="trailing-strings"))
        except ValueError:  # nothing has begun
            self._value = None
        return self._value

    def _follow(self) -> None:
        """Keeps track of whether the text ends inside a string."""
        while match := _OF_NOTE.search(self._text, self._read):
            if match.group() == "\\":
                if match.end() == len(self._text):
                    self._read = match.start()  # what it escapes is still to come
                    return
                self._read = match.end() + 1
            else:
                self._in_string = not self._in_string
                self._read = match.end()
        self._read = len(self._text)


def typed_as(source: Any) -> Callable[[Any], Any]:
    """What makes partial instances of a type: models without the fields that have not come; dataclasses and typed dicts as dicts,
    since an instance without its fields could not even be printed; other values, and those of which it is still open what they
    will be, as they are."""
    return lambda value: _made(source, value)


def _made(annotation: Any, value: Any) -> Any:
    if isinstance(value, dict) and (fields := _fields(annotation)) is not None:
        return _instance(annotation, fields, value)
    arguments = get_args(annotation)
    origin = get_origin(annotation)
    if hasattr(annotation, "__metadata__"):  # Annotated[...]
        return _made(arguments[0], value)
    if origin in (Union, types.UnionType):
        return _made(_meant(arguments, value), value)
    if isinstance(value, dict) and origin is not None and issubclass(origin, Mapping) and len(arguments) == 2:
        return {key: _made(arguments[1], item) for key, item in value.items()}
    if not isinstance(value, list) or not arguments:
        return value
    if origin is tuple:
        own = (*arguments[:1],) * len(value) if arguments[-1] is Ellipsis else arguments
        return tuple(_made(one, item) for one, item in zip(own, value, strict=False))
    if origin is list or origin in (Sequence, Iterable, MutableSequence, Collection):
        return [_made(arguments[0], item) for item in value]
    return value


def _fields(annotation: Any) -> dict[str, tuple[tuple[str, ...], Any]] | None:
    """By attribute: the keys under which a field may come, and its type; `None` for what has no fields."""
    if not isinstance(annotation, type):
        return None
    if issubclass(annotation, BaseModel):
        return {
            name: (tuple(key for key in (info.alias, name) if key is not None), info.annotation)
            for name, info in annotation.model_fields.items()
        }
    if is_dataclass(annotation) or is_typeddict(annotation):
        return {name: ((name,), kind) for name, kind in get_type_hints(annotation, include_extras=True).items()}
    return None


def _instance(kind: Any, fields: dict[str, tuple[tuple[str, ...], Any]], value: dict[str, Any]) -> Any:
    """An instance that holds the fields which have come; the others are not there, unlike those with a default."""
    come: dict[str, Any] = {}
    for name, (keys, annotation) in fields.items():
        key = next((key for key in keys if key in value), None)
        if key is not None:
            come[name] = _made(annotation, value[key])
    if not issubclass(kind, BaseModel):
        return {**value, **come}
    instance = kind.model_construct(_fields_set=set(come), **come)
    for name in set(fields) - set(come):
        instance.__dict__.pop(name, None)  # a default would look as if it had been written
    return instance


def _meant(options: tuple[Any, ...], value: Any) -> Any:
    """The only option that a value may still become an instance of; `None` where it is open."""
    options = tuple(one for one in options if one is not type(None))
    if len(options) == 1:
        return options[0]
    if not isinstance(value, dict):
        return None
    fitting = [one for one in options if (fields := _fields(one)) is not None and _fits(fields, value)]
    return fitting[0] if len(fitting) == 1 else None


def _fits(fields: dict[str, tuple[tuple[str, ...], Any]], value: dict[str, Any]) -> bool:
    kinds = {key: annotation for keys, annotation in fields.values() for key in keys}
    for key, item in value.items():
        if key not in kinds:
            return False
        if get_origin(kinds[key]) is Literal and not any(
            one.startswith(item) if isinstance(one, str) and isinstance(item, str) else one == item
            for one in get_args(kinds[key])
        ):
            return False
    return True
