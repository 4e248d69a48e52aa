"""The terminals that may come behind each terminal in some sentence (FOLLOW sets; Aho, Lam, Sethi and Ullman, section 4.4)."""

from __future__ import annotations

from collections.abc import Sequence

from grammars.context_free.grammar import Rule
from grammars.context_free.lr import Firsts, Mask


def followers(rules: Sequence[Rule], firsts: Firsts, terminals: int, inserted: Sequence[int] = ()) -> tuple[Mask, ...]:
    """For each terminal, those that may come right behind it; ignored ones are not among them.

    Args:
        rules: those that take part in sentences.
        firsts: what `first_terminals` gives for them.
        terminals: how many there are.
        inserted: terminals without text, as an indenter's: what comes behind them comes behind what stands before, too.
    """
    first, nullable = firsts
    found: dict[int, Mask] = {}
    behind: dict[int, set[int]] = {}  # symbols at the end of whose rules a symbol stands
    for rule in rules:
        ahead, is_end = 0, True
        for symbol in reversed(rule.symbols):
            found[symbol] = found.get(symbol, 0) | ahead
            if is_end:
                behind.setdefault(rule.origin, set()).add(symbol)
            own = 1 << ~symbol if symbol < 0 else first.get(symbol, 0)
            if symbol in nullable:
                ahead |= own
            else:
                ahead, is_end = own, False
    queue = list(behind)
    while queue:
        origin = queue.pop()
        ahead = found.get(origin, 0)
        for symbol in behind.get(origin, ()):
            if ahead & ~found.get(symbol, 0):
                found[symbol] = found.get(symbol, 0) | ahead
                if symbol in behind:
                    queue.append(symbol)
    masks = [found.get(~number, 0) for number in range(terminals)]
    textless = [number for number in inserted if 0 <= number < terminals]
    for _ in textless:
        for number, mask in enumerate(masks):
            for one in textless:
                if mask >> one & 1:
                    masks[number] |= masks[one]
    return tuple(masks)
