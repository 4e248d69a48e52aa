"""Named sets and case folding, against `re` and `unicodedata` over all of Unicode."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

import pytest

from grammars.errors import RegexError
from grammars.regex import casing, parse
from grammars.regex.casing import ecma_ignore_case, python_ignore_case
from grammars.regex.generate_unicode import everything, found
from grammars.regex.unicode_sets import cased, invert, property_set
from grammars.regular import ANY, NONE, Rx, chars
from grammars.regular.charset import contains, meet, minus

EVERYTHING = everything()
"""Indices are code points; spaces stand for surrogates."""


def members(charset: Rx) -> set[str]:
    return {chr(code) for lo, hi in charset.a for code in range(lo, hi + 1)}


def matched(pattern: str, flags: int) -> Rx:
    return chars(found(re.finditer(f"(?:{pattern})+", EVERYTHING, flags)))


@pytest.mark.parametrize(
    "pattern", [r"\w", r"\d", r"\s", r"\W", r"\D", r"\S", ".", r"[^\W\d_]", r"[\s\w]", r"[^a-z\n]"]
)
@pytest.mark.parametrize("flags", [0, re.ASCII, re.DOTALL, re.IGNORECASE])
def test_python_classes_match_what_re_matches(pattern: str, flags: int) -> None:
    assert parse(pattern, "python", flags) is matched(pattern, flags)


@pytest.mark.parametrize("flags", [re.IGNORECASE, re.IGNORECASE | re.ASCII])
def test_a_letter_without_case_matches_what_re_matches(flags: int) -> None:
    letters = "".join(map(chr, cased()))
    for char in letters[::41] + "kKsSiIµſK\u0130\u0131ẞßςσΣ\u0345ႠⴀꭰᎠ𐐀𐐨":
        expected = set(re.findall(re.escape(char), letters, flags)) | {char}
        assert members(parse(re.escape(char), "python", flags)) == expected, ascii(char)


@pytest.mark.parametrize(
    "pattern",
    ["[a-z]", "[^a-z]", "[k-s]", "[À-ÿ]", "[α-ω]", "[^Σ]", "[ı]", "[İ]", "[ſ-Ɛ]", "[A-Z\\d]", "[K\\W]", "[ǅ]", "[ᾈ-ᾯ]"],
)
@pytest.mark.parametrize("flags", [re.IGNORECASE, re.IGNORECASE | re.ASCII])
def test_a_set_without_case_matches_what_re_matches(pattern: str, flags: int) -> None:
    assert parse(pattern, "python", flags) is matched(pattern, flags)


def test_letters_with_case_are_those_that_change() -> None:
    changing = {ord(c) for c in EVERYTHING if c.lower() != c.upper()}
    assert changing <= set(cased())


def test_ecma_classes_are_those_of_the_standard() -> None:
    assert members(parse(r"\d", "ecma")) == set("0123456789")
    assert parse(r"\w", "ecma") is matched(r"\w", re.ASCII)
    spaces = set("\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff") | {
        chr(c) for c in range(0x2000, 0x200B)
    }
    assert members(parse(r"\s", "ecma")) == spaces
    assert parse(r"\S", "ecma") is minus(ANY, parse(r"\s", "ecma"))
    assert parse(".", "ecma") is matched("[^\n\r\u2028\u2029]", 0)
    assert parse(".", "ecma", re.DOTALL) is ANY
    assert parse("[^]", "ecma") is ANY
    assert parse("[]", "ecma") is NONE


def test_general_categories_agree_with_unicodedata() -> None:
    categories: dict[str, list[tuple[int, int]]] = {}
    for code, char in enumerate(EVERYTHING):
        if not 0xD800 <= code <= 0xDFFF:
            categories.setdefault(unicodedata.category(char), []).append((code, code))
    assigned = invert(chars(categories.pop("Cn")))
    # A newer Unicode than the interpreter's moves a handful of characters to another category.
    changed = 0
    for category, expected in categories.items():
        own = meet(property_set(f"gc={category}"), assigned)
        changed += sum(hi - lo + 1 for lo, hi in minus(own, chars(expected)).a or ())
    assert changed < 40
    groups = {
        "L": "Letter",
        "LC": "Cased_Letter",
        "M": "Mark",
        "N": "Number",
        "P": "punct",
        "S": "Symbol",
        "C": "Other",
    }
    for short, long in groups.items():
        assert property_set(short) is property_set(long) is property_set(f"General_Category={long}")


def test_properties_have_the_characters_that_one_expects() -> None:
    for expression, inside, outside in (
        ("Script=Greek", "αΩ", "aб"),
        ("sc=Grek", "αΩ", "aб"),
        ("scx=Deva", "कॐ\u1cd0", "a"),
        ("Greek", "α", "a"),
        ("Alphabetic", "aéक", "1-"),
        ("Alpha", "a", "1"),
        ("White_Space", " \u2003", "a"),
        ("Emoji", "😀#", "a"),
        ("Emoji_Presentation", "😀", "#"),
        ("ASCII", "a\x7f", "é"),
        ("Any", "a\U0010ffff", ""),
        ("Assigned", "a", "\u0378"),
        ("ID_Start", "aé", "1"),
        ("Uppercase", "AÉ", "aé"),
        ("Lu", "AÉ", "aé"),
    ):
        found = property_set(expression)
        assert all(contains(found, ord(c)) for c in inside), expression
        assert not any(contains(found, ord(c)) for c in outside), expression


def test_properties_agree_with_the_regex_package() -> None:
    regex = pytest.importorskip("regex")
    for expression in ("Alphabetic", "Script=Latin", "scx=Cyrl", "gc=Nd", "XID_Continue", "Extended_Pictographic"):
        spelled = regex.finditer(rf"\p{{{expression}}}+", EVERYTHING)
        assert property_set(expression) is chars(found(spelled)), expression


def test_scripts_are_disjoint_and_cover_everything() -> None:
    from grammars.regex.unicode_sets import _table

    left = ANY
    scripts = {encoded: name for name, encoded in _table()[1].items() if name.startswith("sc:")}
    for name in scripts.values():
        script = property_set("sc=" + name[3:])
        assert script is NONE or minus(script, left) is NONE, name
        left = minus(left, script)
    assert left is NONE


@pytest.mark.parametrize("expression", ["Klingon", "Script=Klingon", "gc=Xx", "greek", "Script=", "=L", "InGreek"])
def test_an_unknown_property_is_an_error_with_its_place(expression: str) -> None:
    with pytest.raises(RegexError) as caught:
        parse(rf"a\p{{{expression}}}\p{{L}}", "ecma")
    assert caught.value.position >= 1


def test_ecma_case_folding_follows_canonicalize() -> None:
    def folded(text: str, unicode: bool) -> set[str]:
        return members(ecma_ignore_case(chars((ord(c), ord(c)) for c in text), unicode))

    assert folded("k", True) == {"k", "K", "\u212a"}
    assert folded("k", False) == {"k", "K"}
    assert folded("s", True) == {"s", "S", "ſ"}
    assert folded("ß", True) == {"ß", "ẞ"}
    assert folded("ß", False) == {"ß"}
    assert folded("σ", True) == {"σ", "ς", "Σ"}
    assert folded("ı", True) == {"ı"}
    assert folded("İ", True) == {"İ"}
    assert folded("Ω", True) == {"Ω", "ω", "\u2126"}
    assert members(python_ignore_case(chars([(0x3C3, 0x3C3)]), False)) == {"σ", "ς", "Σ"}


@pytest.mark.parametrize(
    "table", [casing._python_partners, casing._ascii_partners, casing._simple_folding_partners, casing._upper_partners]
)
def test_the_short_cut_for_ascii_agrees_with_the_whole_table(table: Callable[[], dict[int, tuple[int, ...]]]) -> None:
    for code in range(128):
        expected = {chr(other) for other in table().get(code, (code,))}
        assert set(casing.ascii_partners_of(chr(code), table)) == expected
