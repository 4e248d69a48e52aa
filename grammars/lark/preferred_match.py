"""The texts that `re.match` takes whole: a regular language, read off the threads of a backtracking matcher.

Python's `re` prefers earlier alternatives, and greedy or lazy repeats, over longer matches.  Threads in the order of
preference, cut behind the first that accepts (Pike's virtual machine; Cox 2009, "Regular Expression Matching: the
Virtual Machine Approach"), make a deterministic machine: a text is taken whole if the accepting thread is among those
that are left after it.  On any text, what `re` takes is then the longest prefix of this kind: had a shorter one been
preferred, the longer one's thread would have been cut.

Lookaheads are conditions on the rest of the text; a thread carries its own, and a thread behind one that accepts under
a condition carries its negation.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from grammars.errors import LimitExceeded
from grammars.lark.ordered_syntax import Alternatives, Concatenation, Loop, Text, Tree, ordered
from grammars.memory import remembered
from grammars.regex import syntax, translate
from grammars.regex.syntax import Look
from grammars.regular import ALL, ANY, NONE, Rx, complement, intersect, union
from grammars.regular.charset import join_all, meet, minus
from grammars.regular.derive import raw_moves
from grammars.regular.unfold import Unfolding, unfold

INSTRUCTION_LIMIT = 20_000
"""Instructions of one expression, its counted repeats written out."""


@dataclass(frozen=True, slots=True)
class Read:
    """Read a character of the set, then go on with the next instruction."""

    characters: Rx


@dataclass(frozen=True, slots=True)
class Fork:
    """Go on at several places, the preferred one first."""

    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ahead:
    """Go on with the next instruction; the rest of the text must be in `rest`."""

    rest: Rx


@dataclass(frozen=True, slots=True)
class Behind:
    """Go on with the next instruction if the text so far is in past number `past` (or is not)."""

    past: int
    positive: bool


@dataclass(frozen=True, slots=True)
class Enter:
    """Go on with the next instruction, the first of a loop whose `Again` stands at `loop`."""

    loop: int


@dataclass(frozen=True, slots=True)
class Again:
    """Go through a loop's body or leave it; a turn that read nothing leaves it."""

    body: int
    on: int
    greedy: bool


Instruction = Read | Fork | Enter | Again | Ahead | Behind | None
"""`None` accepts."""


@dataclass(eq=False, slots=True)
class Program:
    """The instructions of one expression.

    Attributes:
        pattern: the expression.
        code: the instructions; it starts at 0.
        pasts: the texts that end as lookbehinds want.
        counted: whether counted repeats are written out, or stand for repeats without bounds.
        conditional: whether there are lookaheads.
    """

    pattern: str
    counted: bool
    code: list[Instruction] = field(default_factory=list)
    pasts: list[Rx] = field(default_factory=list)
    conditional: bool = False

    def emit(self, tree: Tree) -> None:
        """Append the instructions of a tree."""
        if len(self.code) > INSTRUCTION_LIMIT:
            raise LimitExceeded(f"the terminal {self.pattern!r} needs more than {INSTRUCTION_LIMIT} instructions")
        if isinstance(tree, Text):
            self.code.extend(map(Read, tree.sets))
        elif isinstance(tree, Concatenation):
            for item in tree.items:
                self.emit(item)
        elif isinstance(tree, Alternatives):
            self._alternatives(tree)
        elif isinstance(tree, Loop):
            self._loop(tree)
        elif tree.ahead:
            inner = translate.fullmatch(syntax.sequence([tree.body, ALL]))
            self.code.append(Ahead(complement(inner) if tree.negative else inner))
            self.conditional = True
        else:
            self._behind(tree)

    def _alternatives(self, tree: Alternatives) -> None:
        fork = len(self.code)
        self.code.append(None)
        starts, jumps = [], []
        for option in tree.options:
            starts.append(len(self.code))
            self.emit(option)
            jumps.append(len(self.code))
            self.code.append(None)
        self.code[fork] = Fork(tuple(starts))
        for jump in jumps:
            self.code[jump] = Fork((len(self.code),))

    def _loop(self, tree: Loop) -> None:
        least, most = tree.least, tree.most
        if not self.counted and (least > 1 or most not in (None, 0, 1)):
            least, most = min(least, 1), None
        for _ in range(least if most is not None else max(least - 1, 0)):
            self.emit(tree.body)
        if most is None:
            start = len(self.code)
            self.code.append(None)
            if least == 0:
                self.code.append(Fork((0,)))
            self.emit(tree.body)
            loop = len(self.code)
            self.code.append(Again(start + 1 + (least == 0), loop + 1, tree.greedy))
            self.code[start] = Enter(loop)
            if least == 0:
                self.code[start + 1] = Fork((loop,))
            return
        exits = []
        for _ in range(most - least):
            exits.append(len(self.code))
            self.code.append(None)
            self.emit(tree.body)
        for start in exits:
            on = len(self.code)
            self.code[start] = Fork((start + 1, on) if tree.greedy else (on, start + 1))

    def _behind(self, tree: Look) -> None:
        past = translate.search_end(tree.body, 0)
        if past not in self.pasts:
            self.pasts.append(past)
        self.code.append(Behind(self.pasts.index(past), not tree.negative))

    def reach(self, places: Iterable[tuple[int, Rx]], pasts: tuple[Rx, ...]) -> tuple[tuple[tuple[int, Rx], ...], Rx]:
        """The reading threads from here in their order, each with its condition, and the condition of accepting."""
        threads: dict[tuple[int, Rx], None] = {}
        # Loops in a turn that has read nothing yet are part of the place: their next turn is refused.
        seen: set[tuple[int, Rx, frozenset[int]]] = set()
        accept, open_ = NONE, ALL
        stack = [(place, rest, frozenset[int]()) for place, rest in places][::-1]
        while stack:
            place, rest, turns = stack.pop()
            if open_ is not ALL:
                rest = intersect(rest, open_)
            if rest is NONE or (place, rest, turns) in seen:
                continue
            seen.add((place, rest, turns))
            instruction = self.code[place]
            if isinstance(instruction, Read):
                if instruction.characters is not NONE:
                    threads.setdefault((place, rest))
            elif isinstance(instruction, Fork):
                stack.extend((target, rest, turns) for target in reversed(instruction.targets))
            elif isinstance(instruction, Enter):
                stack.append((place + 1, rest, turns - {instruction.loop}))
            elif isinstance(instruction, Again):
                on = (instruction.on, rest, turns - {place})
                if place in turns:
                    stack.append(on)
                else:
                    body = (instruction.body, rest, turns | {place})
                    stack.extend((on, body) if instruction.greedy else (body, on))
            elif isinstance(instruction, Ahead):
                stack.append((place + 1, intersect(rest, instruction.rest), turns))
            elif isinstance(instruction, Behind):
                if pasts[instruction.past].nullable is instruction.positive:
                    stack.append((place + 1, rest, turns))
            else:
                accept = union(accept, rest)
                open_ = intersect(open_, complement(rest))
                if open_ is NONE:
                    break
        return tuple(threads), accept


@remembered(1024)
def program(pattern: str, flags: int = 0, counted: bool = True) -> Program:
    """The instructions of an expression.

    Raises:
        RegexError, UnsupportedFeature: as `ordered`.
        LimitExceeded: counted repeats make it too long.
    """
    made = Program(pattern, counted)
    made.emit(ordered(pattern, flags))
    made.code.append(None)
    return made


@dataclass(frozen=True, slots=True)
class Threads(Unfolding):
    """The threads after some text.

    Attributes:
        threads: places of reading instructions in the order of preference, each with a condition on the rest.
        accept: the rests with which the text so far is taken whole, if no longer text is.
        pasts: of every past what is still missing of it.
    """

    live: ClassVar[bool] = False

    program: Program
    threads: tuple[tuple[int, Rx], ...]
    accept: Rx
    pasts: tuple[Rx, ...]

    @property
    def nullable(self) -> bool:
        """Whether the text so far is taken whole, with some rest."""
        return self.accept is not NONE

    @property
    def order(self) -> int:
        """A structural hash, the same in every process."""
        places = tuple((place, rest.order) for place, rest in self.threads)
        pasts = tuple(past.order for past in self.pasts)
        return hash(
            (zlib.crc32(self.program.pattern.encode("utf-8", "surrogatepass")), places, self.accept.order, pasts)
        )

    def moves(self) -> Iterable[tuple[int, int, Rx]]:
        """The moves by ranges of code points."""
        return [(lo, hi, target) for chars, target in self.set_moves() for lo, hi in chars.a]

    def set_moves(self) -> list[tuple[Rx, Rx]]:
        """Disjoint sets of characters, each with the language that follows."""
        return [(chars, unfold(state)) for chars, state in self.steps()]

    def steps(self) -> list[tuple[Rx, Threads]]:
        """Disjoint sets of characters, each with the threads after them."""
        parts: list[tuple[Rx, tuple[tuple[int, Rx], ...]]] = [(ANY, ())]
        for place, rest in self.threads:
            instruction = self.program.code[place]
            assert isinstance(instruction, Read)
            for chars, target in ((ANY, ALL),) if rest is ALL else raw_moves(rest):
                parts = _split(parts, meet(chars, instruction.characters), (place + 1, target))
        out = []
        for chars, places in parts:
            if places:
                for common, pasts in _pasts_after(chars, self.pasts):
                    threads, accept = self.program.reach(places, pasts)
                    if threads or accept is not NONE:
                        out.append((common, self._state(threads, accept, pasts)))
        return out

    def _state(self, threads: tuple[tuple[int, Rx], ...], accept: Rx, pasts: tuple[Rx, ...]) -> Threads:
        return type(self)(self.program, threads, accept, pasts)


class LiveThreads(Threads):
    """Threads without conditions: the first of them leads to a match whatever the others do."""

    __slots__ = ()
    live: ClassVar[bool] = True


def _split(
    parts: list[tuple[Rx, tuple[tuple[int, Rx], ...]]], chars: Rx, item: tuple[int, Rx]
) -> list[tuple[Rx, tuple[tuple[int, Rx], ...]]]:
    out = []
    for one, items in parts:
        common = meet(one, chars)
        if common is NONE:
            out.append((one, items))
            continue
        out.append((common, (*items, item)))
        others = minus(one, common)
        if others is not NONE:
            out.append((others, items))
    return out


def _pasts_after(chars: Rx, pasts: tuple[Rx, ...]) -> list[tuple[Rx, tuple[Rx, ...]]]:
    out: list[tuple[Rx, tuple[Rx, ...]]] = [(chars, ())]
    for past in pasts:
        moves = list(raw_moves(past))
        others = minus(ANY, join_all([one for one, _ in moves]))
        moves.append((others, NONE))
        out = [
            (common, (*rests, target))
            for one, rests in out
            for two, target in moves
            if two is not NONE and (common := meet(one, two)) is not NONE
        ]
    return out


def start(made: Program) -> Threads:
    """The threads before the first character."""
    pasts = tuple(made.pasts)
    threads, accept = made.reach([(0, ALL)], pasts)
    return (Threads if made.conditional else LiveThreads)(made, threads, accept, pasts)


def follows_the_text(pattern: str, flags: int = 0) -> bool:
    """Whether preference surely does not matter: one thread for every text, and accepting is preferred last.

    Counted repeats are looked at as if they had no bounds, which only adds threads.
    """
    made = program(pattern, flags, counted=False)
    if made.conditional or made.pasts:
        return False
    places = [0, *(index + 1 for index, one in enumerate(made.code) if isinstance(one, Read))]
    return all(_single(made, place) for place in places)


def _single(made: Program, place: int) -> bool:
    accepted = False
    read: Rx = NONE
    seen: set[int] = set()
    stack = [place]
    while stack:
        place = stack.pop()
        instruction = made.code[place]
        if place in seen and instruction is not None:
            return False  # two ways lead here; which of them is preferred may matter
        seen.add(place)
        if isinstance(instruction, Read):
            if accepted or meet(read, instruction.characters) is not NONE:
                return False
            read = join_all([read, instruction.characters]) if read is not NONE else instruction.characters
        elif isinstance(instruction, Fork):
            stack.extend(reversed(instruction.targets))
        elif isinstance(instruction, Enter):
            stack.append(place + 1)
        elif isinstance(instruction, Again):
            order = (instruction.on, instruction.body) if instruction.greedy else (instruction.body, instruction.on)
            stack.extend(order)
        elif instruction is None:
            accepted = True
    return True
