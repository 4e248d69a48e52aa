"""What the states of an LR(1) automaton share that differ in their lookaheads only: their *core*, the items without them.

A closure brings in the same items whatever the lookaheads of the kernel are, and each of these lookaheads either comes
from within the rules or is that of an item of the kernel (as in the propagation of LALR lookaheads; Aho, Lam, Sethi and
Ullman, section 4.7).  So it is worked out once for a core, and a state is one pass over it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from grammars.context_free.grammar import Action, Rule

Mask = int
"""A set of terminals; see `grammars.context_free.lr`."""
Item = tuple[int, int, int, Rule]
"""The number of its rule, the place of the dot, the symbol behind it, and the rule."""


@dataclass(frozen=True, slots=True)
class Core:
    """The items of a kernel, closed.

    A *source* is a number that stands for lookaheads: first the items of the kernel in their order, then those in `follow`.

    Attributes:
        follow: for each nonterminal of the closure what may follow it: (terminals, items of the kernel whose lookaheads may).
        after: for each symbol the items behind it, sorted: (item, source).
        shifts: terminals that are read.
        reductions: (rule, length, origin, source, terminals on which it may be done).
    """

    follow: tuple[tuple[Mask, tuple[int, ...]], ...]
    after: Mapping[int, tuple[tuple[int, int], ...]]
    shifts: Mask
    reductions: tuple[tuple[int, int, int, int, Mask], ...]


def core_of(
    kernel: Sequence[int],
    items: Sequence[Item],
    starts: Mapping[int, Sequence[int]],
    tail: Callable[[int], tuple[Mask, bool]],
    actions: Mapping[int, Action] | None,
    end: int,
) -> Core:
    """The core of some items.

    Args:
        items: every item of the automaton.
        starts: of each nonterminal the items of its rules with the dot in front.
        tail: of an item: the terminals that may follow the symbol behind its dot within the rule, and whether none need to.
        actions: of the state of a parse table, which are then the only ones.
        end: the number of the end of the text.
    """
    follow = _follow(kernel, items, starts, tail)
    closed = [(item, source) for source, item in enumerate(kernel)]
    for source, origin in enumerate(follow, len(kernel)):
        closed += [(item, source) for item in starts.get(origin, ())]
    after: dict[int, list[tuple[int, int]]] = {}
    reductions = []
    for item, source in closed:
        name, dot, symbol, rule = items[item]
        if dot == len(rule.symbols):
            taken = -1 if actions is None or name < 0 else _taken(actions, name, end)
            reductions.append((name, dot, rule.origin, source, taken))
        elif actions is None or symbol >= 0 or _is_shifted(actions, ~symbol):
            after.setdefault(symbol, []).append((item + 1, source))
    shifts = sum(1 << ~symbol for symbol in after if symbol < 0)
    sources = tuple((mask, tuple(sorted(places))) for mask, places in follow.values())
    return Core(sources, {symbol: tuple(sorted(moved)) for symbol, moved in after.items()}, shifts, tuple(reductions))


def _follow(
    kernel: Sequence[int],
    items: Sequence[Item],
    starts: Mapping[int, Sequence[int]],
    tail: Callable[[int], tuple[Mask, bool]],
) -> dict[int, tuple[Mask, frozenset[int]]]:
    found: dict[int, tuple[Mask, frozenset[int]]] = {}
    queue: list[int] = []

    def widen(item: int, ahead: Mask, places: frozenset[int]) -> None:
        """What follows the symbol behind the dot, where `ahead` and the lookaheads of `places` follow the item."""
        _, dot, symbol, rule = items[item]
        if dot == len(rule.symbols) or symbol < 0:
            return
        first, empty = tail(item)
        known, own = found.get(symbol, (0, frozenset()))
        wide = (known | first | ahead, own | places) if empty else (known | first, own)
        if wide != (known, own) or symbol not in found:
            found[symbol] = wide
            if symbol not in queue:
                queue.append(symbol)

    for place, item in enumerate(kernel):
        widen(item, 0, frozenset((place,)))
    while queue:
        origin = queue.pop()
        ahead, places = found[origin]
        for item in starts.get(origin, ()):
            widen(item, ahead, places)
    return found


def _is_shifted(actions: Mapping[int, Action], terminal: int) -> bool:
    action = actions.get(terminal)
    return action is not None and action[0] == "shift"


def _taken(actions: Mapping[int, Action], name: int, end: int) -> Mask:
    """The terminals on which a table reduces a rule."""
    taken = 0
    for terminal, action in actions.items():
        if action[0] == "reduce" and action[1] == name:
            taken |= 1 << (end if terminal < 0 else terminal)
    return taken
