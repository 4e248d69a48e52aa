"""GBNF and XGrammar's EBNF: what is read, what it means, what is refused and where."""

from __future__ import annotations

import contextlib
import random

import pytest

from grammars import EmptyLanguage, Gbnf, GrammarError, LarkError, LimitExceeded, UnsupportedFeature
from grammars.gbnf import load
from tests.grammars.recognisers import accepts

CHESS = r"""
# a game: numbered moves
root ::= (
    # the first move
    "1. " move " " move "\n"
    ([1-9] [0-9]? ". " move " " move "\n")+
)
move ::= (pawn | nonpawn | castle) [+#]?
# piece type, optional file/rank, optional capture, destination
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn    ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle  ::= "O-O" "-O"?
"""

JSON = r"""
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20}
"""

ARITHMETIC = r"""
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
"""


def _takes(text: str, sentence: str, **options: str) -> bool:
    return accepts(load(Gbnf(text, **options)), sentence)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("grammar", "good", "bad"),
    [
        (
            CHESS,
            ["1. e4 e5\n2. Nf3 Nc6\n", "1. e4 c5\n12. O-O-O exd8=Q#\n"],
            ["1. e4 e5\n", "1. e9 e5\n2. a3 a4\n", ""],
        ),
        (JSON, ['{"a": [1, -2.5e3, null]}', "{}", '{"\\u00e9":"\\\\"}'], ["[]", '{"a":01}', '{"a":"\x01"}', '{"a":1']),
        (ARITHMETIC, ["1+2=3\n", "(a *b) =c\nx=1\n"], ["1+2\n", "+1=1\n", "A=1\n"]),
        ('root ::= ("- " item)+\nitem ::= [^\\n]+ "\\n"', ["- a\n- b c\n"], ["- \n", "a\n"]),
        ('root ::= [ぁ-ゟ]+ | [\\u4e00-\\u9fff]{2} | "\\U0001F600"', ["ひらがな", "漢字", "😀"], ["漢", "kana"]),
        ("root ::= . [.] [a\\-z] [\\]]", ["\n.-]", "x.a]"], ["x.b]", ".."]),
        ('root ::= "a"{3} | "b"{2,} | "c"{,2} | "d"{1,3}', ["aaa", "bbbb", "", "c", "ddd"], ["aa", "b", "ccc", "dddd"]),
        ('root ::= x{2,3} "!"\nx ::= "(" x? ")"', ["()(())!", "()()()!"], ["()!", "()()()()!"]),
        ('root ::= root "+" root | [0-9]', ["1+2+3", "1"], ["1+", "+1"]),
        ('root ::= "a" |\n  "b" |\n  rest\nrest ::= "c"\n', ["a", "b", "c"], ["ab"]),
        ('root::="x"*+ # both\n', ["", "xxx"], ["y"]),
        ('UPPER-case_1.x ::= "y"\nroot ::= UPPER-case_1.x', ["y"], ["x"]),
        ('root ::= ( ) "a" ("" | "b")', ["a", "ab"], ["b"]),
    ],
)
def test_what_a_grammar_takes(grammar: str, good: list[str], bad: list[str]) -> None:
    assert [text for text in good if not _takes(grammar, text)] == []
    assert [text for text in bad if _takes(grammar, text)] == []


def test_repeats_with_large_bounds_are_counted_exactly() -> None:
    nested = 'root ::= x{100,300}\nx ::= "(" x? ")"'
    grammar = load(Gbnf(nested))
    assert len(grammar.rules) < 60
    for count, good in ((99, False), (100, True), (257, True), (300, True), (301, False)):
        assert accepts(grammar, "()" * count) is good


def test_regular_parts_become_one_terminal() -> None:
    grammar = load(Gbnf(r'root ::= "\"" char* "\"" tail' '\nchar ::= [a-z] | [0-9]{4}\ntail ::= "x" tail | ""'))
    assert len(grammar.terminals) == 1
    assert accepts(grammar, '"a1234b"xx')


def test_hexadecimal_escapes_follow_the_dialect() -> None:
    text = r'root ::= "\x41B"'
    assert _takes(text, "AB")
    assert _takes(text, "\u041b", dialect="xgrammar")
    assert not _takes(text, "AB", dialect="xgrammar")


def test_tokens_are_named_or_numbered() -> None:
    grammar = load(Gbnf("root ::= <think> !</think>* <[1001]> Token(7, 8)"))
    tokens = [(one.language.name, one.language.number) for one in grammar.terminals if hasattr(one.language, "number")]
    assert tokens == [("<think>", None), ("", 1001), ("", 7), ("", 8)]


TAGS = """
root ::= TagDispatch(("<call>", body), ("<code>", code), loop_after_dispatch=true, excludes=("</end>",)) "</end>"
body ::= "{" [^}]* "}"
code ::= "```" [^`]* "```"
"""


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("words </end>", True),
        ("a <call>{x} b <code>```y``` c</end>", True),
        ("an unfinished <cal</end>", True),
        ("<call>{x</end>", False),
        ("<call> no body</end>", False),
        ("a</end></end>", False),
        ("a", False),
    ],
)
def test_tag_dispatch_is_free_text_until_a_tag(text: str, good: bool) -> None:
    assert _takes(TAGS, text) is good


def test_tag_dispatch_may_end_after_the_first_tag() -> None:
    once = 'root ::= TagDispatch(("<a>", b), loop_after_dispatch=false)\nb ::= "b"'
    assert _takes(once, "x<a>b")
    assert _takes(once, "x")
    assert not _takes(once, "x<a>b y")


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ('root ::= "a', 1, 10, "not closed"),
        ("root ::= [a", 1, 10, "not closed"),
        ('root ::= "a" b', 1, 14, "'b' is used and never defined"),
        ('root ::= "a"\nroot ::= "b"', 2, 1, "twice"),
        ('start ::= "a"', 1, 1, "the grammar defines: start"),
        ("", 1, 1, "none"),
        ('root ::= ("a"\nx ::= "b"', 2, 1, "expected ')'"),
        ('root ::= "a")', 1, 13, "found ')'"),
        ('root = "a"', 1, 1, "'::='"),
        ('root ::= "\\q"', 1, 11, "unknown escape"),
        ('root ::= "\\x4"', 1, 11, "2 hexadecimal digits"),
        ("root ::= [z-a]", 1, 11, "down to"),
        ('root ::= "a"{3,2}', 1, 13, "at least 3"),
        ('root ::= "a"{}', 1, 13, "{m}"),
        ("root ::=\n  \"a\" ?? !", 2, 11, "a token is written"),
        ("root ::= *", 1, 10, "found '*'"),
        ('root ::= "\\uD800"', 1, 11, "no character"),
        ('root ::= TagDispatch(("", b))\nb ::= "x"', 1, 25, "empty tag"),
        ('root ::= TagDispatch()', 1, 10, "without a tag"),
    ],
)  # fmt: skip
def test_errors_name_line_and_column(text: str, line: int, column: int, said: str) -> None:
    with pytest.raises(LarkError) as caught:
        load(Gbnf(text))
    assert said in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize(
    "text",
    ['root ::= "a" (= "b")', "root ::= !<a>", "root ::= ExcludeToken(3)", 'root[temperature=0.5] ::= "a"',
     'root ::= TokenTagDispatch((1, root))'],
)  # fmt: skip
def test_what_is_no_matter_of_a_language_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedFeature, match="line 1"):
        load(Gbnf(text))


def test_hostile_nesting_is_a_limit() -> None:
    with pytest.raises(LimitExceeded, match="line 1, column"):
        load(Gbnf("root ::= " + "(" * 5_000))
    assert _takes("root ::= " + "(" * 90 + '"a"' + ")?" * 90, "a")


def test_a_grammar_without_sentences_is_empty() -> None:
    with pytest.raises(EmptyLanguage):
        load(Gbnf('root ::= "a" root'))


def test_texts_that_are_no_grammar_give_grammar_errors_and_nothing_else() -> None:
    random.seed(7)
    for source in (CHESS, JSON, ARITHMETIC, TAGS):
        for _ in range(150):
            at = random.randrange(len(source))
            broken = (
                source[:at]
                + random.choice(["", '"', "[", "]", "(", ")", "|", "\\", "{", "\n", "::="])
                + source[at + 1 :]
            )
            with contextlib.suppress(GrammarError):
                load(Gbnf(broken))
