"""How much memory keys and values take, and how many blocks a request needs: arithmetic for planning."""

from __future__ import annotations


def kv_cache_bytes(layers: int, batch: int, kv_heads: int, seq_len: int, head_dim: int, dtype_bytes: int) -> int:
    """Bytes of keys and values: 2 · layers · batch · kv_heads · seq_len · head_dim · dtype_bytes.

    Raises:
        ValueError: a negative size.
    """
    sizes = (layers, batch, kv_heads, seq_len, head_dim, dtype_bytes)
    if min(sizes) < 0:
        raise ValueError(f"a size below 0 in {sizes}")
    return 2 * layers * batch * kv_heads * seq_len * head_dim * dtype_bytes


def required_blocks(prompt_tokens: int, max_new_tokens: int, block_size: int) -> int:
    """Blocks that a request needs to run to its end: ceil((prompt_tokens + max_new_tokens) / block_size).

    Raises:
        ValueError: a block of no tokens, or a negative number of tokens.
    """
    if block_size < 1:
        raise ValueError(f"a block of {block_size} tokens: at least 1")
    if prompt_tokens < 0 or max_new_tokens < 0:
        raise ValueError(f"{prompt_tokens} prompt tokens and {max_new_tokens} new ones: neither may be below 0")
    return -(-(prompt_tokens + max_new_tokens) // block_size)
