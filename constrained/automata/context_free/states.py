"""States of context-free grammars.

The stack of the machine holds the stacks of the parser, cut where all of them go through one node: a frame is such a
piece, and waits for what the frames above it come to.  On top is a scan alone, where there is one way to have read the
text (its states are shared by all places in the grammar), or several hypotheses on a piece of their own.
"""

from __future__ import annotations

from collections.abc import Iterable

from constrained.automata.code_points import add_characters
from constrained.automata.configurations import PASSED_ON
from constrained.automata.context_free.closing import Closing
from constrained.automata.context_free.edges import leave_before, left_alone, loop_wide, on_ascii
from constrained.automata.context_free.embedded import (
    check_numbers,
    embedded_start,
    enter_embedded,
    expand_leave,
    first_bytes_of,
    passing,
    unshared,
)
from constrained.automata.context_free.hypotheses import AT_END, Ended, Finish, Hypothesis, Outcome, Plain, Terminated
from constrained.automata.context_free.liveness import lives
from constrained.automata.context_free.parser import Parser
from constrained.automata.context_free.special import special_start, token_number
from constrained.automata.machine import Machine
from constrained.automata.text import SOLE
from constrained.automata.transitions import Transitions
from constrained.kernels.tables import PASSING, goto, pop_after, pop_before, push, push_after
from constrained.vocabulary.spelled import MARK
from grammars.context_free.letters import Letters, common, letters, split
from grammars.context_free.scans import Cut, Scan
from grammars.context_free.stacks import BASE, Pending
from grammars.errors import EmptyLanguage
from grammars.regular import ALL, NONE, Rx, moves


class Step:
    """Where a character leads: frames to be entered and the state on top of them, or an outcome to leave with."""

    __slots__ = ("frames", "outcome", "top")

    def __init__(self, frames: tuple[int, ...], top: int, outcome: int = 0) -> None:
        self.frames = frames
        self.top = top
        self.outcome = outcome


def grammar_start(machine: Machine, parser: Parser) -> int:
    """The state before the first character of a sentence.

    Raises:
        EmptyLanguage: there is none.
        GrammarError: the grammar names a token that the vocabulary does not have, or what the grammars in it raise.
    """
    for token in parser.special.values():
        token_number(machine, token)
    for number in parser.embedded:
        embedded_start(machine, parser, number)  # what is wrong with it is said now
    parser.begins = lambda number: first_bytes_of(machine, parser, number)
    start = _state(machine, parser, _settled(machine, parser, [parser.first()], take_cuts=parser.separation is None))
    if not start:
        raise EmptyLanguage("no text is a sentence of the grammar: where one terminal has to end, another goes on")
    return start


def _settled(
    machine: Machine,
    parser: Parser,
    hypotheses: Iterable[Hypothesis],
    ended: Iterable[tuple[Ended, int]] = (),
    *,
    take_cuts: bool = False,
    before: int = 0,
) -> Step | None:
    """What a set of hypotheses comes to; None if it is empty.

    Args:
        take_cuts: whether a single hypothesis has to take the terminals that end with it.
        before: the characters of which one comes next, as in `Outcome`.
    """  # fmt: skip
    found = list(hypotheses)
    ended = tuple(ended)
    one = found[0] if len(found) == 1 else None
    if one is None or one.rest is not ALL or ended or take_cuts or one.scan.line_break or parser.separation is None:
        closing = Closing(parser)
        closing.close(found, ended)
        found = closing.joined()
        if closing.below or any(one.scan.line_break for one in found):
            left = Outcome(hypotheses=frozenset(found), ended=frozenset(closing.below), before=before)
            return Step((), 0, parser.outcome(left))
        if not found:
            return None
    if parser.separation is None:
        live = [one for one in found if lives(parser, one)]
        return Step((), machine.state((expand_hypotheses, parser, frozenset(live), before))) if live else None
    stacks = parser.stacks
    if len(found) == 1 and found[0].rest is ALL:
        one = found[0]
        return Step(stacks.chain(one.node), machine.state((expand_scan, parser, one.scan)))
    joint = stacks.joint([one.node for one in found])
    kept = found if joint == BASE else [one._replace(node=stacks.cut(one.node, joint)) for one in found]
    return Step(stacks.chain(joint), machine.state((expand_hypotheses, parser, frozenset(kept), before)))


def _state(machine: Machine, parser: Parser, step: Step | None) -> int:
    """The state that does a step before the next byte."""
    if step is None:
        return 0
    if step.outcome:
        return passing(machine, (expand_leave, step.outcome, parser))
    state = step.top
    for node in reversed(step.frames):
        state = _entering(machine, parser, node, state)
    return state


def _entering(machine: Machine, parser: Parser, node: int, then: int) -> int:
    """The state that enters a frame on which the next byte is read in `then`."""
    key = (expand_enter, parser, node, then)
    state = machine.known(key)
    if state is None:
        state = machine.state(key)
        machine.open(state, PASSING)
        machine.define_alike(state, push(then, _wait(machine, parser, node), waits=True))
    return state


def _after(machine: Machine, parser: Parser, step: Step) -> int:
    """The action of a byte that leads to a step."""
    if step.outcome:
        return pop_after(step.outcome)
    if not step.frames:
        return goto(step.top)
    child = _state(machine, parser, Step(step.frames[1:], step.top))
    return push_after(child, _wait(machine, parser, step.frames[0]), waits=True)


def _wait(machine: Machine, parser: Parser, node: int) -> int:
    return machine.state((resolve_node, parser, node))


def expand_enter(machine: Machine, parser: Parser, node: int, state: int) -> Transitions:
    """Before a frame has been entered on which the next byte is read in `state`."""
    made = Transitions()
    action = push(state, _wait(machine, parser, node), waits=True)
    made.otherwise(action)
    made.at_end(action)
    return made


def expand_scan(machine: Machine, parser: Parser, scan: Scan) -> Transitions:
    """A scan on top of the one node from which it is made."""
    made = Transitions()
    if scan.cuts:
        _decide_cuts(machine, made, parser, scan)
        return made
    wide: list[tuple[Rx, int]] = []
    for (bits, others), to in parser.lexer.moves(scan):
        step = _moved(machine, parser, to)
        on_ascii(made, bits, _after(machine, parser, step))
        if others is not NONE:
            wide.append((others, _state(machine, parser, step)))
    add_characters(machine, made, wide)
    loop_wide(machine, machine.state((expand_scan, parser, scan)), wide)
    for number in scan.embedded:
        if number not in parser.special:
            enter_embedded(machine, made, parser, number)
    named = tuple(number for number in scan.embedded if number in parser.special)
    if named:
        start = special_start(machine, parser, named)
        made.on(MARK, MARK, push(start, machine.state((pass_on, parser)), waits=True))
    if scan.may_end:
        made.at_end(pop_before(parser.at_end))
    return made


def _decide_cuts(machine: Machine, made: Transitions, parser: Parser, scan: Scan) -> None:
    """Whether a terminal has ended, decided by the next character."""
    lexer = parser.lexer
    items: list[tuple[Letters, tuple[Scan | None, Cut | None, Rx]]] = [
        (characters, (to, None, ALL)) for characters, to in lexer.moves(scan)
    ]
    for cut in scan.cuts:
        first = lexer.first_letters(cut)
        if cut.rest is ALL:
            items.append((first, (None, cut, ALL)))
        else:
            items += [(common(letters(characters), first), (None, cut, to)) for characters, to in moves(cut.rest)]
    wide: list[tuple[Rx, int]] = []
    leaving: list[tuple[Rx, int]] = []
    halves: list[tuple[Letters, tuple[tuple[Scan | None, Cut | None, Rx], ...]]] = []
    for (bits, others), values in split(
        items
    ):  # what begins with ASCII says nothing about what begins with other characters
        halves += [((bits, NONE), values)] if bits else []
        halves += [((0, others), values)] if others is not NONE else []
    for (bits, others), values in halves:
        going = next((to for to, _, _ in values if to is not None), None)
        ended = [(cut, rest) for _, cut, rest in values if cut is not None and lexer.begins(cut, rest, (bits, others))]
        if not ended:
            if going is None:
                continue
            step = _moved(machine, parser, going)
            on_ascii(made, bits, _after(machine, parser, step))
            if others is not NONE:
                wide.append((others, _state(machine, parser, step)))
            continue
        cuts = tuple([cut._replace(rest=ALL) if rest is ALL else cut for cut, rest in ended])
        free = all(cut.rest is ALL for cut in cuts)
        if going is None and free:
            outcome = parser.outcome(Outcome(cuts=cuts))
        else:
            outcome = parser.outcome(Outcome(scan, before=bits))
        on_ascii(made, bits, pop_before(outcome))
        if others is not NONE:
            leaving.append((others, outcome))
    add_characters(machine, made, wide)
    leave_before(made, parser, scan, wide, leaving)
    if not leaving:
        loop_wide(machine, machine.state((expand_scan, parser, scan)), wide)
    at_end = tuple([cut._replace(rest=ALL) for cut in scan.cuts if cut.rest.nullable])
    if at_end:
        made.at_end(pop_before(parser.outcome(Outcome(cuts=at_end))))
        if parser.special:
            made.on(MARK, MARK, pop_before(parser.outcome(Outcome(cuts=at_end))))


def _moved(machine: Machine, parser: Parser, to: Scan) -> Step:
    """Where a character leads that a scan alone reads."""
    if to.line_break:
        return Step((), 0, parser.outcome(Outcome(to)))
    if to.key or any(cut.rest is not ALL for cut in to.cuts):
        return Step((), machine.state((expand_scan, parser, to)))
    return Step((), 0, parser.outcome(Outcome(cuts=to.cuts)))


def expand_hypotheses(
    machine: Machine, parser: Parser, hypotheses: frozenset[Hypothesis], before: int = 0
) -> Transitions:
    """Several ways to have read the text; `before` as in `Outcome`."""
    made = Transitions()
    ordered = sorted(hypotheses, key=lambda one: (one.scan.number, one.rest.serial, one.node))
    readings = parser.readings(tuple((one.scan, one.rest) for one in ordered), before)
    alone = left_alone(parser, ordered, readings)
    wide: list[tuple[Rx, int]] = []
    for number, outcome in alone.items():
        on_ascii(made, readings.alone[number], pop_before(outcome))
    for (bits, others), values in readings.sets:
        if len(values) == 1 and values[0][0] in alone and bits & readings.alone[values[0][0]]:
            bits = 0
            if others is NONE:
                continue
        after = [Hypothesis(ordered[number].node, to, rest) for number, to, rest in values]
        step = _settled(machine, parser, after)
        if step is None:
            continue
        on_ascii(made, bits, _after(machine, parser, step))
        if others is not NONE:
            wide.append((others, _state(machine, parser, step)))
    add_characters(machine, made, wide)
    loop_wide(machine, machine.state((expand_hypotheses, parser, hypotheses, before)), wide)
    if not before:
        _enter_special(machine, made, parser, ordered)
    for one in ordered:
        for number in one.scan.embedded:
            if number in parser.special:
                continue
            # Without a separation stacks stay whole: what completes them is seen from the top to the start.
            frames = (one.node,) if parser.separation is None else parser.stacks.chain(one.node)
            step = Step(frames, machine.state((expand_scan, parser, _only(parser, one.scan, number))))
            child = _state(machine, parser, Step(step.frames[1:], step.top))
            action = push(child, _wait(machine, parser, step.frames[0]), waits=True)
            for byte in unshared(made, parser, number, one.rest):
                made.on(byte, byte, action)
    ending = [] if before else [one.node for one in ordered if one.scan.may_end and one.rest.nullable]
    if ending:
        state = _finished(machine, parser, Closing(parser).finish(ending))
        if state:
            made.at_end(pop_before(machine.key(state)[1]))
    return made


def _enter_special(machine: Machine, made: Transitions, parser: Parser, hypotheses: Iterable[Hypothesis]) -> None:
    """Edges into special tokens, whichever hypotheses name them."""
    able = [one for one in hypotheses if one.rest.nullable and not parser.special.keys().isdisjoint(one.scan.embedded)]
    if able:
        named = {number for one in able for number in one.scan.embedded if number in parser.special}
        wait = machine.state((resolve_special, parser, frozenset(able)))
        made.on(MARK, MARK, push(special_start(machine, parser, named), wait, waits=True))


def resolve_special(machine: Machine, outcome: int, parser: Parser, hypotheses: frozenset[Hypothesis]) -> int:
    """A special token has been read, before which there were several ways to have read the text."""
    (cut,) = parser.value(outcome).cuts
    named = parser.special[cut.terminal]
    after = [
        one._replace(scan=parser.lexer.scan((), (Cut(number),)), rest=ALL)
        for one in hypotheses
        for number in one.scan.embedded
        if parser.special.get(number) == named
    ]
    return _state(machine, parser, _settled(machine, parser, after, take_cuts=True))


def pass_on(machine: Machine, outcome: int, parser: Parser) -> int:
    """A special token has been read on a scan: leave it with the terminal that it was."""
    return passing(machine, (expand_leave, outcome, parser))


def _only(parser: Parser, scan: Scan, number: int) -> Scan:
    """The scan of one terminal that is a grammar of its own."""
    return parser.lexer.scan((frozenset(), (number,)), start=scan.start)


def _finished(machine: Machine, parser: Parser, finish: Finish) -> int:
    """The state in which a frame is left where the text ends; 0 if it may not end."""
    if finish.accepted:
        return passing(machine, (expand_leave, SOLE))
    if finish.ended or finish.below:
        outcome = Outcome(ended=finish.ended, ends=True, accepts=finish.below)
        return passing(machine, (expand_leave, parser.outcome(outcome), parser))
    return 0


def resolve_node(machine: Machine, outcome: int, parser: Parser, node: int) -> int:
    """The frames above a piece of the stacks have been left."""
    plain = parser.plain(outcome)
    if plain is not None:
        state = _plainly(machine, parser, node, plain)
        if state is not None:
            return state
    value = parser.value(outcome)
    stacks = parser.stacks
    ended = [(one, node) for one in value.ended]
    if value.ends:
        if value.accepts and not stacks.below[node]:
            return passing(machine, (expand_leave, SOLE))
        return _finished(machine, parser, Closing(parser).finish([node] if value is AT_END else [], ended))
    if value.cuts and value.cuts[0].terminal in parser.embedded:
        closing = Closing(parser)
        closing.close([Hypothesis(node, parser.lexer.scan((), value.cuts), ALL)])
        check_numbers(machine, parser, value.cuts[0], [one.scan for one in closing.found])
    if value.scan is not None or value.cuts:
        scan = value.scan if value.scan is not None else parser.lexer.scan((), value.cuts)
        hypotheses = [Hypothesis(node, scan, ALL)]
    else:
        hypotheses = [one._replace(node=stacks.attached(one.node, node)) for one in value.hypotheses]
    step = _settled(machine, parser, hypotheses, ended, take_cuts=True, before=value.before)
    return _state(machine, parser, step)


def _plainly(machine: Machine, parser: Parser, node: int, value: Plain) -> int | None:
    """The state that one terminal leads to, without a closing; None where there is more to it."""
    stacks = parser.stacks
    last, reduction, dropped = value
    if dropped:
        return _begun(machine, parser, node)
    if reduction is None:
        made = parser.advanced(node, last.terminal)
    else:
        origin, more = reduction
        bases, left = stacks.popped(node, more)
        if len(bases) + len(left) != 1:
            return None
        if left:
            return _left_with(machine, parser, last, (origin, min(left)))
        made = stacks.advance(last.terminal, (), [(origin, min(bases))])
    if made.pending:
        return _left_with(machine, parser, last, *made.pending) if len(made.pending) == 1 and not made.tops else None
    return _begun(machine, parser, made.tops[0]) if len(made.tops) == 1 else None


def _left_with(machine: Machine, parser: Parser, last: Terminated, reduction: Pending) -> int:
    return passing(machine, (expand_leave, parser.left_with(last, reduction), parser))


def _begun(machine: Machine, parser: Parser, node: int) -> int:
    """The state before the next terminal, on one node."""
    scan = parser.lexer.start(parser.stacks.state[node])
    state = machine.state((expand_scan, parser, scan))
    for frame in reversed(parser.stacks.chain(node)):
        state = _entering(machine, parser, frame, state)
    return state


PASSED_ON.update((expand_enter, expand_leave, expand_scan, expand_hypotheses))
