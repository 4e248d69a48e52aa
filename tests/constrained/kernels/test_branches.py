"""The trie with siblings side by side, and what is known of its subtrees, against lists of texts."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained.automata.machine import Machine
from constrained.automata.transitions import Transitions
from constrained.kernels import tables as t
from constrained.kernels.branches import ALL_WIDE, ANY_NUMBER, MOST_WIDE, keeps, longest_allowed
from constrained.masks.row_store import RowStore
from constrained.vocabulary import Vocabulary
from tests.constrained.kernels.twins import TINY

PIECES = st.sampled_from([*b"ab,]~", *"é€😀\x7f".encode(), 0xC0, 0xED, 0xA0, 0xF4, 0x90, 0xFF])
TEXTS = st.lists(
    st.one_of(
        st.lists(PIECES, min_size=1, max_size=5).map(bytes),
        st.text("aé€😀\u2026\u2028\xa0\u3000\ufeff", min_size=1, max_size=3).map(str.encode),
    ),
    max_size=30,
)


def stores(texts: list[bytes]) -> RowStore:
    return RowStore(Vocabulary.from_token_bytes([*texts, b"a", None], eos_token_ids=[len(texts) + 1]), TINY)


def texts_of_nodes(store: RowStore) -> list[bytes]:
    """The text of each node, read off the children's bytes."""
    found = [b""] * len(store.tokens.nodes)
    for node, entry in enumerate(store.tokens.nodes.tolist()):
        for kid in range(entry[t.N_KIDS], entry[t.N_KIDS_END]):
            assert node < kid
            found[kid] = found[node] + bytes([store.tokens.bytes[kid]])
    return found


SPACES = [chr(one).encode() for low, high in t.WIDE_SPACES for one in range(low, high + 1)]
WIDE = st.sampled_from([0, ALL_WIDE, MOST_WIDE])


def has_spaces(texts: list[bytes]) -> bool:
    return any(space in text for space in SPACES for text in texts)


def passes_wide(rests: list[bytes], flags: int) -> bool:
    """Whether the characters outside ASCII in texts are among those that flags stand for."""
    if all(byte < 128 for rest in rests for byte in rest):
        return True
    if not all(is_utf8_so_far(rest) for rest in rests):
        return False
    return flags == ALL_WIDE or (flags == MOST_WIDE and not has_spaces(rests))


def characters(text: bytes) -> int:
    """How many characters begin in a text."""
    return sum(not 0x80 <= byte < 0xC0 for byte in text)


def is_utf8_so_far(text: bytes) -> bool:
    """Whether some bytes make it whole; Python's incremental decoder takes halves of surrogates for a beginning."""
    return any(is_utf8(text + (bytes([first]) + b"\x80\x80")[:more]) for first in (0x80, 0xA0) for more in range(4))


def is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


@settings(max_examples=100)
@given(TEXTS)
def test_nodes_are_the_prefixes_of_tokens_with_the_tokens_at_and_below_them(texts: list[bytes]) -> None:
    store = stores(texts)
    tokens = [*texts, b"a"]
    found = texts_of_nodes(store)
    assert sorted(found) == sorted({token[:end] for token in tokens for end in range(len(token) + 1)})
    order = {text: number for number, text in enumerate(sorted(found))}
    ids, lengths = store.tokens.token_ids.tolist(), store.tokens.lengths
    for text, entry in zip(found, store.tokens.nodes.tolist(), strict=True):
        below = [other for other in found if other.startswith(text)]
        assert entry[t.N_BYTE] & 255 == (text[-1] if text else 0)
        assert entry[t.N_ORDER] == order[text]
        assert entry[t.N_SPAN] >> 16 == len(text)
        assert entry[t.N_SPAN] & 0xFFFF == max(map(len, below)) - len(text)
        assert {tokens[token] for token in ids[entry[t.N_TOKENS] : entry[t.N_TOKENS_OWN]]} <= {text}
        assert entry[t.N_BYTE] >> t.CHARACTERS_SHIFT == characters(text)
        assert {int(lengths[at]) for at in range(entry[t.N_TOKENS], entry[t.N_TOKENS_OWN])} <= {characters(text)}
        listed = sorted(ids[entry[t.N_TOKENS] : entry[t.N_TOKENS_ALL]])
        assert listed == [token for token, data in enumerate(tokens) if data.startswith(text)]


@settings(max_examples=100)
@given(TEXTS)
def test_what_a_subtree_is_made_of_is_what_its_texts_are_made_of(texts: list[bytes]) -> None:
    store = stores(texts)
    found = texts_of_nodes(store)
    for node, text in enumerate(found):
        rests = [other[len(text) :] for other in found if other.startswith(text)]
        low, high = store.tokens.below[node].tolist()
        assert {byte for byte in range(128) if (low | high << 64) >> byte & 1} == {
            byte for rest in rests for byte in rest if byte < 128
        }
        wide = any(byte >= 128 for rest in rests for byte in rest)
        valid = all(is_utf8_so_far(rest) for rest in rests)
        spaces = has_spaces(rests)
        kind = t.NONE_WIDE if not wide else (t.VALID_WIDE if spaces else t.SPACELESS_WIDE) if valid else t.OTHER_WIDE
        assert int(store.tokens.nodes[node, t.N_BYTE]) >> 8 & 255 == kind


def _expand(machine: Machine, back: bytes, far: bytes) -> Transitions:
    """Back to itself on `back`, elsewhere on `far`."""
    made = Transitions()
    for byte in back:
        made.on(byte, byte, t.goto(machine.state((_expand, back, far))))
    for byte in far:
        made.on(byte, byte, t.goto(machine.done))
    return made


@settings(max_examples=100)
@given(TEXTS, st.sets(st.sampled_from(b"ab,]~\x7f")), st.sets(st.sampled_from(b"ab,]~\x7f")), WIDE)
def test_a_subtree_keeps_a_state_that_all_its_bytes_lead_back_to(
    texts: list[bytes], back: set[int], far: set[int], flags: int
) -> None:
    store = stores(texts)
    machine = store.machine
    state = machine.state((_expand, bytes(sorted(back)), bytes(sorted(far - back))))
    arguments = machine.states, machine.maps, machine.actions, machine.loops, store.tokens.nodes, store.tokens.below
    assert all(keeps(*arguments, state, node, machine.horizon) == -1 for node in range(len(store.tokens.nodes)))
    machine.expand(state)
    machine.loop_wide(state, flags)
    found = texts_of_nodes(store)
    for node, text in enumerate(found):
        rests = [other[len(text) :] for other in found if other.startswith(text)]
        plain = all(byte in back for rest in rests for byte in rest if byte < 128)
        expected = plain and passes_wide(rests, flags)
        assert keeps(*arguments, state, node, machine.horizon) == (ANY_NUMBER if expected else -1)


@settings(max_examples=100)
@given(TEXTS, st.sets(st.sampled_from(b"ab,]~\x7f")), WIDE, st.none() | st.integers(0, 5))
def test_characters_that_are_only_counted_pass_up_to_their_number(
    texts: list[bytes], counted: set[int], flags: int, most: int | None
) -> None:
    store = stores(texts)
    machine = store.machine
    state = machine.state((_expand, b"", b"ab"))
    arguments = machine.states, machine.maps, machine.actions, machine.loops, store.tokens.nodes, store.tokens.below
    machine.counts(state, sum(1 << byte for byte in counted), flags, most)
    assert keeps(*arguments, state, 0, machine.horizon) == -1
    machine.expand(state)
    found, tokens, lengths = texts_of_nodes(store), [*texts, b"a"], store.tokens.lengths
    for node, text in enumerate(found):
        rests = [other[len(text) :] for other in found if other.startswith(text)]
        plain = all(byte in counted for rest in rests for byte in rest if byte < 128)
        passing = keeps(*arguments, state, node, machine.horizon)
        if not plain or not passes_wide(rests, flags):
            assert passing == -1
            continue
        assert passing == (ANY_NUMBER if most is None else most)
        longest = longest_allowed(store.tokens.nodes, node, passing)
        entry = store.tokens.nodes[node].tolist()
        for at in range(entry[t.N_TOKENS], entry[t.N_TOKENS_ALL]):
            rest = tokens[int(store.tokens.token_ids[at])][len(text) :]
            assert (lengths[at] <= longest) == (most is None or characters(rest) <= most)


def test_a_state_is_kept_by_what_leads_to_one_that_soon_cannot_be_told_from_it() -> None:
    store = stores([b"ab", b"abab"])
    machine = store.machine
    near, state = machine.state((_expand, b"x", b"")), machine.state((_expand_to, b"ab", "near"))
    machine.expand(state)
    arguments = machine.states, machine.maps, machine.actions, machine.loops, store.tokens.nodes, store.tokens.below
    for slack, kept in ((machine.horizon - 2, -1), (machine.horizon - 1, ANY_NUMBER)):
        machine.rest_on(near, state, slack)
        machine.loops[state] = np.uint64(0)
        assert keeps(*arguments, state, 0, machine.horizon) == kept


def _expand_to(machine: Machine, letters: bytes, _name: str) -> Transitions:
    made = Transitions()
    for byte in letters:
        made.on(byte, byte, t.goto(machine.state((_expand, b"x", b""))))
    return made
