"""The ECMA-262 dialect: random and recorded patterns against a JavaScript engine where there is one, and examples."""

from __future__ import annotations

import itertools
import json
import lzma
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grammars.errors import GrammarError, RegexError, UnsupportedFeature
from grammars.regex import ecma_search, parse
from grammars.regular import ALL, NONE, Rx, concat, literal, matches, moves, shortest
from grammars.regular.charset import sample

SCHEMAS = Path(__file__).parents[4] / "shared" / "data" / "maskbench-dev.jsonl.xz"
ALPHABET = "ab_ \n-A1]{k\u017f"

# Each pattern as with the `u` flag first, then without, as our parser reads it.
ENGINE = """
const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(cases.map(([pattern, flags, texts]) => {
  for (const unicode of ["u", ""]) {
    try {
      const compiled = new RegExp(pattern, flags + unicode);
      return [unicode, texts.map((text) => compiled.test(text))];
    } catch (error) {}
  }
  return null;
})));
"""
Verdict = tuple[str, list[bool]] | None


def javascript(cases: list[tuple[str, str, list[str]]]) -> list[Verdict]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no JavaScript engine (node) is installed")
    run = subprocess.run([node, "-e", ENGINE], input=json.dumps(cases), capture_output=True, text=True, check=True)
    verdicts: list[Verdict] = json.loads(run.stdout)
    return verdicts


def random_pattern(source: random.Random, depth: int = 2) -> str:
    letters = ["a", "b", "ab", "-", "A", "_", "1", " ", r"\n", "]", "{", "}", r"\-", r"\_", r"\x41", r"\u0061"]
    letters += [r"\u{62}", r"\ca", r"\/", r"\0", r"\101", r"\8", "k", r"\a"]
    classes = [".", r"\w", r"\d", r"\s", r"\W", "[ab]", "[^a]", "[a-b_]", r"[\s-]", r"[^\W]", "[]", "[^]", r"[\d-a]"]
    classes += ["[a-]", "[-a]", r"[\b_]", r"\p{Lu}", r"\P{L}", r"[\-a]", r"[\c1a]", r"[\ca]"]
    behind = ["a", "b", "ab", r"\w", "^a", "a|b", "[^b]a", "^", "", "(?<!a)b", "a*b", r"\d+"]

    def atom(depth: int) -> str:
        kind = source.random()
        if kind < 0.35:
            return source.choice(letters)
        if kind < 0.5:
            return source.choice(classes)
        if kind < 0.72:
            return source.choice(["^", "$", r"\b", r"\B"])
        if depth <= 0:
            return "a"
        if kind < 0.82:
            return f"({source.choice(['', '?:'])}{choice(depth - 1)})"
        if kind < 0.93:
            return f"({source.choice(['?=', '?!'])}{choice(depth - 1)})"
        return f"({source.choice(['?<=', '?<!'])}{source.choice(behind)})"

    def piece(depth: int) -> str:
        one = atom(depth)
        if source.random() < 0.3:
            one = f"(?:{one})" if source.random() < 0.7 else one
            one += source.choice(["*", "+", "?", "{2}", "{1,2}", "*?", "{0,3}", "{2,}", "+?", "{,2}", "{a"])
        return one

    def choice(depth: int) -> str:
        count = source.choice([1, 1, 1, 2, 3])
        return "|".join("".join(piece(depth) for _ in range(source.randint(0, 4))) for _ in range(count))

    return choice(depth)


@pytest.mark.parametrize("seed", range(3))
def test_random_patterns_match_exactly_what_javascript_matches(seed: int) -> None:
    source = random.Random(seed)
    texts = ["".join(letters) for n in range(4) for letters in itertools.product("ab \n", repeat=n)]
    texts += ["".join(source.choice(ALPHABET) for _ in range(source.randint(1, 7))) for _ in range(60)]
    cases = [(random_pattern(source), source.choice(["", "", "i", "m", "s", "im"]), texts) for _ in range(150)]
    compared = 0
    for (pattern, flags, _), verdict in zip(cases, javascript(cases), strict=True):
        bits = sum({"i": re.I, "m": re.M, "s": re.S}[flag] for flag in flags)
        if verdict is None:
            # Our lenient reading takes \\p{…} and \\u{…} beside what only Annex B has.
            if not re.search(r"\\[pPu]\{", pattern):
                with pytest.raises(RegexError):
                    parse(pattern, "ecma", bits, "search")
            continue
        unicode, found = verdict
        if not unicode and re.search(r"\\[pPu]\{", pattern):
            continue
        rx = parse(pattern, "ecma", bits, "search")
        compared += 1
        for text, expected in zip(texts, found, strict=True):
            assert matches(rx, text) == expected, (pattern, flags, unicode, text)
    assert compared > 80


def recorded_patterns() -> list[str]:
    if not SCHEMAS.exists():
        pytest.skip("the recorded schemas are not here")

    def walk(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            if isinstance(value.get("pattern"), str):
                yield value["pattern"]
            if isinstance(value.get("patternProperties"), dict):
                yield from value["patternProperties"]
            for child in value.values():
                yield from walk(child)
        elif isinstance(value, list):
            for child in value:
                yield from walk(child)

    with lzma.open(SCHEMAS, "rt", encoding="utf-8") as lines:
        return sorted({pattern for line in lines for pattern in walk(json.loads(line)["schema"])})


def sampled(source: random.Random, rx: Rx, length: int) -> str:
    text = ""
    for _ in range(source.randint(0, length)):
        following = moves(rx)
        if not following:
            break
        charset, rx = source.choice(following)
        text += chr(source.choice([sample(charset), charset.a[0][0], charset.a[-1][1]]))
    rest = shortest(rx)
    assert rest is not None
    return text + rest


def test_every_recorded_pattern_parses_and_means_what_javascript_means() -> None:
    source = random.Random(1)
    patterns = recorded_patterns()
    cases: list[tuple[str, str, list[str]]] = []
    refused = []
    for pattern in patterns:
        try:
            rx = ecma_search(pattern)
        except GrammarError:
            refused.append(pattern)
            continue
        texts = ["", "a"]
        for _ in range(3):
            word = sampled(source, rx, 12) if shortest(rx) is not None else ""
            at = source.randint(0, len(word))
            texts += [word, word[:at] + source.choice("a0-_. \n/") + word[at + 1 :], word[:at], word + "\n"]
        cases.append((pattern, "", texts))
    assert len(refused) <= len(patterns) // 100, refused
    for (pattern, _, texts), verdict in zip(cases, javascript(cases), strict=True):
        if verdict is None:
            continue
        rx = ecma_search(pattern)
        for text, expected in zip(texts, verdict[1], strict=True):
            if verdict[0] or text.isascii():
                assert matches(rx, text) == expected, (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("^foo", ["foo", "food"], ["a foo", ""]),
        ("foo", ["a food", "foo"], ["fo"]),
        ("^$", [""], ["a", "\n"]),
        ("a$", ["a", "ba"], ["a\n", "ab"]),
        ("^a|b$", ["ax", "xb", "ab"], ["xa", "bx"]),
        (r"^\u{1F600}\uD83D\uDE00$", ["😀😀"], ["😀"]),
        (r"^\cJ\x41\u0042\0$", ["\nAB\0"], ["JAB0"]),
        (r"^[\w.\-_\/]+$", ["a-b_c./d"], ["a b"]),
        (r"^\p{Lu}\P{Lu}[\p{Nd}\-]$", ["Éé٣", "Ab-"], ["ab1"]),
        ("^[^]$", ["\n", "😀"], ["", "ab"]),
        ("[]", [], ["", "a"]),
        ("^{a}]$", ["{a}]"], ["a"]),
        ("^a{,2}$", ["a{,2}"], ["", "a", "aa"]),
        (r"^\-\_\@\ \:$", ["-_@ :"], ["-_@ "]),
        ("(?i)^straße$", ["STRAßE", "straße"], ["strasse"]),
        (r"\A[a-z]+\Z", ["abc"], ["abc\n", "1abc", ""]),
        (r"^(?P<year>\d{4})(?<m>\d\d)$", ["202401"], ["20240"]),
        ("^(?i:a)b$", ["Ab", "ab"], ["aB"]),
        ("^(?!.*foo).*bar$", ["bar", "xbar"], ["foobar", "ba"]),
        (r"^(?=.{3,5}$)[a-z]+(?:-[a-z]+)*$", ["abc", "a-bc"], ["ab", "abcdef", "ab-"]),
        (r"^(?:(?!--).)*$", ["a-b", ""], ["a--b"]),
        (r"\bcat\b", ["cat", "a cat!", "cat's"], ["concat", "cats"]),
        (r"^[a-z-]+(?<!-)$", ["a-b"], ["a-", ""]),
        (r"^(a+)+$", ["aaa"], ["", "ab"]),
    ],
)
def test_examples(pattern: str, inside: list[str], outside: list[str]) -> None:
    rx = ecma_search(pattern)
    assert [text for text in inside if not matches(rx, text)] == []
    assert [text for text in outside if matches(rx, text)] == []


@pytest.mark.parametrize(
    ("pattern", "position"),
    [
        ("(", 0), ("a)", 1), ("[a", 0), ("[b-a]", 1), ("*a", 0), ("a**", 2), ("a++", 2), ("a{2,1}", 1), ("\\", 0),
        ("(?>a)", 0), ("(?#a)", 0), ("(?<1a>b)", 0), (r"a\p{Nonsense}", 1), (r"\pL", 0), (r"a\Zb", 1), (r"a\Ab", 1),
        (r"a\u{110000}", 1),
    ],
)  # fmt: skip
def test_what_is_no_expression_is_an_error_with_its_position(pattern: str, position: int) -> None:
    with pytest.raises(RegexError) as caught:
        ecma_search(pattern)
    assert caught.value.position == position


@pytest.mark.parametrize(("pattern", "position"), [(r"(a)\1", 3), (r"(?<n>a)b\k<n>", 8), (r"\1(a)", 0)])
def test_back_references_are_refused_with_their_position(pattern: str, position: int) -> None:
    with pytest.raises(UnsupportedFeature) as caught:
        ecma_search(pattern)
    assert caught.value.position == position


def test_plain_anchored_patterns_become_plain_expressions() -> None:
    assert ecma_search("^foo.*") is concat(literal("foo"), ALL)
    assert ecma_search("") is ALL
    assert ecma_search(".*") is ALL
    assert ecma_search("^") is ALL
    assert ecma_search("a*") is ALL
    assert ecma_search("^(?:abc)$") is literal("abc")
    assert ecma_search("$^") is literal("")
    assert ecma_search("a^") is NONE
