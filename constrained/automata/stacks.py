"""Stacks as values, for searches over configurations that are no matcher's."""

from __future__ import annotations

from typing import Any

from constrained.automata.machine import Machine
from constrained.automata.settling import records

Stack = tuple[Any, ...] | None
"""Frames below as nested pairs: (return state, or -1 - wait state; the rest); None is the bottom.

Where texts have to be looked at, in this frame or below, a third item is what the frame has read: bytes, `UNKNOWN`, or None
if it does not matter.
"""
UNKNOWN = False


def depth_of(stack: Stack) -> int:
    """Frames of a stack."""
    depth = 0
    while stack is not None:
        depth += 1
        stack = stack[1]
    return depth


def pushed(machine: Machine, then: int, stack: Stack, text: bytes | bool) -> Stack:
    """The stack with one more frame, which has read `text`."""
    if records(machine, then):
        return (then, stack, text)
    return (then, stack) if stack is None or len(stack) == 2 else (then, stack, None)


def appended(stack: Stack, data: bytes) -> Stack:
    """The stack after `data` was read."""
    if stack is None or len(stack) == 2 or not data:
        return stack
    frames = []
    while stack is not None and len(stack) == 3:
        frames.append(stack)
        stack = stack[1]
    for then, _, text in reversed(frames):
        stack = (then, stack, text + data if isinstance(text, bytes) else text)
    return stack
