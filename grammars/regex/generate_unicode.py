"""Writes `unicode_properties.txt`, the character sets that regular expressions name.

Run as `python -m grammars.regex.generate_unicode` with the packages `regex` and `fonttools`, which are not needed at
run time.  What Python's own dialect needs (`\\w`, `\\d`, `\\s`, letters with case) is taken from the running
interpreter; it is used only by interpreters with the same `unicodedata.unidata_version`.  The properties of ECMA-262
(ES2025, tables 67 to 71) are taken from `regex`, which follows Unicode closely but lacks Changes_When_NFKC_Casefolded;
the names of scripts are fontTools'.
"""

from __future__ import annotations

import base64
import importlib
import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

TARGET = Path(__file__).with_name("unicode_properties.txt")

BINARY = """ASCII_Hex_Digit=AHex Alphabetic=Alpha Bidi_Control=Bidi_C Bidi_Mirrored=Bidi_M Case_Ignorable=CI Cased
Changes_When_Casefolded=CWCF Changes_When_Casemapped=CWCM Changes_When_Lowercased=CWL
Changes_When_Titlecased=CWT Changes_When_Uppercased=CWU Dash Default_Ignorable_Code_Point=DI Deprecated=Dep
Diacritic=Dia Emoji Emoji_Component=EComp Emoji_Modifier=EMod Emoji_Modifier_Base=EBase Emoji_Presentation=EPres
Extended_Pictographic=ExtPict Extender=Ext Grapheme_Base=Gr_Base Grapheme_Extend=Gr_Ext Hex_Digit=Hex
IDS_Binary_Operator=IDSB IDS_Trinary_Operator=IDST ID_Continue=IDC ID_Start=IDS Ideographic=Ideo Join_Control=Join_C
Logical_Order_Exception=LOE Lowercase=Lower Math Noncharacter_Code_Point=NChar Pattern_Syntax=Pat_Syn
Pattern_White_Space=Pat_WS Quotation_Mark=QMark Radical Regional_Indicator=RI Sentence_Terminal=STerm
Soft_Dotted=SD Terminal_Punctuation=Term Unified_Ideograph=UIdeo Uppercase=Upper Variation_Selector=VS White_Space=space
XID_Continue=XIDC XID_Start=XIDS"""

CATEGORIES = """Lu=Uppercase_Letter Ll=Lowercase_Letter Lt=Titlecase_Letter Lm=Modifier_Letter Lo=Other_Letter
Mn=Nonspacing_Mark Mc=Spacing_Mark Me=Enclosing_Mark Nd=Decimal_Number,digit Nl=Letter_Number No=Other_Number
Pc=Connector_Punctuation Pd=Dash_Punctuation Ps=Open_Punctuation Pe=Close_Punctuation Pi=Initial_Punctuation
Pf=Final_Punctuation Po=Other_Punctuation Sm=Math_Symbol Sc=Currency_Symbol Sk=Modifier_Symbol So=Other_Symbol
Zs=Space_Separator Zl=Line_Separator Zp=Paragraph_Separator Cc=Control,cntrl Cf=Format Co=Private_Use Cn=Unassigned"""

GROUPS = """L=Letter LC=Cased_Letter M=Mark,Combining_Mark N=Number P=Punctuation,punct S=Symbol Z=Separator C=Other"""


def everything() -> str:
    """All scalar values, with a space in the place of each surrogate so that indices are code points."""
    return "".join(" " if 0xD800 <= code <= 0xDFFF else chr(code) for code in range(0x110000))


def encode(ranges: Iterable[tuple[int, int]]) -> str:
    """Ranges as gaps and lengths in variable-length integers, compressed, in text."""
    out = bytearray()
    last = 0
    for lo, hi in ranges:
        for number in (lo - last, hi - lo):
            while number >= 128:
                out.append(number & 127 | 128)
                number >>= 7
            out.append(number)
        last = hi
    return base64.b85encode(zlib.compress(bytes(out), 9)).decode()


def found(matches: Iterator[re.Match[str]]) -> list[tuple[int, int]]:
    """Where a pattern matched, without surrogates."""
    out = []
    for match in matches:
        lo, hi = match.start(), match.end() - 1
        if lo < 0xD800 <= hi:
            out.append((lo, 0xD7FF))
            lo = 0xE000
        if lo <= hi and not 0xD800 <= lo <= 0xDFFF:
            out.append((lo, hi))
    return out


def named(table: str) -> Iterator[tuple[str, list[str]]]:
    for entry in table.split():
        name, _, others = entry.partition("=")
        yield name, [other for other in others.split(",") if other]


def case_ranges(text: str) -> list[tuple[int, int]]:
    cased = sorted(
        {ord(char) for one in text for char in (one, *one.lower(), *one.upper()) if one.lower() != one.upper()}
    )
    out: list[tuple[int, int]] = []
    for code in cased:
        if out and out[-1][1] == code - 1:
            out[-1] = (out[-1][0], code)
        else:
            out.append((code, code))
    return out


def main() -> None:
    """Write the file."""
    regex = importlib.import_module("regex")
    scripts: dict[str, str] = importlib.import_module("fontTools.unicodedata").Scripts.NAMES

    text = everything()
    lines = [f"python {unicodedata.unidata_version}"]
    for name, pattern in (("word", r"\w+"), ("digit", r"\d+"), ("space", r"\s+")):
        # The spaces that stand for surrogates are dropped with them.
        lines.append(f"python:{name} {encode(found(re.finditer(pattern, text)))}")
    lines.append(f"python:cased {encode(case_ranges(text))}")
    for name, others in named(BINARY):
        lines.append("|".join([name, *others]) + " " + encode(found(regex.finditer(rf"\p{{{name}}}+", text))))
    for name, others in named(CATEGORIES + " " + GROUPS):
        lines.append(
            "gc:" + "|".join([name, *others]) + " " + encode(found(regex.finditer(rf"\p{{gc={name}}}+", text)))
        )
    for short, long in sorted(scripts.items()):
        others = {"Zinh": ["Qaai"], "Copt": ["Qaac"]}.get(short, [])
        own = found(regex.finditer(rf"\p{{Script={long}}}+", text))
        extended = found(regex.finditer(rf"\p{{scx={long}}}+", text))
        names = "|".join(dict.fromkeys([long, short, *others]))
        lines.append(f"sc:{names} {encode(own)}")
        if extended != own:
            lines.append(f"scx:{names} {encode(extended)}")
    TARGET.write_text("\n".join(lines) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
