"""Small Lark grammars that put features together in odd ways: what masks let through Lark parses, and the other way round."""

from __future__ import annotations

import logging
import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import lark
import pytest
from lark.indenter import Indenter

from constrained import Vocabulary, compile
from constrained.compile import Constraint
from grammars import Lark
from tests.constrained.automata.context_free.walks import parses
from tests.constrained.languages import mask

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Blocks(Indenter):
    """An indenter as Lark's documentation has it."""

    NL_type = "_NL"
    OPEN_PAREN_types = ["LPAR"]  # noqa: RUF012  (as lark declares it)
    CLOSE_PAREN_types = ["RPAR"]  # noqa: RUF012
    INDENT_type = "_INDENT"
    DEDENT_type = "_DEDENT"
    tab_len = 8


@dataclass(frozen=True)
class Odd:
    """A grammar and the letters that its texts are made of.

    Attributes:
        lexers: "d" and "c", dynamic and contextual.
    """

    text: str
    letters: str
    lexers: str = "dc"
    start: str = "start"
    imports: dict[str, str] = field(default_factory=dict)
    indenter: type[Indenter] | None = None


ODD = {
    "templates": Odd(
        'start: _sep{item, ","} | pair{item, A}\n_sep{x, d}: x (d x)*\n'
        'pair{a, b}: "<" a ":" b ">" | "<" pair{b, a} ">"\nitem: A | B\nA: "a"\nB: "b"+', "ab,<:>", "d",
    ),
    "templates that recur": Odd(
        'start: list{num}~1..2\nlist{x}: "[" [x ("," x)*] "]"\nnum: /\\d/ | list{num}\n%ignore /\\s/', "[],1 "
    ),
    "an imported template": Odd(
        'start: sep{A, COMMA}\nA: "a"\nCOMMA: ","\n%import .t.sep', "a,b", imports={"t.lark": "sep{x, s}: x (s x)*\n"}
    ),
    "extend and override": Odd(
        'start: value\n%import .base (value, ITEM, KW)\n%extend ITEM: "c"\n%override KW: "kk"\n%extend value: "(" value ")"',
        "abck()", imports={"base.lark": 'value: ITEM | KW value | value ITEM\nITEM: "a" | "b"\nKW: "k"\n'},
    ),
    "names of imports of imports": Odd(
        "start: x y*\n%import .sub.inner.outer -> x\n%import .sub.inner.Y -> Z\ny: Z", "abyz",
        imports={"sub/inner.lark": 'outer: "a" helper?\nhelper: "b" Y\nY: "y" | "z"\n'},
    ),
    "common": Odd(
        'start: (SIGNED_NUMBER | ESCAPED_STRING | CNAME | word)+\nword: WORD "!"\n'
        "%import common (SIGNED_NUMBER, ESCAPED_STRING, CNAME, WORD)\n%import common.WS_INLINE -> W\n%ignore W", '1.e-"a\\_! ',
    ),
    "python": Odd(
        "start: (DEC_NUMBER | HEX_NUMBER | FLOAT_NUMBER | STRING | NAME)+\n"
        "%import python (DEC_NUMBER, HEX_NUMBER, FLOAT_NUMBER, STRING, NAME)\n%ignore \" \"", "0x1.e'\"ra_ ",
    ),
    "priorities of terminals": Odd(
        'start: (KW | NAME | NUM)+\nKW.2: "if" | "in"\nNAME: /[a-z]+/\nNUM.-1: /[0-9]+/\n%ignore " "', "ifn 1"
    ),
    "priorities of rules": Odd('start: a | b | c\na.3: X X\nb.2: X+\nc.1: (X | "x")*\nX: "x" | "y"', "xy", "d"),
    "rules that are kept, inlined and named": Odd(
        '?start: sum -> top\n?sum: prod | sum "+" prod -> add | sum "-" prod -> sub\n?prod: atom | prod "*" atom -> mul\n'
        '?atom: NUMBER -> number | "-" atom -> neg | "(" sum ")"\nNUMBER: /\\d+/\n%ignore /[ \\t]+/', "1+-*( )",
    ),
    "repetition": Odd('start: "a"~3..60 "b"', "ab"),
    "flags": Odd('start: A B C D\nA: "ab"i\nB: /x.y/s\nC: /a # comment\n    b+/x\nD: /(?i:q)|w/', "aAbBxy\nqQw "),
    "flags inside": Odd('start: T+\nT: /a(?i:b)c/ | "É"i', "abBcéÉ"),
    "left, right and hidden recursion": Odd(
        'start: x | opt start "z"\nx: y "a" | "a" | "b" x\ny: x "b" | z\nz: x | "c"\nopt: | "c"', "abcz", "d"
    ),
    "empty rules": Odd('start: a b c\na: | "x"\nb: a a |\nc: (a | b)*', "x", "d"),
    "ambiguity": Odd('start: start start | "a" | "b" start "c" |', "abc", "d"),
    "a conflict that shifts": Odd('start: stmt\nstmt: "i" stmt | "i" stmt "e" stmt | "x"', "iex"),
    "lookaheads": Odd(
        "start: (IF | NAME | OP)+\nIF: /if(?![a-z])/\nNAME: /(?!if\\b)[a-z]+/\nOP: /[-+](?=[a-z])/\n%ignore /\\s+/", "ifa+- "
    ),
    "keywords": Odd('start: "se" c "fr" NAME\nc: NAME ("," NAME)* | "*"\nNAME: /[a-z]+/\n%ignore " "', "sefr,* "),
    "keywords that begin others": Odd(
        'start: v (("or"i | "order"i "by"i | "as"i | "asc"i | "=" | "+") v)*\nv: NAME | NUM | "(" start ")"\n'
        'NAME: /[a-z]+/\nNUM: /[0-9]+(\\.[0-9]+)?/\n%ignore " "', "orde byasc=+1.()"
    ),
    "keywords of any case": Odd('start: "if"i NAME | NAME "=" NAME\nNAME: /[a-z]+/i\n%ignore /\\s/', "ifIF= "),
    "colliding terminals": Odd('start: (A | B | C)* "."\nA: /a+b?/\nB: /ab+/\nC: "aab"', "ab."),
    "preferences of re": Odd('start: T "b"? "c"\nT: /a|ab|abc/', "abc"),
    "lazy terminals": Odd("start: STR+\nSTR: /\"(?:[^\"\\\\]|\\\\.)*?\"/ | /'.*?'/s", "\"'a\\\n"),
    "comments over lines": Odd(
        "start: (C | X)*\nC: /\\/\\*(.|\\n)*?\\*\\//\nX: /x/\n%ignore /\\/\\/[^\\n]*/\n%ignore \"\\n\"", "/*x\n",
    ),
    "ignored text that is also read": Odd('start: "a" WS "b" | "a" "b" "c"\nWS: / +/\n%ignore WS', "abc ", "d"),
    "many kinds of ignored text": Odd('start: W*\nW: /\\w+/\n%ignore /#[^\\n]*/\n%ignore /\\s+/\n%ignore ";"', "a# \n;"),
    "comments of common": Odd(
        'start: ("x" | "y" start "z")*\n%import common (CPP_COMMENT, C_COMMENT, SH_COMMENT, WS)\n%ignore WS\n'
        "%ignore CPP_COMMENT\n%ignore C_COMMENT\n%ignore SH_COMMENT", "xyz /*\n#",
    ),
    "comments where line breaks are read": Odd(
        'start: (line? NL)*\nline: W "=" v\n?v: W | "[" [v ("," v)*] "]"\nNL: /\\n/\nW: /[a-z]+/\n%ignore /[ \\t]+/\n'
        "%ignore /#.*/", "a=[], \n#",
    ),
    "comments with nothing to end them": Odd('start: "a" "b"\n%ignore /#.*/', "ab\n#"),
    "a configuration file": Odd(
        'start: _NL? section+\nsection: "[" NAME "]" _NL item+\nitem: NAME "=" VALUE? _NL\nNAME: /\\w/+\nVALUE: /./+\n'
        "%import common.NEWLINE -> _NL\n%import common.WS_INLINE\n%ignore WS_INLINE", "a[]=\n ",
    ),
    "blocks": Odd(
        "?start: _NL* tree\ntree: NAME _NL [_INDENT tree+ _DEDENT]\n%import common.CNAME -> NAME\n"
        "%import common.WS_INLINE\n%declare _INDENT _DEDENT\n%ignore WS_INLINE\n_NL: /(\\r?\\n[\\t ]*)+/",
        "a \n\t", "c", indenter=Blocks,
    ),
    "blocks and parentheses": Odd(
        'start: (stmt | _NL)*\nstmt: expr _NL | "i" expr ":" _NL _INDENT stmt+ _DEDENT\n?expr: NAME | LPAR expr* RPAR\n'
        'LPAR: "("\nRPAR: ")"\nNAME: /[a-z]+/\n%declare _INDENT _DEDENT\n%ignore / +/\n_NL: /(\\n *)+/',
        "ai:( )\n", "c", indenter=Blocks,
    ),
    "another start": Odd('main: x+\nx: "a" main? "b"', "ab", start="main"),
    "terminals of terminals": Odd(
        'start: FLOAT | INT\nINT: DIGIT+\nFLOAT: INT "." INT? (_EXP)? | "." INT\n_EXP: ("e"|"E") ["+"|"-"] INT\nDIGIT: "0".."1"',
        "01.e-",
    ),
}  # fmt: skip
CASES = [(name, lexer) for name, odd in ODD.items() for lexer in odd.lexers]


def _reference(odd: Odd, lexer: str, folder: Path) -> lark.Lark:
    options: dict[str, Any] = {"start": odd.start, "parser": "earley", "lexer": "dynamic_complete"}
    if lexer == "c":
        options |= {"parser": "lalr", "lexer": "contextual"}
    if odd.indenter is not None:
        options["postlex"] = odd.indenter()
    for name, text in {**odd.imports, "main.lark": odd.text}.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return lark.Lark.open(str(folder / "main.lark"), **options)


def _changed(chance: random.Random, text: str, letters: str) -> str:
    at = chance.randint(0, len(text))
    kept = text[: at + chance.choice([0, 0, 1])] if chance.random() < 0.1 else text[:at]
    return kept + chance.choice([*letters, ""]) + text[at + chance.choice([0, 1]) :]


def _walked(constraint: Constraint, chance: random.Random, tokens: list[bytes]) -> str | None:
    """A text that random tokens begin and the shortest completion ends; None where a character is cut."""
    matcher = constraint.matcher()
    for _ in range(chance.randint(0, 9)):
        allowed = sorted(mask(matcher) - {len(tokens)})
        if not allowed:
            break
        matcher.accept(chance.choice(allowed))
    whole = matcher.text + matcher.shortest_completion()
    try:
        return whole.decode()
    except UnicodeDecodeError:
        return None


def _tokenized(chance: random.Random, text: str, tokens: list[bytes]) -> list[int]:
    data, found = text.encode(), list[int]()
    while data:
        found.append(chance.choice([number for number, token in enumerate(tokens) if data.startswith(token)]))
        data = data[len(tokens[found[-1]]) :]
    return found


@pytest.mark.parametrize(("name", "lexer"), CASES)
def test_masks_take_what_lark_parses_and_nothing_else(name: str, lexer: str, tmp_path: Path) -> None:
    logging.getLogger("lark").setLevel(logging.CRITICAL)
    odd, chance = ODD[name], random.Random(zlib.crc32((name + lexer).encode()))
    reference = _reference(odd, lexer, tmp_path)
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += {"".join(chance.choices(odd.letters, k=chance.choice([2, 3]))).encode(): None for _ in range(30)}
    vocabulary = Vocabulary.from_token_bytes([*tokens, None], eos_token_ids=[len(tokens)])
    value = Lark(
        odd.text, start=odd.start, lexer="dynamic" if lexer == "d" else "contextual", imports=odd.imports,
        indenter=None if odd.indenter is None else odd.indenter(),  # type: ignore[call-arg]
    )  # fmt: skip
    constraint = compile(value, vocabulary)
    walked = [one for _ in range(12) if (one := _walked(constraint, chance, tokens)) is not None]
    for text in walked:
        assert parses(reference, text), text
    texts = {"".join(letters) for size in range(3) for letters in product(odd.letters, repeat=size)}
    texts |= {"".join(chance.choices(odd.letters, k=chance.randint(3, 6))) for _ in range(60)}
    texts |= {_changed(chance, text, odd.letters) for text in walked * 4} | {*walked}
    taken: Callable[[str], bool] = lambda text: _is_taken(constraint, _tokenized(chance, text, tokens))  # noqa: E731
    for text in sorted(texts):
        expected = parses(reference, text)
        assert taken(text) is expected, text
        assert not expected or taken(text), text


def _is_taken(constraint: Constraint, tokens: list[int]) -> bool:
    matcher = constraint.matcher()
    return matcher.accept_many(tokens) == len(tokens) and matcher.is_accepting()
