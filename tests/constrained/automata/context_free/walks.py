"""Random Lark grammars, and every text of them up to a length, held against what Lark itself parses."""

from __future__ import annotations

import random
from itertools import product

import lark
from hypothesis import strategies as st

from constrained import compile as compile_constraint
from constrained.compile import Constraint
from constrained.matcher import Matcher
from constrained.vocabulary import Vocabulary
from grammars import Lark
from tests.constrained.languages import mask

LETTERS = "ab "
TOKENS = [b"a", b"b", b" ", b"A", b"ab", b"ba", b"aa", b"bb", b" a", b"b ", b"  ", b"a b", b"aab"]
VOCABULARY = Vocabulary.from_token_bytes([*TOKENS, None], eos_token_ids=[len(TOKENS)])
END = len(TOKENS)
_SINGLE = {token[0]: number for number, token in enumerate(TOKENS) if len(token) == 1}

TERMINALS = [
    '"a"', '"b"', '"ab"', '"ba"', '"aa"', '"a"i', "/a+/", "/[ab]/", "/a*b/", "/a+?b?/", "/b+/", "/a(?!b)/", "/ab?/",
    "/b| a/", "/(a|ab)(b|)/", "/ab*a/", "/ /", "/a(?=b)/", "/[ab]+/", "/.b/",
]  # fmt: skip
_IGNORED = ["", "", "%ignore / +/", "%ignore / +/", "%ignore / /", '%ignore "b"']


@st.composite
def grammar_texts(draw: st.DrawFn) -> str:
    """Grammars of a few rules over terminals that collide in every way."""
    names = ["start", "x", "y"][: draw(st.integers(1, 3))]
    chosen = draw(st.lists(st.sampled_from(TERMINALS), min_size=2, max_size=5, unique=True))
    lines = []
    for number, pattern in enumerate(chosen):
        priority = draw(st.sampled_from(["", "", "", ".2"]))
        lines.append(f"T{number}{priority}: {pattern}")
    symbols = st.sampled_from([*names, *(f"T{number}" for number in range(len(chosen)))] * 2)
    suffixes = st.sampled_from(["", "", "", "?", "*", "+"])
    for name in names:
        options = draw(st.lists(st.lists(st.tuples(symbols, suffixes), max_size=3), min_size=1, max_size=3))
        lines.append(f"{name}: " + " | ".join(" ".join(map("".join, option)) for option in options))
    return "\n".join([*lines, draw(st.sampled_from(_IGNORED))])


def parses(reference: lark.Lark, text: str) -> bool:
    """Whether Lark parses the text."""
    try:
        reference.parse(text)
    except lark.exceptions.LarkError:
        return False
    except RuntimeError as error:  # Lark found two derivations of the start symbol and takes that for a bug of its own
        return "multiple start symbol items" in str(error)
    return True


def texts(length: int) -> list[str]:
    """All texts of at most that length."""
    return ["".join(letters) for count in range(length + 1) for letters in product(LETTERS, repeat=count)]


def compiled(value: Lark) -> Constraint:
    """A constraint on the small vocabulary."""
    return compile_constraint(value, VOCABULARY)


def after(constraint: Constraint, text: str) -> Matcher:
    """The matcher after a text, byte by byte; the text must be allowed."""
    matcher = constraint.matcher()
    spelled = [_SINGLE[byte] for byte in text.encode()]
    assert matcher.accept_many(spelled) == len(spelled), text
    return matcher


def hold_against(constraint: Constraint, reference: lark.Lark, length: int) -> None:
    """Walk every text that the masks allow, up to a length.

    At each: the text may end iff Lark parses it; the shortest completion makes a text that Lark parses; every letter that
    is not allowed begins no continuation that Lark parses; longer tokens are allowed iff their bytes are, one by one.
    """
    queue = [""]
    while queue:
        text = queue.pop()
        matcher = after(constraint, text)
        allowed = mask(matcher)
        assert (END in allowed) is matcher.is_accepting() is parses(reference, text), text
        completion = matcher.shortest_completion().decode()
        assert parses(reference, text + completion), (text, completion)
        for number, token in enumerate(TOKENS):
            fork = matcher.fork()
            taken = fork.accept_many([_SINGLE[byte] for byte in token])
            assert (number in allowed) is (taken == len(token)), (text, token)
        if len(text) == length:
            continue
        for letter in LETTERS:
            if _SINGLE[ord(letter)] in allowed:
                queue.append(text + letter)
            else:
                for rest in texts(length - 1 - len(text)):
                    assert not parses(reference, text + letter + rest), (text, letter, rest)


def walk(constraint: Constraint, seed: int, max_tokens: int) -> str:
    """A text that random allowed tokens write within a budget."""
    choose = random.Random(seed)
    matcher = constraint.matcher(max_tokens=max_tokens)
    for _ in range(max_tokens):
        allowed = sorted(mask(matcher))
        assert allowed, matcher.text
        matcher.accept(choose.choice(allowed))
        if matcher.is_finished():
            return matcher.text.decode()
    raise AssertionError(f"{matcher.text!r} is not finished after {max_tokens} tokens")
