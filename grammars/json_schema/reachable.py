"""Looking at every position of a schema at once, for callers that want errors before they begin."""

from __future__ import annotations

from collections.abc import Iterator

from grammars.json_schema.shapes import Alternatives, Value

MOST_POSITIONS = 2_000


def check_reachable(root: Value, most: int = MOST_POSITIONS) -> bool:
    """Resolve the positions that documents of `root` can reach, nearest first, as far as `most` of them.

    Positions are otherwise resolved when a text reaches them, and so are their errors found.

    Returns:
        Whether all of them were looked at.

    Raises:
        GrammarError: the first error met, a subclass that names the pointer.
    """
    seen: dict[Value, None] = {root: None}
    queue = [root]
    for value in queue:
        if len(queue) > most:
            return False
        for child in _children(value.alternatives()):
            if child not in seen:
                seen[child] = None
                queue.append(child)
    return True


def _children(alternatives: Alternatives) -> Iterator[Value]:
    for array in alternatives.arrays:
        yield from array.prefix
        yield array.rest
        for count in array.counts:
            yield count.value
    for shape in alternatives.objects:
        for declared in shape.properties:
            yield declared.value
        for group in shape.groups:
            yield group.value
        for witness in shape.witnesses:
            yield witness.value
