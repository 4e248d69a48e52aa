"""What Lark's notation comes to in numbers, and what is embedded in it."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path

import lark
import pytest
from lark.indenter import PythonIndenter

from grammars import EmptyLanguage, GrammarError, Indenter, JsonSchema, Lark, Regex, SpecialToken, UnsupportedFeature
from grammars.context_free import ContextFree, Embedded
from grammars.lark import CollisionWarning, LarkWarning, load
from tests.grammars.recognisers import accepts

PYTHON = Path(lark.__file__).parent / "grammars" / "python.lark"


def _takes(text: str, sentence: str, **options: object) -> bool:
    return accepts(load(Lark(text, **options)), sentence)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("grammar", "good", "bad"),
    [
        ('start: pair{"a", B}\npair{x, y}: x "," y | y\nB: "b"', ["a,b", "b"], ["b,a", "a"]),
        ('?start: _list -> all\n_list: ITEM | _list ";" ITEM\nITEM: "x"', ["x", "x;x"], [";", ""]),
        ('start: ("a" | "b")~2..3 ["c"] "d"?', ["ab", "bbacd"], ["a", "aaaa", "abdc"]),
        ('start: "a"~60..70', ["a" * 60, "a" * 70], ["a" * 59, "a" * 71]),
        ('start: "select"i /[a-z]+/i " x"', ["SeLectAbc x"], ["select x"]),
        ('start: "a".."f" /./s', ["c\n"], ["gx", "c"]),
        ("start: A\nA: /a # comment\n b/x | \"c\"+", ["ab", "ccc"], ["a b"]),
        ('%import common (WS, INT)\n%import common.CNAME -> NAME\nstart: INT NAME\n%ignore WS', ["1 a", " 12\n_b "], ["a 1"]),
        ("%import common.INT -> N\nstart: N", ["12"], ["x"]),
        ("%import unicode.WS_INLINE\nstart: WS_INLINE", [" \xa0"], ["\n"]),
        ("%import python.NAME\nstart: NAME", ["é_1"], ["1a"]),
        ('start: start "+" start | "1"', ["1+1+1"], ["1+", ""]),
        ('start: start start | "a" |', ["", "aaaa"], ["b"]),
        ('start: x\nx: y | "a"\ny: x', ["a"], ["aa"]),
        ('start.2: a | b\na.1: "x" -> one\nb: "x" "y"', ["x", "xy"], ["y"]),
        ("start: /a+/ /a+/", ["aa", "aaaa"], ["a"]),
    ],
)  # fmt: skip
def test_what_a_grammar_takes(grammar: str, good: list[str], bad: list[str]) -> None:
    loaded = load(Lark(grammar))
    assert [text for text in good if not accepts(loaded, text)] == []
    assert [text for text in bad if accepts(loaded, text)] == []


def test_grammars_import_from_beside_them(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "main.lark").write_text('%import .terms.A\n%import .below.more (b)\nstart: A b\n%override A: "x"\n')
    (tmp_path / "terms.lark").write_text('A: "a"\n')
    (tmp_path / "below" / "more.lark").write_text('%import .rest.C\nb: "b" C\n')
    (tmp_path / "below" / "rest.lark").write_text('C: "c"\n%extend C: "d"\n')
    value = Lark(tmp_path / "main.lark")
    for file in tmp_path.rglob("*.lark"):
        file.unlink()  # the value holds all of it
    assert accepts(load(value), "xbc")
    assert accepts(load(value), "xbd")
    assert not accepts(load(value), "abc")


def test_texts_import_what_is_given() -> None:
    assert _takes("%import .t (A)\nstart: A", "q", imports={"t.lark": 'A: "q"'})


def test_terminals_keep_priority_flags_and_names() -> None:
    grammar = load(Lark('start: A "b"i "++" /c/\nA.3: /a/'))
    terminals = {one.name: one for one in grammar.terminals}
    assert terminals["A"].priority == 3
    assert terminals["B"].literal
    assert terminals["B"].flags == {"i"}
    assert not terminals["/c/"].literal
    assert terminals['"++"'].pattern == "++"
    assert [rule.line for rule in grammar.rules] == [1]


def test_schemas_grammars_and_tokens_stand_in_rules() -> None:
    text = 'start: "call" %json {"type":\n  "integer"} <|end|> x\nx: @name | <[17]> | @name\n'
    grammar = load(Lark(text, embedded={"name": Regex("[a-z]+")}))
    found = [one.language for one in grammar.terminals if not one.literal]
    assert found == [
        Embedded(JsonSchema({"type": "integer"})),
        SpecialToken("<|end|>"),
        Embedded(Regex("[a-z]+")),
        SpecialToken(number=17),
    ]
    assert {rule.line for rule in grammar.rules} == {1, 3}


def test_embedding_marks_in_strings_expressions_and_comments_are_text() -> None:
    text = 'start: "<|a|>" /@b|%json/  // %json @c <d>\n# <e>\n'
    assert _takes(text, "<|a|>@b")
    assert _takes(text, "<|a|>%json")


def test_embedded_grammars_need_the_dynamic_lexer() -> None:
    with pytest.raises(UnsupportedFeature, match=r"line 2.*dynamic"):
        load(Lark('start: "a"\n  | <|x|>', lexer="contextual"))


def test_a_grammar_without_sentences_names_what_derives_nothing() -> None:
    with pytest.raises(EmptyLanguage, match="y"):
        load(Lark('start: "a" y\ny: "b" y'))


def test_rules_that_take_part_in_nothing_are_named() -> None:
    with pytest.warns(LarkWarning, match=r"y \(line 2\)"):
        load(Lark('start: "a" | "c" y\ny: "b" y'))


def test_colliding_terminals_are_named_with_a_text() -> None:
    with pytest.warns(CollisionWarning, match="A and B both match 'ab'; B is taken"):
        load(Lark("start: A | B\nA: /a[bx]/\nB: /[ay]b+/", lexer="contextual"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(Lark("start: A | B\nA.1: /a[bx]/\nB: /[ay]b+/", lexer="contextual"))
        load(Lark('start: A | "a"\nA: /[ab]/', lexer="contextual"))


def test_contextual_grammars_carry_the_table_and_the_order_of_lark() -> None:
    grammar = load(Lark('start: "if" NAME | NAME "=" NAME\nNAME: /[a-z]+/\n%ignore " "', lexer="contextual"))
    assert grammar.lalr is not None
    names = [one.name for one in sorted(grammar.terminals, key=lambda one: one.order)]
    assert names == ["NAME", "IF", "EQUAL", '" "'] or names == ["NAME", "IF", '" "', "EQUAL"]
    start = {grammar.terminals[number].name for number in grammar.lalr.accepts[grammar.lalr.start]}
    assert start == {"IF", "NAME", '" "'}
    assert accepts(grammar, "if x")
    assert accepts(grammar, "iff = x")
    assert not accepts(grammar, "if = x")


@cache
def _python() -> ContextFree:
    with pytest.warns(CollisionWarning, match="COMMENT and _NEWLINE both match '#'"):
        return load(Lark(PYTHON, start="file_input", lexer="contextual", indenter=PythonIndenter()))


PROGRAM = """
def f(a, b=(1,
   2)):
    if a:
        return b  # comment

    x = [a,

  b]
    return '''
 text'''

print(f("x" 'y', 0x1f))
"""


@pytest.mark.parametrize(
    ("text", "good"),
    [
        (PROGRAM, True),
        (PROGRAM.replace("    x =", "   x ="), False),
        (PROGRAM.replace("'''\n\n", "''\n\n"), False),
        ("x = 00\n", True),
        ("x = 01\n", False),
        ("x = ''''\n", False),
        ("if x:\n", False),
        ("x = )\n", False),
    ],
)
def test_the_python_grammar_of_lark_with_its_indenter(text: str, good: bool) -> None:
    assert accepts(_python(), text) is good


def test_an_indenter_that_does_more_than_lark_is_refused() -> None:
    class Own(PythonIndenter):
        def handle_NL(self, token: lark.Token):  # type: ignore[no-untyped-def]
            return super().handle_NL(token)

    assert Lark("start: A", lexer="contextual", indenter=PythonIndenter).indenter == Indenter.of(PythonIndenter())
    with pytest.raises(GrammarError, match="handle_NL"):
        Lark("start: A", lexer="contextual", indenter=Own())
    with pytest.raises(GrammarError, match="contextual"):
        Lark("start: A", indenter=PythonIndenter())
