"""Where the arguments of a call end, found while they come."""

from __future__ import annotations

import re
from typing import Final

from grammars.tool_calls.pythonic import WORDS

_OF_NOTE: Final = re.compile(r'["\\{}\[\]]')
_JSON_WORDS: Final = {python: word for word, python in WORDS.items()}


class JsonArguments:
    """A JSON object, character by character as it is written."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self.is_whole = False

    def take(self, text: str) -> tuple[str, int]:
        """What of `text` belongs to the object, and how many characters those are."""
        position = 0
        if self._escaped and text:
            self._escaped, position = False, 1
        while match := _OF_NOTE.search(text, position):
            position = match.end()
            character = match.group()
            if character == "\\":
                if position == len(text):
                    self._escaped = True
                position += 1
            elif character == '"':
                self._in_string = not self._in_string
            elif not self._in_string:
                self._depth += 1 if character in "{[" else -1
                if self._depth == 0:
                    self.is_whole = True
                    return text[:position], position
        return text, len(text)


class KeywordArguments:
    """Python's keyword arguments up to the parenthesis that ends them, as a JSON object."""

    def __init__(self) -> None:
        self._held = "{"
        self._depth = 0
        self._in_string = self._escaped = False
        self._word = ""
        self.is_whole = False

    def take(self, text: str) -> tuple[str, int]:
        """What the characters of `text` add to the object, and how many of them belong to it."""
        written: list[str] = []
        for position, character in enumerate(text):
            if self._in_string:
                written.append(character)
                if self._escaped:
                    self._escaped = False
                elif character == "\\":
                    self._escaped = True
                elif character == '"':
                    self._in_string = False
                continue
            if character.isalnum() or character in "_.+-":  # a word, a number, a key
                self._word += character
                continue
            if character == "=" and self._depth == 0:
                written.append(f'"{self._word}": ')
                self._word = ""
                continue
            written.append(self._flushed())
            if character == ")" and self._depth == 0:
                self.is_whole = True
                return self._out(written) + "}", position
            self._depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(character, 0)
            self._in_string = character == '"'
            written.append(character)
        return self._out(written), len(text)

    def _flushed(self) -> str:
        word, self._word = self._word, ""
        return _JSON_WORDS.get(word, word)

    def _out(self, written: list[str]) -> str:
        held, self._held = self._held, ""
        return held + "".join(written)
