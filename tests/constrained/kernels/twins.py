"""The machine of the kernels, said again in plain Python over dictionaries, and random machines to run both on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from constrained.automata.machine import Machine
from constrained.automata.transitions import Transitions
from constrained.kernels import tables as t
from constrained.limits import Limits
from constrained.vocabulary import Vocabulary

TINY = Limits(states=4_000, stack_depth=60, bytes=1 << 16)
ALPHABET = b"ab,]"

Stack = tuple[tuple[str, bool], ...]
Configuration = tuple[str, Stack]
"""A state's name, and (what to return to, whether that is a wait state) from the top down."""

Action = tuple[str, str] | tuple[str, int] | tuple[str, str, str, bool]
"""("goto", state), ("pop_after" | "pop_before", outcome), ("push" | "push_after", child, then, waits)."""


@dataclass
class Spec:
    """A machine by names.  A wait state is a pair of a name and what each outcome leads to."""

    edges: dict[str, dict[int, Action]] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    waits: dict[str, dict[int, str]] = field(default_factory=dict)
    bases: dict[str, tuple[str, int]] = field(default_factory=dict)

    def step(self, configuration: Configuration, symbol: int) -> Configuration | bool | None:
        """After one symbol (256: the end of the text, True if it may end); None if refused."""
        state, stack = configuration
        while True:
            if state == "done":
                return True if symbol == 256 else None
            if symbol == 256:
                action = ("pop_before", self.ends[state]) if state in self.ends else None
            else:
                action = self.edges[state].get(symbol)
            if action is None:
                return None
            if action[0] == "goto":
                return action[1], stack
            if action[0] in ("push", "push_after"):
                _, state, then, waits = action
                stack = ((then, waits), *stack)
                if action[0] == "push_after":
                    return state, stack
                continue
            (then, waits), *rest = stack
            stack = tuple(rest)
            state = self.waits[then][action[1]] if waits else then
            if action[0] == "pop_after":
                return state, stack

    def run(self, configuration: Configuration, data: bytes) -> Configuration | None:
        """After several bytes."""
        for byte in data:
            after = self.step(configuration, byte)
            if after is None or after is True:
                return None
            configuration = after
        return configuration

    def allowed(self, configuration: Configuration, vocabulary: Vocabulary) -> set[int]:
        """The mask, token by token."""
        tokens = {
            token for token, data in enumerate(vocabulary.tokens) if data and self.run(configuration, data) is not None
        }
        return tokens | set(vocabulary.eos_token_ids) if self.step(configuration, 256) is True else tokens


def _expand(machine: Machine, name: str, loaded: Loaded) -> Transitions:
    made = Transitions()
    for byte, action in loaded.spec.edges[name].items():
        made.on(byte, byte, loaded.action(action))
    if name in loaded.spec.ends:
        made.at_end(t.pop_before(loaded.spec.ends[name]))
    return made


def _resolve(machine: Machine, outcome: int, name: str, loaded: Loaded) -> int:
    return loaded.state(loaded.spec.waits[name][outcome])


@dataclass(eq=False)
class Loaded:
    """A spec on a machine, its states made as they are asked for."""

    spec: Spec
    machine: Machine

    def state(self, name: str) -> int:
        """The number of a state."""
        if name == "done":
            return self.machine.done
        known = self.machine.state_count
        number = self.machine.state((_resolve if name in self.spec.waits else _expand, name, self))
        if number == known and name in self.spec.bases:
            base, slack = self.spec.bases[name]
            self.machine.rest_on(number, self.state(base), slack)
        return number

    def action(self, action: Action) -> int:
        """An action as the kernels have it."""
        if action[0] == "goto":
            return t.goto(self.state(action[1]))
        if action[0] in ("push", "push_after"):
            _, child, then, waits = action
            make = t.push if action[0] == "push" else t.push_after
            return make(self.state(child), self.state(then), waits=waits)
        return {"pop_after": t.pop_after, "pop_before": t.pop_before}[action[0]](action[1])

    def cells(self, stack: Stack, room: int = 60) -> tuple[NDArray[np.int32], int, int]:
        """(cells, cell of the stack, top): the stack as cons cells."""
        cells = np.zeros((len(stack) + 1 + room, t.CELL_COLUMNS), dtype=np.int32)
        for depth, (then, waits) in enumerate(reversed(stack), start=1):
            number = self.state(then)
            cells[depth] = (-1 - number if waits else number, depth - 1, depth, 0)
        return cells, len(stack), len(stack) + 1

    def configuration(self, state: int, cells: NDArray[np.int32], cell: int) -> Configuration:
        """What arrays say, in names."""
        stack = []
        while cell:
            then = int(cells[cell, t.C_RETURN])
            stack.append((self.name(then if then >= 0 else -1 - then), then < 0))
            cell = int(cells[cell, t.C_NEXT])
        return self.name(int(state)), tuple(stack)

    def name(self, state: int) -> str:
        """The name of a state."""
        return "done" if state == self.machine.done else self.machine.key(state)[1]


START: Configuration = ("a0", (("done", False),))


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    """Random machines of the kind that grammars make.

    `a` states push (before or after the byte), their children are `n` states, left before a byte like numbers, or `s`
    states, left by a byte like strings, which may rest on each other; frames below go on in `c` states.
    """
    spec = Spec()
    counts = {kind: draw(st.integers(1, 3)) for kind in "ancsw"}
    names = {kind: [f"{kind}{number}" for number in range(count)] for kind, count in counts.items()}
    pick = {kind: st.sampled_from(names[kind]) for kind in names}
    outcome = st.sampled_from([1, 2, 3])
    most = draw(st.integers(0, 4))
    counters = [f"k{number}" for number in range(most + 1)]
    insides = st.one_of(pick["s"], st.sampled_from([*counters, "k"]))

    def returning() -> tuple[str, bool]:
        waits = draw(st.booleans())
        return draw(pick["w"] if waits else pick["c"]), waits

    def action(kind: str) -> Action | None:
        options = {
            "a": ["goto", "push", "push", "push_after", "pop_after"],
            "n": ["goto", "goto", "pop_before", "pop_before", "pop_after", "push_after"],
            "c": ["goto", "goto", "pop_after", "pop_before", "push_after", "none"],
            "s": ["goto", "goto", "pop_after", "none"],
        }[kind]
        chosen = draw(st.sampled_from(options))
        if chosen == "none":
            return None
        if chosen == "goto":
            targets = {"a": pick["a"] | pick["c"], "c": pick["a"] | pick["c"], "n": pick["n"], "s": insides}
            return "goto", draw(targets[kind])
        if chosen in ("push", "push_after"):
            return chosen, draw(st.one_of(pick["n"], insides)), *returning()
        return chosen, draw(outcome)

    for kind in "ancs":
        for name in names[kind]:
            edges = {byte: action(kind) for byte in ALPHABET}
            spec.edges[name] = {byte: one for byte, one in edges.items() if one is not None}
            if kind in "nc" and draw(st.booleans()):
                spec.ends[name] = draw(outcome)
    for name in names["w"]:
        spec.waits[name] = {number: draw(pick["c"]) for number in (1, 2, 3)}
    for index, name in enumerate(names["s"]):
        if draw(st.booleans()):
            spec.bases[name] = (draw(st.sampled_from([*names["s"][:index], "k"])), 0)
    letters = draw(st.sets(st.sampled_from(ALPHABET), min_size=1, max_size=3))
    leave = {byte: ("pop_after", 1) for byte in ALPHABET if byte not in letters}
    spec.edges["k"] = leave | {byte: ("goto", "k") for byte in letters}
    for number, name in enumerate(counters):
        spec.edges[name] = leave | ({byte: ("goto", counters[number - 1]) for byte in letters} if number else {})
        spec.bases[name] = ("k", number)
    return spec


@st.composite
def vocabularies(draw: st.DrawFn) -> Vocabulary:
    """Tokens over the small alphabet, single bytes among them."""
    words = draw(st.lists(st.lists(st.sampled_from(ALPHABET), min_size=1, max_size=6).map(bytes), max_size=25))
    tokens: list[bytes | None] = [*(bytes([byte]) for byte in ALPHABET), None, *words]
    return Vocabulary.from_token_bytes(tokens, eos_token_ids=[4], logits_size=len(tokens) + draw(st.integers(0, 40)))


def walk(draw: st.DrawFn, spec: Spec, steps: int) -> Iterator[Configuration]:
    """Configurations met on a random way from the start."""
    here = START
    yield here
    for _ in range(steps):
        ways = [after for byte in ALPHABET if isinstance(after := spec.step(here, byte), tuple)]
        if not ways:
            return
        here = draw(st.sampled_from(ways))
        yield here
