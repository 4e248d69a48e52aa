"""How often something is repeated: spans from a least number to a most one, `None` for any number."""

from __future__ import annotations


def nested_bounds(
    inner_least: int, inner_most: int | None, least: int, most: int | None
) -> tuple[int, int | None] | None:
    """Bounds of (x{a,b}){m,n} as one repeat of x, where the exponents have no gaps."""
    if inner_most is None:
        if least == 0 and inner_least > 1:
            return None
        return inner_least * least, None
    if least != most and least * (inner_most - inner_least) + 1 < inner_least:
        return None
    return inner_least * least, None if most is None else inner_most * most


def merge_spans(spans: list[tuple[int, int | None]]) -> list[tuple[int, int | None]]:
    """Spans of how often, joined where they touch; `spans` is sorted on the way."""
    spans.sort(key=lambda span: span[0])
    out: list[tuple[int, int | None]] = [spans[0]]
    for least, most in spans[1:]:
        first, last = out[-1]
        if last is None or least <= last + 1:
            out[-1] = (first, None if last is None or most is None else max(last, most))
        else:
            out.append((least, most))
    return out
