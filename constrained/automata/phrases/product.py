"""Phrases within any grammar: its machine and a `Follower` side by side.

A state is a state of the grammar's machine, what has been read of the phrases, and a *context*: what the frames below
make of the frame in use.  A frame is left with an outcome of the grammar and what has been read by then; the frame below goes
on from both.  So the text is of the grammar and the phrases are where they are, across the borders of frames and of tokens.

Some of these states lead nowhere: the rest would have to hold a banned phrase, or has no room for a required one.  An edge is
there only if a sentence is found that it leads to (`ways`), so masks are prefix-live.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from constrained.automata.configurations import PASSED_ON
from constrained.automata.context_free.special import expand_special
from constrained.automata.machine import Machine
from constrained.automata.phrases.borders import last_bytes, looks_alike
from constrained.automata.phrases.follower import DEAD, Follower
from constrained.automata.phrases.keys import expand_followed, expand_passing, resolve_followed
from constrained.automata.phrases.ways import EVERY, Edge, Ways
from constrained.automata.settling import reads_keys
from constrained.automata.strings import expand_string
from constrained.automata.transitions import Transitions
from constrained.automata.waits import outcomes
from constrained.kernels import tables as t
from grammars.context_free.letters import ascii_ranges

TOP, ROOT = 0, 1
"""Contexts: the frame may be left with anything; it is the outermost one, so all required phrases have to have come."""
_MOST_TRIED = 256
"""Ways to leave a frame that are looked at to see that all of them will do."""
QUOTE = 0x22

if TYPE_CHECKING:
    from constrained.automata.stacks import Stack


class Phrased:
    """The states of one grammar with phrases, on one machine; compared by identity.

    Attributes:
        machine: where the states are.
        follower: the automaton of the phrases.
        ways: what is known of which states lead to a sentence.
    """

    def __init__(self, machine: Machine, follower: Follower) -> None:
        self.machine = machine
        self.follower = follower
        self.ways = Ways(machine, self)
        self._contexts: list[tuple[int, int]] = [(0, 0), (0, 0)]
        self._context_numbers: dict[tuple[int, int], int] = {}
        self._stacks: dict[int, Stack] = {}
        self._chosen: dict[tuple[int, frozenset[int] | None, int], int] = {}
        self._pairs: list[tuple[int, int]] = machine.kept("outcomes with phrases", list)
        self._pair_numbers: dict[tuple[int, int], int] = machine.kept("numbers of outcomes with phrases", dict)
        self._edges: dict[tuple[int, int], tuple[Edge, ...]] = {}
        self._sets: dict[int, tuple[int, ...]] = {}
        self._quoted = any(QUOTE in phrase for phrase in (*follower.banned, *follower.required))

    def state(self, state: int, read: int, context: int) -> int:
        """The state that stands for one of the grammar, after as much of the phrases as `read` says."""
        machine = self.machine
        kind = int(machine.states[state, t.S_SLACK])
        expand = expand_passing if machine.key(state)[0] in PASSED_ON else expand_followed
        key = (expand, self, state, read, context)
        known = machine.known(key)
        if known is not None:
            return known
        made = machine.state(key)
        if kind == t.PASSING:
            machine.open(made, kind)
        elif machine.is_open(state):
            machine.open(made, kind)
            if reads_keys(machine, state):
                machine.reads_keys(made)
        else:
            self._rest(made, state, read, context)
        return made

    def _rest(self, made: int, state: int, read: int, context: int) -> None:
        """Declare what a state inside a string cannot be told from, so that walks of the trie are short."""
        machine = self.machine
        key = machine.key(state)
        if key[0] is not expand_string:
            return
        root = self.follower.root(read)
        if root != read:
            machine.rest_on(made, self.state(state, root, context), 0)
            return
        base, slack = int(machine.states[state, t.S_BASE]), int(machine.states[state, t.S_SLACK])
        if (
            base >= 0
            and looks_alike(key, slack)
            and context == TOP
            and not self._quoted
            and self.follower.is_final(read)
        ):
            machine.rest_on(made, self.state(base, read, context), slack)

    def expanded(self, machine: Machine, state: int, read: int, context: int) -> Transitions:
        """The transitions of such a state: those of the grammar after which a sentence is still to be had."""
        made = Transitions()
        for symbols, kind, operand, then, after in self.edges(state, read):
            if kind == t.GOTO:
                action = t.goto(self.state(operand, after, context)) if self.live(operand, after, context) else 0
            elif kind in (t.PUSH, t.PUSH_AFTER):
                inner = self.context(then, operand, context)
                action = 0
                if kind == t.PUSH or self.live(operand, after, inner):
                    push = t.push if kind == t.PUSH else t.push_after
                    wait = machine.state((resolve_followed, self, then, context))
                    action = push(self.state(operand, after, inner), wait, waits=True)
            else:
                action = 0
                # what a byte means to the frame below, that frame says itself, if it is one with phrases
                if (kind == t.POP_BEFORE and context != ROOT) or self.may_leave(context, operand, after):
                    pop = t.pop_before if kind == t.POP_BEFORE else t.pop_after
                    action = pop(self.pair(operand, after))
            if action:
                for low, high in ascii_ranges(symbols & EVERY_BYTE):
                    made.on(low, high, action)
                if symbols >> t.END_OF_TEXT:
                    made.at_end(action)
        return made

    def resolved(self, machine: Machine, outcome: int, then: int, context: int) -> int:
        """Where the frame below goes on; 0 if it does not."""
        inner, read = self._pairs[outcome]
        after = then if then >= 0 else machine.resolve(-1 - then, inner)
        return self.state(after, read, context) if after else 0

    def settled(self, state: int, read: int, context: int) -> int:
        """The state for one that a text has told from others; 0 if no sentence is left."""
        return self.state(state, read, context) if state and self.live(state, read, context) else 0

    def pair(self, outcome: int, read: int) -> int:
        """The outcome that says both what the grammar's frame was left with and what has been read."""
        number = self._pair_numbers.get((outcome, read))
        if number is None:
            number = self._pair_numbers[outcome, read] = len(self._pairs)
            self._pairs.append((outcome, read))
        return number

    def unpaired(self, outcome: int) -> int:
        """What the frame of the grammar was left with."""
        return self._pairs[outcome][0]

    def forget(self) -> None:
        """Let go what can be worked out again."""
        self._edges.clear()
        self._stacks.clear()

    def edges(self, state: int, read: int) -> tuple[Edge, ...]:
        """What a state does on each set of symbols: (symbols, kind of action, operand, `then` as in C_RETURN, read after it)."""
        found = self._edges.get((state, read))
        if found is None:
            found = self._edges[state, read] = tuple(self._joined(state, read))
        return found

    def _joined(self, state: int, read: int) -> list[Edge]:
        machine = self.machine
        machine.expand(state)
        number, block = int(machine.states[state, t.S_MAP]), int(machine.states[state, t.S_ACTIONS])
        sets = self._sets.get(number)
        if sets is None:
            sets = self._sets[number] = _sets_of(machine.maps[number * 256 : number * 256 + 256].tobytes())
        actions: dict[int, int] = {}
        for symbols, action in zip(sets, machine.actions[block : block + len(sets)].tolist(), strict=True):
            if action:
                actions[action] = actions.get(action, 0) | symbols
        splits = ((EVERY_BYTE, read),) if machine.key(state)[0] is expand_special else self.follower.split(read)
        edges: list[Edge] = []
        for action, symbols in actions.items():
            kind, operand = action >> t.KIND_SHIFT, action & t.OPERAND_MASK
            then = (action >> t.RETURN_SHIFT) & t.OPERAND_MASK
            then = -1 - then if action >> t.WAITS_BIT & 1 else then
            if kind in (t.PUSH, t.POP_BEFORE):
                edges.append((symbols, kind, operand, then if kind == t.PUSH else 0, read))
                continue
            for bits, after in splits:
                here = symbols & bits
                if here:
                    edges.append((here, kind, operand, then if kind == t.PUSH_AFTER else 0, after))
        return edges

    # --- contexts ---------------------------------------------------------------------------------------------------------

    def context(self, then: int, child: int, parent: int) -> int:
        """The context of a frame that is entered in the state `child` and returns to `then` in a frame in `parent`."""
        last = last_bytes(self.machine, child)
        key = (then, last, parent)
        found = self._chosen.get(key)
        if found is None:
            found = TOP if self._all_will_do(then, last, parent) else self._numbered(then, parent)
            self._chosen[key] = found
        return found

    def _numbered(self, then: int, parent: int) -> int:
        number = self._context_numbers.get((then, parent))
        if number is None:
            number = self._context_numbers[then, parent] = len(self._contexts)
            self._contexts.append((then, parent))
        return number

    def below(self, context: int) -> Stack:
        """The return states of the grammar that a context stands for, as far down as they matter."""
        found = self._stacks.get(context)
        if found is None:
            below = self.context_below(context)
            found = None if below is None else (below[0], self.below(below[1]))
            self._stacks[context] = found
        return found

    def _all_will_do(self, then: int, last: frozenset[int] | None, parent: int) -> bool:
        """Whether a sentence is to be had however the frame is left; False as well where it is too much to find out."""
        if last is None:
            return False
        machine = self.machine
        left_with = [0] if then >= 0 else outcomes(machine, -1 - then)
        if not left_with:
            return False
        reads = self.follower.ends(last, _MOST_TRIED // len(left_with))
        if reads is None:
            return False
        after = [then if then >= 0 else machine.resolve(-1 - then, outcome) for outcome in left_with]
        return all(one and self.live(one, read, parent) for read in reads for one in after)

    def context_below(self, context: int) -> tuple[int, int] | None:
        """Where a frame in a context returns to, as in C_RETURN, and the context of that frame; None if that does not matter."""
        return None if context in (TOP, ROOT) else self._contexts[context]

    def may_end(self, context: int, read: int) -> bool:
        """Whether a sentence is to be had if a frame in TOP or ROOT is left after what has been read."""
        return context == TOP or self.follower.is_final(read)

    def may_leave(self, context: int, outcome: int, read: int) -> bool:
        """Whether a sentence is to be had if the frame is left with an outcome, behind the last byte of the frame."""
        below = self.context_below(context)
        if below is None:
            return read != DEAD and self.may_end(context, read)
        then, parent = below
        after = then if then >= 0 else self.machine.resolve(-1 - then, outcome)
        return after != 0 and self.live(after, read, parent)

    def live(self, state: int, read: int, context: int) -> bool:
        """Whether a sentence is to be had from a state."""
        return read != DEAD and self.ways.live(state, read, context, EVERY)


EVERY_BYTE = EVERY & ~(1 << t.END_OF_TEXT)


def _sets_of(groups: bytes) -> tuple[int, ...]:
    """For each class of bytes the symbols in it, as bit sets; that of the dead class is the end of the text."""
    sets = [0] * (1 + max(groups))
    for byte, group in enumerate(groups):
        sets[group] |= 1 << byte
    sets[0] = 1 << t.END_OF_TEXT
    return tuple(sets)
