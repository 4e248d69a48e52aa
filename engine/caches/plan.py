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


def quantized_kv_bytes(
    layers: int,
    batch: int,
    kv_heads: int,
    seq_len: int,
    head_dim: int,
    bits: int,
    dtype_bytes: int = 2,
    *,
    group: int = 32,
    tail: int = 64,
) -> int:
    """Bytes that a `"quantized"` cache fills: codes, a step and a low for each channel of a group's keys and for each
    position's values, and the positions that stay as they are (at least `tail`, and what no whole `group` holds).

    Raises:
        ValueError: a negative size.
    """
    sizes = (layers, batch, kv_heads, seq_len, head_dim, bits, dtype_bytes)
    if min(sizes) < 0:
        raise ValueError(f"a size below 0 in {sizes}")
    groups = max(0, seq_len - tail) // group
    packed = groups * group
    codes = 2 * packed * head_dim * bits // 8
    scales = 2 * dtype_bytes * (groups * head_dim + packed)
    full = 2 * (seq_len - packed) * head_dim * dtype_bytes
    return layers * batch * kv_heads * (codes + scales + full)


def latent_cache_bytes(layers: int, batch: int, rank: int, rotated: int, seq_len: int, dtype_bytes: int) -> int:
    """Bytes of latents and their shared rotated keys: layers · batch · (rank + rotated) · seq_len · dtype_bytes.

    Raises:
        ValueError: a negative size.
    """
    sizes = (layers, batch, rank, rotated, seq_len, dtype_bytes)
    if min(sizes) < 0:
        raise ValueError(f"a size below 0 in {sizes}")
    return layers * batch * (rank + rotated) * seq_len * dtype_bytes
