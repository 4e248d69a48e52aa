"""What is known of a JSON value while it is written: never more than the whole will hold."""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from typing import Any, Final, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import from_json

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
    """What makes partial instances of a type: models without the fields that have not come, other values as they are."""
    return lambda value: _made(source, value)


def _made(annotation: Any, value: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and isinstance(value, dict):
        return _model(annotation, value)
    arguments = get_args(annotation)
    origin = get_origin(annotation)
    if origin is list and isinstance(value, list):
        return [_made(arguments[0], item) for item in value]
    if origin is dict and isinstance(value, dict):
        return {key: _made(arguments[1], item) for key, item in value.items()}
    if origin in (Union, types.UnionType):
        options = [one for one in arguments if one is not type(None)]
        return _made(options[0], value) if len(options) == 1 else value
    if hasattr(annotation, "__metadata__"):  # Annotated[...]
        return _made(arguments[0], value)
    return value


def _model(model: type[BaseModel], value: dict[str, Any]) -> BaseModel:
    """An instance that holds the fields which have come; the others are not there, unlike those with a default."""
    fields: dict[str, Any] = {}
    for name, info in model.model_fields.items():
        for key in (info.alias, name):
            if key is not None and key in value:
                fields[name] = _made(info.annotation, value[key])
                break
    instance = model.model_construct(_fields_set=set(fields), **fields)
    for name in set(model.model_fields) - set(fields):
        instance.__dict__.pop(name, None)  # a default would look as if it had been written
    return instance
