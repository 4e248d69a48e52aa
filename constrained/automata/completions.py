"""Shortest completions: best-first search over configurations of the machine (A*, Hart, Nilsson and Raphael 1968).

Where the search takes too long (bounds know nothing of how alternatives hang together), the frames are finished one by one
with texts that come from their shapes (`outlines`).  Such a text is a shortest one too where it is as short as the bounds say
that it must be; then nothing is searched.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any

from constrained.automata.a_labels import OPEN_STATES, certain, is_label
from constrained.automata.configurations import PASSED_ON, ConfigurationBounds
from constrained.automata.frame_costs import WayOut
from constrained.automata.known_texts import KnownTexts
from constrained.automata.lower_bounds import FAR, LowerBounds
from constrained.automata.machine import Machine, expand_literal
from constrained.automata.outlines import Outlines
from constrained.automata.scalars import numbers_at_hand
from constrained.automata.settling import is_doubtful, is_known, settled, textless
from constrained.automata.stacks import Stack, appended, depth_of, pushed
from constrained.kernels import tables as t
from constrained.kernels.tables import pop_before
from grammars.effort import spend
from grammars.errors import LimitExceeded

_MOST_STEPS = 20_000
_FEW_STEPS = 1_000
_EAGER = 8
"""What a byte that is still missing weighs in a search for any way, where that for a shortest one did not end."""
_STEPS_TO_IMPROVE = 300
"""Steps of the search for something shorter than what is known already."""
_MOST_ROUNDS = 20_000
"""Texts that one way to the end is put together from."""
_NEAREST = 3_000
"""Steps of the search for a way out of what the outlines know no text for."""
_MOST_ALIKE = 12
"""Configurations that differ in the texts of keys or items only, and are followed: each of them will do unless one of its
texts has to come again, so a few are as good as all."""
_PREFERRED = [*b'0a"}]', *range(0x30, 0x3A), *range(0x61, 0x7B), *range(0x20, 0x7F), *range(256)]


class Completions:
    """Shortest completions on one machine; call under the machine's lock."""

    def __init__(self, machine: Machine, spellable: frozenset[int] = frozenset(range(256))) -> None:
        """`spellable`: bytes that are tokens by themselves, preferred where a choice is free."""
        self._machine = machine
        self._preferred = [byte for byte in _PREFERRED if byte in spellable]
        self._preferred += [byte for byte in _PREFERRED if byte not in spellable]
        self._bounds = LowerBounds(machine)
        self._edges: dict[int, list[tuple[int, bytes]]] = {}
        self._textless: dict[int, Any] = {}
        self._holding: dict[int, tuple[Stack, bool]] = {}
        self._outlines = Outlines(machine)
        self._spellable = spellable
        self._any_key = False
        self.known = KnownTexts()

    def shortest(self, state: int, stack: Stack, *, thorough: bool = False) -> bytes:
        """One shortest text that leads from the configuration to the end of a sentence.

        Where that takes too long to find, a short one; `thorough`: it may take longer.

        Raises:
            LimitExceeded: none was found either.
        """
        if self._any_key:
            return self._found(state, stack, thorough=thorough)
        there = self.known.get((state, stack))
        if there is not None and (there.is_shortest or not thorough):
            return there.text
        text = self._found(state, stack, thorough=thorough)
        self.known.note((state, stack), text, is_shortest=False)
        return text

    def _found(self, state: int, stack: Stack, *, thorough: bool) -> bytes:
        """`shortest`, where it is not known."""
        passed: list[tuple[int, tuple[int, Stack]]] = []
        known = self._outlined(state, stack, passed)
        if known is not None:
            if len(known) <= ConfigurationBounds(self._bounds).of(state, stack):
                if not self._any_key:
                    self.known.note_rests(known, passed, is_shortest=True)
                return known
            if is_label(self._machine, state):
                return known
            steps = _MOST_STEPS if thorough else _STEPS_TO_IMPROVE
            found = self._search(state, stack, steps=steps, below=len(known))
            return known if found is None else found[0]
        parts: list[bytes] = []
        while True:
            found = self._search(state, stack) or self._search(state, stack, eagerness=_EAGER)
            if found is not None:
                return b"".join([*parts, found[0]])
            # leave the frame in use in the shortest way, which leaves a way to the end as all ways do, and look from there
            found = self._search(state, stack, leave=True) if stack is not None else None
            if found is None:
                raise LimitExceeded(f"no completion found within {_MOST_STEPS} steps of the search")
            part, state, stack = found
            parts.append(part)

    def near(self, state: int, stack: Stack) -> bytes | None:
        """A short text that leads to the end of a sentence, as far as one is found soon."""
        known = self._outlined(state, stack)
        if known is not None:
            return known
        found = self._search(state, stack, steps=_FEW_STEPS)
        return None if found is None else found[0]

    def _outlined(
        self, state: int, stack: Stack, passed: list[tuple[int, tuple[int, Stack]]] | None = None
    ) -> bytes | None:
        """A way to the end that leaves frame after frame as its shapes say; None where that is not known.

        The configurations that it goes through are appended to `passed`, with how many bytes have been read there.
        """
        done = self._machine.done
        bounds = ConfigurationBounds(self._bounds)
        parts: list[bytes] = []
        read = 0
        for _ in range(_MOST_ROUNDS):
            there = None if self._any_key else self.known.get((state, stack))
            if there is not None:
                data = b"".join([*parts, there.text])
                return data if self._spellable.issuperset(data) else None
            if passed is not None:
                passed.append((read, (state, stack)))
            if state == done and stack is None:
                data = b"".join(parts)
                return data if self._spellable.issuperset(data) else None
            nearest = self._nearest(state, stack, bounds)
            if nearest is not None:
                text, (state, stack) = nearest
            else:
                found = self._search(state, stack, steps=_NEAREST, leave=True)  # out of a character, an escape or a key
                if found is None:
                    return None
                text, state, stack = found
            parts.append(text)
            read += len(text)
        return None

    def way_out(self, state: int, cost: Callable[[int], int]) -> WayOut | None:
        """A shortest way out of the frame of `state`; None where shapes know none, or not that it is one.

        Args:
            cost: bytes from a state to the end of its frame; below 0: not known.
        """
        done = self._machine.done
        bounds = ConfigurationBounds(self._bounds)
        way = WayOut(self._machine, (done, None), cost)
        here: tuple[int, Stack] = state, way.ground
        least = bounds.of(*here)
        for _ in range(_MOST_ROUNDS):
            if here == (done, None):
                way.rest = 0
            if way.rest is not None:
                return way if way.length <= least else None
            found = self._nearest(*here, bounds, way)
            if found is None or not self._spellable.issuperset(found[0]):
                return None
            here = found[1]
        return None

    def _nearest(
        self, state: int, stack: Stack, bounds: ConfigurationBounds, way: WayOut | None = None
    ) -> tuple[bytes, tuple[int, Stack]] | None:
        """Of the texts that the shapes know here, the one from which it is the least to the end; and where it leads."""
        best: tuple[int, bytes, tuple[int, Stack], WayOut | None] | None = None
        numbers = numbers_at_hand(self._machine, state)
        for text in numbers or self._outlines.texts(state):
            taken = None if way is None else way.forked()
            if numbers:
                after = self._ended(state, appended(stack, text), numbers[text])
                if taken is not None:
                    taken.read += len(text)
            else:
                after = self._followed(state, stack, text, taken) if text else self._left(state, stack)
            if after is None:
                continue
            size = len(text) + bounds.of(*after)
            if way is not None and taken is not None and taken.rest is not None:
                size = taken.length - way.read
            if size < FAR and (best is None or size < best[0]):
                best = size, text, after, taken
        if best is not None:
            _, text, after, taken = best
            if way is not None and taken is not None:
                way.take(taken)
            return text, after
        return None

    def _followed(self, state: int, stack: Stack, data: bytes, way: WayOut | None = None) -> tuple[int, Stack] | None:
        """Where a text leads; None if it is not allowed, or takes keys or items that are not known.

        With a `way`, it is noted there, and followed as far as its end is not known.
        """
        machine = self._machine
        at = 0
        while at < len(data):
            if way is not None and way.ends_at(state, stack, at):
                return state, stack
            key = machine.key(state)
            if key[0] is expand_literal:
                _, literal, then, offset = key
                rest = literal[offset : offset + len(data) - at]
                if not data.startswith(rest, at):
                    return None
                state = then if offset + len(rest) == len(literal) else state + len(rest)
                stack = appended(stack, rest)
                at += len(rest)
                continue
            action = machine.action(state, data[at])
            step = self._taken(state, action, data[at : at + 1], stack) if action else None
            if step is None:
                return None
            read, (state, stack) = step
            at += len(read)
        if way is not None:
            way.read += at
        return state, stack

    def _ended(self, state: int, stack: Stack, outcome: int) -> tuple[int, Stack] | None:
        """Where a number that has been read to its end leads, without a look at the states on the way."""
        step = self._taken(state, pop_before(outcome), b"", stack)
        return None if step is None else step[1]

    def _left(self, state: int, stack: Stack) -> tuple[int, Stack] | None:
        """Where the end of the text leads."""
        step = self._taken(state, self._machine.transitions(state).actions[0], b"", stack)
        return None if step is None else step[1]

    def _search(
        self,
        state: int,
        stack: Stack,
        *,
        leave: bool = False,
        steps: int = _MOST_STEPS,
        below: int = FAR,
        eagerness: int = 1,
    ) -> tuple[bytes, int, Stack] | None:
        """A shortest way to the end, or to where the frame in use is left, and where it leads.

        None: it is too far to see, or as long as `below` or longer.  With more `eagerness` it is sooner found, and no shortest
        one.
        """
        self._holding.clear()
        ground = depth_of(stack) - 1 if leave else -1
        bounds = ConfigurationBounds(self._bounds)
        start = (state, stack)
        queue: list[tuple[int, int, int, tuple[int, Stack]]] = [(bounds.of(state, stack), 0, 0, start)]
        passed = bounds.below(stack[1]) if leave and stack is not None else 0
        came: dict[tuple[int, Stack], tuple[tuple[int, Stack], bytes] | None] = {start: None}
        spent: dict[tuple[int, Stack], int] = {start: 0}
        closed: set[tuple[int, Stack]] = set()
        alike: dict[Any, int] = {}
        order = 0
        may_meet = not leave and not self._any_key and eagerness == 1
        while queue:
            _, _, _, node = heapq.heappop(queue)
            if node in closed:
                continue
            closed.add(node)
            kind = self._without_texts(*node)
            if kind is not None:
                alike[kind] = alike.get(kind, 0) + 1
                if alike[kind] > _MOST_ALIKE:
                    may_meet = False  # what is found is short, and not known to be a shortest one
                    continue
            if len(closed) > steps:
                break
            spend()
            if (depth_of(node[1]) <= ground) if leave else (node[0] == self._machine.done and node[1] is None):
                if may_meet:
                    self._note_path(came, node, b"")
                return _path(came, node), *node
            there = self.known.get(node) if may_meet else None
            if there is not None and there.is_shortest:
                self._note_path(came, node, there.text)
                return _path(came, node) + there.text, self._machine.done, None
            for label, after in self._steps(*node):
                cost = spent[node] + len(label)
                if cost < spent.get(after, FAR):
                    left = bounds.of(*after)
                    if may_meet and (there := self.known.get(after)) is not None and there.is_shortest:
                        left = len(there.text)
                    if left >= FAR or cost + left >= below:
                        continue
                    if leave:
                        left = 0 if depth_of(after[1]) <= ground else left - passed
                    spent[after] = cost
                    came[after] = (node, label)
                    order += 1
                    # of equally good ones the furthest along first, and of those the latest
                    heapq.heappush(queue, (cost + eagerness * left, left, -order, after))
        return None

    def _note_path(
        self,
        came: dict[tuple[int, Stack], tuple[tuple[int, Stack], bytes] | None],
        node: tuple[int, Stack],
        rest: bytes,
    ) -> None:
        """Keep what a shortest completion, of which `rest` is what is left at `node`, is for those before it."""
        step: tuple[tuple[int, Stack], bytes] | None = node, b""
        while step is not None:
            node, label = step
            rest = label + rest
            self.known.note(node, rest, is_shortest=True)
            step = came[node]

    def _without_texts(self, state: int, stack: Stack) -> Any:
        """The configuration without the texts of keys and items; None if there are none."""
        if (stack is None or len(stack) == 2) and not self._texts_of(state) and not self._stack_holds_texts(stack):
            return None
        frames = []
        while stack is not None:
            then = stack[0]
            frames.append(self._texts_of(then if then >= 0 else -1 - then) or then)
            stack = stack[1]
        return (self._texts_of(state) or state, *frames)

    def _stack_holds_texts(self, stack: Stack) -> bool:
        """Whether a frame below knows texts; remembered by the part of the stack, which many configurations share."""
        passed = []
        holds = False
        while stack is not None:
            known = self._holding.get(id(stack))
            if known is not None:
                holds = known[1]
                break
            passed.append(stack)
            then = stack[0]
            if self._texts_of(then if then >= 0 else -1 - then):
                holds = True
                break
            stack = stack[1]
        # The stack is kept with the answer, so that its number stays its own.
        self._holding.update((id(part), (part, holds)) for part in passed)
        return holds

    def _texts_of(self, state: int) -> Any:
        """What identifies the state but for the texts that it knows; None if it knows none."""
        if state not in self._textless:
            self._textless[state] = textless(self._machine, state)
        return self._textless[state]

    def leaving(self, state: int) -> bytes:
        """A shortest way from `state` to the end of its frame."""
        done = self._machine.done
        return b"" if state == done else self.shortest(state, (done, None))

    def shortest_by_any_key(self, state: int, stack: Stack) -> bytes:
        """`shortest`, where one key may be one that has come before."""
        self._any_key = True
        try:
            return self.shortest(state, stack)
        finally:
            self._any_key = False

    def _steps(self, state: int, stack: Stack) -> Iterator[tuple[bytes, tuple[int, Stack]]]:
        """Edges of a configuration; those that consume nothing have an empty label."""
        machine = self._machine
        key = machine.key(state)
        if key[0] is expand_literal:
            _, data, then, offset = key
            yield data[offset:], (then, appended(stack, data[offset:]))
            return
        if key[0] in PASSED_ON:
            yield from self._reading(state, stack)
            return
        edges = self._edges.get(state)
        if edges is None:
            made = machine.transitions(state)
            edges = [(made.actions[0], b"")] if made.actions[0] else []
            seen = {0}
            for byte in self._preferred:
                group = made.groups[byte]
                if group not in seen:
                    seen.add(group)
                    edges.append((made.actions[group], bytes([byte])))
            self._edges[state] = edges
        for action, label in edges:
            step = self._taken(state, action, label, stack)
            if step is not None:
                yield step

    def _taken(self, state: int, action: int, label: bytes, stack: Stack) -> tuple[bytes, tuple[int, Stack]] | None:
        """What an action on a byte (or on the end of the text) has read, and where it leads; None: nowhere."""
        machine = self._machine
        kind = action >> t.KIND_SHIFT
        operand = action & t.OPERAND_MASK
        if kind == t.GOTO:
            if is_doubtful(machine, operand):
                in_label = label and machine.key(operand)[0] in OPEN_STATES
                operand = certain(machine, state, operand, label[0]) if in_label else 0
            return (label, (operand, appended(stack, label))) if operand else None
        if kind in (t.PUSH, t.PUSH_AFTER):
            then = (action >> t.RETURN_SHIFT) & t.OPERAND_MASK
            waits = (action >> t.WAITS_BIT) & 1
            read = label if kind == t.PUSH_AFTER else b""
            return read, (operand, pushed(machine, -1 - then if waits else then, appended(stack, read), read))
        if kind not in (t.POP_AFTER, t.POP_BEFORE) or stack is None:
            return None
        then, rest = stack[:2]
        read = label if kind == t.POP_AFTER else b""
        after = then if then >= 0 else machine.resolve(-1 - then, operand)
        if not self._any_key and not is_known(machine, then, operand):
            return None  # keys that have to be told from others are not needed
        if machine.is_open(after) and len(stack) == 3 and isinstance(stack[2], bytes):
            after = settled(machine, after, then, stack[2] + read)
        return (read, (after, appended(rest, read))) if after else None

    def _reading(self, state: int, stack: Stack) -> Iterator[tuple[bytes, tuple[int, Stack]]]:
        """Edges that read a byte, through all frames that are entered and left before it, and those at the end of the text.

        A frame may be left before some bytes only: what follows has to begin with one of them.
        """
        machine = self._machine
        every = frozenset(range(t.END_OF_TEXT + 1))
        waiting: list[tuple[int, Stack, frozenset[int]]] = [(state, stack, every)]
        while waiting:
            state, stack, symbols = waiting.pop()
            if state == machine.done and stack is None:
                if t.END_OF_TEXT in symbols:
                    yield b"", (state, None)
                continue
            if machine.key(state)[0] not in PASSED_ON and symbols is every:
                yield b"", (state, stack)
                continue
            made = machine.transitions(state)
            chosen: dict[int, list[int]] = {}
            for symbol in symbols:
                action = made.actions[0] if symbol == t.END_OF_TEXT else made.actions[made.groups[symbol]]
                if action and (symbol == t.END_OF_TEXT or made.groups[symbol]):
                    chosen.setdefault(action, []).append(symbol)
            for action, taken in chosen.items():
                kind = action >> t.KIND_SHIFT
                operand = action & t.OPERAND_MASK
                rest = frozenset(taken)
                label = next((bytes([byte]) for byte in self._preferred if byte in rest), b"")
                if kind == t.GOTO:
                    yield label, (operand, appended(stack, label))
                elif kind in (t.PUSH, t.PUSH_AFTER):
                    then = (action >> t.RETURN_SHIFT) & t.OPERAND_MASK
                    then = -1 - then if (action >> t.WAITS_BIT) & 1 else then
                    if kind == t.PUSH:
                        waiting.append((operand, pushed(machine, then, stack, b""), rest))
                    else:
                        yield label, (operand, pushed(machine, then, appended(stack, label), label))
                elif kind in (t.POP_AFTER, t.POP_BEFORE) and stack is not None:
                    then, under = stack[:2]
                    after = then if then >= 0 else machine.resolve(-1 - then, operand)
                    if after and kind == t.POP_BEFORE:
                        waiting.append((after, under, rest))
                    elif after:
                        yield label, (after, appended(under, label))


def _path(came: dict[tuple[int, Stack], tuple[tuple[int, Stack], bytes] | None], node: tuple[int, Stack]) -> bytes:
    parts = []
    while (step := came[node]) is not None:
        node, label = step
        parts.append(label)
    return b"".join(reversed(parts))
