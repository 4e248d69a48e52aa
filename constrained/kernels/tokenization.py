"""The shortest way to write bytes as tokens."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from constrained.kernels.jit import making_kernel


@making_kernel
def shortest_tokenization(
    data: NDArray[np.uint8],
    byte: NDArray[np.uint8],
    end: NDArray[np.int32],
    token_start: NDArray[np.int32],
    token_ids: NDArray[np.int32],
    out: NDArray[np.int32],
) -> int:
    """Write into `out` the fewest tokens whose bytes joined are `data`; the first token is as long as that allows.

    Dynamic programming from the end of the data, at each place along one path of the trie.

    Args:
        data: uint8[m].
        byte, end, token_start, token_ids: the trie, in preorder (see `Trie`).
        out: int32[m] or longer.

    Returns:
        the number of tokens, or -1 if no tokens make up the data.
    """
    child_of_root = np.zeros(256, dtype=np.int32)
    node = 1
    while node < end[0]:
        child_of_root[byte[node]] = node
        node = end[node]

    length = len(data)
    never = length + 1
    cost = np.full(length + 1, never, dtype=np.int32)
    cost[length] = 0
    last_node = np.zeros(length + 1, dtype=np.int32)
    stop = np.zeros(length + 1, dtype=np.int32)
    for start in range(length - 1, -1, -1):
        node = child_of_root[data[start]]
        at = start + 1
        while node != 0:
            if token_start[node + 1] > token_start[node] and cost[at] < never and cost[at] + 1 <= cost[start]:
                cost[start] = cost[at] + 1
                last_node[start] = node
                stop[start] = at
            if at == length:
                break
            child, past = node + 1, end[node]
            while child < past and byte[child] < data[at]:
                child = end[child]
            node = child if child < past and byte[child] == data[at] else 0
            at += 1
    if cost[0] == never:
        return -1
    count = 0
    at = 0
    while at < length:
        out[count] = token_ids[token_start[last_node[at]]]
        count += 1
        at = stop[at]
    return count
