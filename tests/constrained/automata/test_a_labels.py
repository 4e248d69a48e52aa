"""Strings in the middle of an A-label: masks look at the text only where a label ends, and are exact."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import idna
import numpy as np
import pytest

from constrained import Vocabulary, compile
from grammars import JsonSchema

BYTES = Vocabulary.from_token_bytes([*[bytes([byte]) for byte in range(256)], None], eos_token_ids=[256])
WORDS = [
    b'"xn--', b"xn", b"--", b"p1ai", b"p1", b"ai", b'ai"', b"ai.", b"ai.xn--", b'p1ai"', b'fiqs8s"', b"fiqs8s.com", b"s8s",
    b'll-0ea"', b"ll-", b"0ea", b'mnchen-3ya"', b"mnchen", b"-3ya", b"a.b", b'x"', b'q"', b"80ak6aa92e", b'",', b"\\u3002x",
    "。x".encode(), b"ai\\u3002", "ai。".encode(), b'"}', b"ai\"}", b"ai\", \"",
]  # fmt: skip
VOCABULARY = Vocabulary.from_token_bytes(
    [*[bytes([byte]) for byte in range(256)], *WORDS, None], eos_token_ids=[256 + len(WORDS)]
)

SCHEMAS: dict[str, Any] = {
    "hostname": {"type": "string", "format": "hostname"},
    "idn-hostname": {"type": "string", "format": "idn-hostname"},
    "email": {"type": "string", "format": "email"},
    "in an object": {"type": "object", "properties": {"a": {"format": "hostname", "type": "string"}, "b": {}}},
    "in an array": {"type": "array", "items": {"type": "string", "format": "hostname"}, "uniqueItems": True},
}
PREFIXES = {
    "email": b'"me@xn--', "in an object": b'{"a":"xn--', "in an array": b'["a.xn--', "idn-hostname": b'"xn--',
}  # fmt: skip


def bits(row: np.ndarray[Any, Any]) -> list[int]:
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()


@pytest.mark.parametrize("kind", SCHEMAS)
def test_inside_a_label_the_mask_allows_what_the_bytes_one_by_one_allow(kind: str) -> None:
    grammar = JsonSchema(SCHEMAS[kind], escapes="any")
    constraint, by_bytes = compile(grammar, VOCABULARY), compile(grammar, BYTES)
    row = np.zeros(VOCABULARY.row_words, dtype=np.uint32)
    rng = random.Random(kind)
    prefix = PREFIXES.get(kind, b'"xn--')
    for start in (
        b"",
        b"p1",
        b"p1ai",
        b"fiqs8",
        b"fiqs8s",
        b"ll",
        b"80ak6aa92",
        b"80ak6aa92e",
        b"mnchen-3y",
        b"zzzzzz",
    ):
        matcher, single = constraint.matcher(), by_bytes.matcher()
        text = prefix + start
        assert matcher.accept_many(list(text)) == len(text)
        assert single.accept_many(list(text)) == len(text)
        for _ in range(4):
            matcher.fill_mask(row)
            allowed = bits(row)
            for token in range(256, 256 + len(WORDS)):
                data = WORDS[token - 256]
                fork = single.fork()
                expected = fork.accept_many(list(data)) == len(data)
                assert (token in allowed) == expected, (single.text, data)
            token = int(rng.choice(allowed))
            if token == 256 + len(WORDS):
                break
            matcher.accept(token)
            single.accept_many(list(VOCABULARY.token_bytes(token) or b""))
            assert single.text == matcher.text


def test_labels_end_only_where_their_punycode_is_that_of_a_label() -> None:
    constraint = compile(JsonSchema(SCHEMAS["hostname"]), VOCABULARY)
    for label in ("p1ai", "fiqs8s", "80ak6aa92e", "mnchen-3ya", "ll-0ea", "9n2bp8q", "p1", "vek", "l-0ea", "zzzz", "a"):
        text = f'"xn--{label}"'.encode()
        matcher = constraint.matcher()
        taken = matcher.accept_many(list(text)) == len(text) and matcher.is_accepting()
        try:
            valid = bool(idna.ulabel(f"xn--{label}"))
        except idna.IDNAError:
            valid = False
        assert taken == valid, label


@pytest.mark.parametrize("kind", ["hostname", "in an object"])
def test_walks_from_inside_a_label_end_in_a_host_name_within_their_budget(kind: str) -> None:
    constraint = compile(JsonSchema(SCHEMAS[kind]), VOCABULARY)
    row = np.zeros(VOCABULARY.row_words, dtype=np.uint32)
    rng = random.Random(kind)
    for _ in range(6):
        prefix = PREFIXES.get(kind, b'"xn--')
        matcher = constraint.matcher(max_tokens=len(prefix) + 25)
        assert matcher.accept_many(list(prefix)) == len(prefix)
        while not matcher.is_finished():
            matcher.fill_mask(row)
            matcher.accept(int(rng.choice(bits(row))))
        name = matcher.text.split(b"xn--", 1)[1].split(b'"')[0].split(b".")[0]
        assert idna.ulabel(b"xn--" + name)


SPANNING = [
    b'xn--p1ai"', b'"xn--p1ai"', b'n--p1ai"', b'-p1ai"', b"--p1ai.", b'.xn--p1ai"', b'xn--p1ai.xn--p1ai"', b'"xn--p1ai.com"',
    b'xn--zz"', b'-zz"', b'.xn--zz"', b'-ll-0ea"', b'xn--mnchen-3ya"', b"-mnchen-3ya.", b'-mnchen-3y"', b'xn--fiqs8s.com"',
    b'"me@xn--p1ai"', b'@xn--p1ai"', b'-p1ai","a', b'-zz","a', b'-p1ai","b', b'-zz","b', b'"a":"xn--p1ai"', b'","xn--p1ai"',
    'xn--p1ai。x"'.encode(),
]  # fmt: skip
WHOLE = {
    "hostname": b'"a.xn--mnchen-3ya.xn--ll-0ea"', "idn-hostname": '"xn--p1ai。a"'.encode(), "email": b'"me@xn--p1ai.com"',
    "in an object": b'{"a":"xn--p1ai","b":"xn--p1ai"}', "in an array": b'["xn--p1ai","a.xn--p1ai"]',
}  # fmt: skip


@pytest.mark.parametrize("kind", SCHEMAS)
def test_tokens_that_begin_before_a_label_are_allowed_where_their_bytes_one_by_one_are(
    kind: str, make_vocabulary: Callable[..., Vocabulary]
) -> None:
    words = [*WORDS, *SPANNING]
    vocabulary = make_vocabulary(*words)
    grammar = JsonSchema(SCHEMAS[kind])
    matcher, single = compile(grammar, vocabulary).matcher(), compile(grammar, BYTES).matcher()
    row = np.zeros(vocabulary.row_words, dtype=np.uint32)
    met: set[bytes] = set()
    for byte in WHOLE[kind]:
        matcher.fill_mask(row)
        allowed = bits(row)
        for token, word in enumerate(words, start=256):
            expected = single.fork().accept_many(word) == len(word)
            assert (token in allowed) == expected, (single.text, word)
            assert (matcher.fork().accept_many([token]) == 1) == expected, (single.text, word)
            if expected and word in SPANNING:
                met.add(word)
        matcher.accept(byte)
        single.accept(byte)
    assert b'-p1ai"' in met
