"""The outgoing edges of one state while it is being expanded."""

from __future__ import annotations

_FILL = [bytes([group]) * 256 for group in range(256)]


class Transitions:
    """Byte ranges to actions.  A later edge overrides an earlier one on the bytes that both name.

    Attributes:
        groups: class of each byte, 0 is dead; a `bytes` is copied when it is first changed.
        actions: the action at the end of the text (0: the text may not end), then the action of each class.
    """

    __slots__ = ("_numbers", "actions", "groups")

    def __init__(self, groups: bytes | bytearray = bytes(256), actions: list[int] | None = None) -> None:
        """No edges, or those of the given classes."""
        self.groups = groups
        self.actions = [0] if actions is None else actions
        self._numbers: dict[int, int] | None = None

    @classmethod
    def copied(cls, groups: bytes, actions: list[int]) -> Transitions:
        """The same edges again, to be changed."""
        return cls(groups, actions)

    def on(self, low: int, high: int, action: int) -> None:
        """Bytes `low` to `high`, both included, take `action`."""
        numbers = self._numbers
        if numbers is None:
            numbers = self._numbers = {action: number for number, action in enumerate(self.actions) if number}
        number = numbers.get(action)
        if number is None:
            number = numbers[action] = len(self.actions)
            self.actions.append(action)
        groups = self.groups
        if isinstance(groups, bytes):
            groups = self.groups = bytearray(groups)
        if low == high:
            groups[low] = number
        else:
            groups[low : high + 1] = _FILL[number][: high + 1 - low]

    def off(self, byte: int) -> None:
        """The byte is not allowed after all."""
        groups = bytearray(self.groups)
        groups[byte] = 0
        self.groups = groups

    def otherwise(self, action: int) -> None:
        """Every byte without an edge so far takes `action`."""
        number = len(self.actions)
        self.actions.append(action)
        self._numbers = None
        self.groups = self.groups.replace(b"\0", _FILL[number][:1])

    def at_end(self, action: int) -> None:
        """What happens where the text ends here."""
        self.actions[0] = action
