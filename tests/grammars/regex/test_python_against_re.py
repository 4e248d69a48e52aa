"""The Python dialect against `re` itself: random patterns with assertions everywhere, tricky ones, malformed ones."""

from __future__ import annotations

import itertools
import random
import re
import warnings

import pytest

from grammars.errors import RegexError, UnsupportedFeature
from grammars.regex import parse
from grammars.regular import NONE, Rx, derivative, matches, moves, shortest
from grammars.regular.charset import sample

ALPHABET = "ab_ \n-A1"
FLAGS = (0, 0, re.I, re.M, re.S, re.I | re.M, re.A)
BEHIND = ("a", "b", "ab", r"\w", "^a", "a|b", "[^b]a", "^", "", "(?<!a)b", r"\Aab")


def random_pattern(source: random.Random, depth: int = 2) -> str:
    def atom(depth: int) -> str:
        kind = source.random()
        if kind < 0.35:
            return source.choice(["a", "b", "ab", "-", "A", "_", "1", " ", r"\n"])
        if kind < 0.5:
            return source.choice([".", r"\w", r"\d", r"\s", r"\W", "[ab]", "[^a]", "[a-b_]", r"[\s-]", r"[^\W]"])
        if kind < 0.72:
            return source.choice(["^", "$", r"\b", r"\B", r"\A", r"\Z"])
        if depth <= 0:
            return "a"
        if kind < 0.82:
            return f"({source.choice(['', '?:', '?:', '?i:', '?m:', '?s:', '?-i:'])}{choice(depth - 1)})"
        if kind < 0.93:
            return f"({source.choice(['?=', '?!'])}{choice(depth - 1)})"
        if kind < 0.98:
            return f"({source.choice(['?<=', '?<!'])}{source.choice(BEHIND)})"
        return f"(?>{choice(depth - 1)})"

    def piece(depth: int) -> str:
        one = atom(depth)
        if source.random() < 0.3:
            one = f"(?:{one})" if source.random() < 0.7 else one
            one += source.choice(["*", "+", "?", "{2}", "{1,2}", "*?", "{0,3}", "{2,}", "+?", "*+", "?+", "++"])
        return one

    def choice(depth: int) -> str:
        count = source.choice([1, 1, 1, 2, 3])
        return "|".join("".join(piece(depth) for _ in range(source.randint(0, 4))) for _ in range(count))

    return choice(depth)


def texts_of(source: random.Random) -> list[str]:
    short = ["".join(letters) for n in range(4) for letters in itertools.product("ab \n", repeat=n)]
    return short + ["".join(source.choice(ALPHABET) for _ in range(source.randint(4, 7))) for _ in range(30)]


def sampled(source: random.Random, rx: Rx, length: int = 10) -> str | None:
    """A word of the language by a random walk over its derivatives, then the shortest way to an end."""
    text = ""
    for _ in range(source.randint(0, length)):
        following = moves(rx)
        if not following:
            break
        charset, rx = source.choice(following)
        text += chr(source.choice([sample(charset), charset.a[0][0], charset.a[-1][1]]))
    rest = shortest(rx)
    return None if rest is None else text + rest


@pytest.mark.parametrize("seed", range(6))
def test_random_patterns_match_exactly_what_re_matches(seed: int) -> None:
    source = random.Random(seed)
    texts = texts_of(source)
    compared = 0
    for _ in range(60):
        pattern, flags = random_pattern(source), source.choice(FLAGS)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compiled = re.compile(pattern, flags)
        except re.error:
            with pytest.raises((RegexError, UnsupportedFeature)):
                parse(pattern, "python", flags)
            continue
        try:
            whole, part = parse(pattern, "python", flags), parse(pattern, "python", flags, "search")
        except UnsupportedFeature as error:
            # Nothing but giving up backtracking is refused among these.
            assert error.position is not None and (pattern[error.position] in "*+?{" or "(?>" in pattern), pattern
            continue
        compared += 1
        for text in texts:
            assert matches(whole, text) == (compiled.fullmatch(text) is not None), (pattern, flags, text)
            assert matches(part, text) == (compiled.search(text) is not None), (pattern, flags, text)
        for _ in range(3):
            word = sampled(source, whole)
            if word is not None:
                assert compiled.fullmatch(word), (pattern, flags, word)
                other = word[: len(word) // 2] + source.choice(ALPHABET) + word[len(word) // 2 + 1 :]
                assert matches(whole, other) == (compiled.fullmatch(other) is not None), (pattern, flags, other)
            found = sampled(source, part)
            if found is not None:
                assert compiled.search(found), (pattern, flags, found)
    assert compared > 30


@pytest.mark.parametrize(
    "pattern",
    [
        r"\x41\u00e9\U0001F600\N{GREEK SMALL LETTER ALPHA}",
        r"[\x41-\x43\u00e0-\u00ef]+",
        r"\0\07\101\1011[\101\0]",
        r"[]a]+|[^]a]{2}",
        r"[a\]b-]+",
        r"[\b]",
        r"a{,3}b{2,}c{1}d{e{1,f",
        r"x{}y{,}",
        "(?x) a b # comment\n c [ d] \\  e",
        "(?x: a b)c d",
        "(?xi)a b",
        r"(?s:.)(?-s:.).",
        r"(?i)straSSe\b",
        r"(?a:\w)\w(?u:\w)",
        r"(?P<year>\d{4})-(?P<month>\d\d)",
        r"(?#comment)a(?#another)",
        r"a(?:b(?:c(?:d)*)*)*",
        r"(?=.*\d)(?=.*[a-z])\w{4,8}",
        r"(?!abc)\w+(?<!xyz)",
        r"(?:(?!-->).)*-->",
        r'"(?:[^"\\]|\\.)*"',
        r"(?>ab|cd)e",
        r"a*+b|[^b]++b",
        r"(?:ab){2,3}+a",
        r"\d++(?!\.)",
        r"(?>\d+)",
        r"(?>x\d+)y",
        r"^(?:a|b$|^c)+$",
        r"\Aa\Z|\Ab$",
        r"(?m)^a$\n^b$",
        r"a|b|ab|",
        r"()|(?:)*",
        r"(?<=a)b|^(?<!a)b",
        r"\ba+\b \ba",
        "\t\\\t\\-\\ \\é",
    ],
)
@pytest.mark.parametrize("mode", ["fullmatch", "search"])
def test_tricky_patterns_match_exactly_what_re_matches(pattern: str, mode: str) -> None:
    source = random.Random(pattern)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = re.compile(pattern)
    rx = parse(pattern, "python", 0, "search" if mode == "search" else "fullmatch")
    check = compiled.search if mode == "search" else compiled.fullmatch
    samples = [word for _ in range(20) if (word := sampled(source, rx)) is not None]
    assert samples
    for word in samples:
        assert check(word), word
        for _ in range(4):
            at = source.randint(0, len(word))
            changed = (
                word[:at] + source.choice(["", *ALPHABET, "é", "\\", '"', "."]) + word[at + source.randint(0, 1) :]
            )
            assert matches(rx, changed) == (check(changed) is not None), changed


@pytest.mark.parametrize(
    "pattern",
    [
        "(", ")", "a)", "(?:a", "[", "[]", "[^]", "[a", "[b-a]", r"[\d-z]", r"[a-\d]", "*", "a**", "a|*", "^*", r"\b+",
        "a{2,1}", "\\", r"\q", r"[\q]", r"\x1", r"\u12", r"\U0011FFFF", r"\N{NO SUCH NAME}", r"\N", r"\400", r"[\400]",
        r"[\8]", "(?P<a>b)(?P<a>c)", "(?P<1a>b)", "(?P<>b)", "(?P<a", "(?Pa)", "(?<a>b)", "(?q)", "(?i", "(?-i)",
        "(?i-i:a)", "(?L)a", "(?au:a)", "a(?i)b", "(?P=a)", r"\1", r"(\1)", r"(?<=a+)b", r"(?<=a|bc)d", "(?#a", "(?",
        "a{99999999999}", "(?-a:b)", "(?:(?i)a)",
    ],
)  # fmt: skip
def test_what_re_does_not_compile_is_an_error_with_a_position(pattern: str) -> None:
    with pytest.raises((re.error, OverflowError)):
        re.compile(pattern)
    with pytest.raises(RegexError) as caught:
        parse(pattern, "python")
    assert 0 <= caught.value.position <= len(pattern)
    assert caught.value.pattern == pattern


@pytest.mark.parametrize(
    ("pattern", "position"),
    [
        (r"(a)\1", 3),
        (r"(?P<x>a)b(?P=x)", 9),
        (r"(a)?(?(1)b|c)", 4),
        (r"ab(?>a|ab)c", 2),
        (r"(?:a|ab)++c", 8),
        (r"a(?<=(?=a))", 5),
        (r"ab(?<=b\b)", 7),
    ],
)
def test_what_is_not_regular_or_not_exact_is_refused_with_its_position(pattern: str, position: int) -> None:
    re.compile(pattern)
    with pytest.raises(UnsupportedFeature) as caught:
        parse(pattern, "python")
    assert caught.value.position == position


def test_flags_that_contradict_each_other_are_errors() -> None:
    with pytest.raises(ValueError, match="incompatible"):
        parse("a", "python", re.A | re.U)
    with pytest.raises(ValueError, match="LOCALE"):
        parse("a", "python", re.L)


def test_patterns_that_match_nothing_are_the_empty_language() -> None:
    assert parse("a$b", "python") is NONE
    assert parse("(?!)", "python") is NONE
    assert parse(r"a\bb", "python") is NONE
    assert derivative(parse(r"[^\s\S]", "python"), 97) is NONE
