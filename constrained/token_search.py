"""Completions in few tokens: best-first search over the tokens that may come next (Hart, Nilsson and Raphael 1968).

The completion that is known of a configuration is a shortest one in bytes, spelled in as few tokens as it can be.  A
longer text can take fewer: of the choices `zqx` and `hello` the second may be one token.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from grammars.errors import LimitExceeded

if TYPE_CHECKING:
    from constrained.masks.completion_store import CompletionStore
    from constrained.matcher import Matcher

Tokens = tuple[int, ...]

MOST_LOOKED_AT = 400
"""Configurations whose completion is worked out before the search gives up."""
_MOST_TOKENS = 8_000
"""Tokens of all these completions: what is far from its end costs as much more to look at."""
_MOST_BRANCHES = 64
"""Where more tokens than these may come next, as in a string, only the known completion is followed."""


def few_tokens(matcher: Matcher, completions: CompletionStore, limit: int) -> Tokens:
    """Tokens that finish the text of `matcher`, without the end token: at most `limit` of them if such are found.

    The search ends there, or after `MOST_LOOKED_AT` configurations (fewer where they are far from the end) with the fewest
    that it has seen.
    """
    vocabulary = matcher.constraint.vocabulary
    row = np.zeros(vocabulary.row_words, dtype=np.uint32)
    best = known = completions.tokens(*matcher.configuration())
    queue: list[tuple[int, int, Tokens, Tokens]] = [(len(known), 0, (), known)]
    seen = {matcher.configuration()}
    looks = min(MOST_LOOKED_AT, _MOST_TOKENS // (len(known) + 1))
    while queue and len(best) > limit:
        _, _, path, known = heapq.heappop(queue)
        here = matcher.fork()
        here.accept_many(path)
        here.fill_mask(row)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
        for token in allowed if len(allowed) <= _MOST_BRANCHES else known[:1]:
            if token in here.constraint.end_tokens:
                continue
            configuration = here.configuration_after(token)
            if configuration in seen:
                continue
            if len(seen) > looks:
                return best
            seen.add(configuration)
            try:
                left = completions.tokens(*configuration)
            except LimitExceeded:
                continue  # how it could end is not known
            whole = len(path) + 1 + len(left)
            if whole < len(best):
                best = (*path, token, *left)
            # of equally good ones the furthest along first
            heapq.heappush(queue, (whole, -len(path) - 1, (*path, token), left))
    return best
