"""Grammars made of other grammars, as rules or, where all of it is regular, as one expression."""

from __future__ import annotations

from dataclasses import replace

from grammars.context_free import ContextFree
from grammars.context_free.trim import useful_rules
from grammars.ebnf import (
    Alternatives,
    Concatenation,
    Definition,
    Expression,
    Foreign,
    Reference,
    Text,
    flatten,
    fold,
)
from grammars.ebnf import Repeat as Repeated
from grammars.ebnf.product import has_product, product
from grammars.endings import Ending, check_endings, contextual_end, is_ending, with_ending
from grammars.errors import EmptyLanguage, UnsupportedFeature
from grammars.gbnf import load as load_gbnf
from grammars.gbnf import rules as gbnf_rules
from grammars.memory import remembered
from grammars.regular import ALL, EPSILON, Rx, complement, concat, intersect, is_empty, literal, literals, repeat
from grammars.texts import language
from grammars.tool_calls.lowering import lowered
from grammars.values import (
    AnyText,
    Choice,
    Gbnf,
    Grammar,
    JsonSchema,
    Lark,
    OneOf,
    Phrases,
    Reasoning,
    Regex,
    Repeat,
    Sequence,
    SpecialToken,
    ToolCalls,
)
from grammars.values.combined import Part

_START = "start"


def load(value: Grammar) -> ContextFree:
    """The grammar of a `Sequence`, `OneOf`, `Repeat`, `AnyText`, `Phrases`, `Reasoning` or `ToolCalls` in numbers.

    Schemas, Lark grammars and phrases within what nests stay as they are (`Embedded`); what is regular is one terminal.  A Lark
    grammar with contextual lexing can stand at the end, behind what is regular; that then takes as much of the text as it can.
    With special tokens or beside others it is a terminal of its own (`Ending`).

    Raises:
        EmptyLanguage: no text is a sentence.
        UnsupportedFeature: phrases within a grammar that they cannot be followed through.
        GrammarError: what the parts raise.
    """
    if is_ending(value):
        last = contextual_end(value)
        assert last is not None
        return _before(*last)
    check_endings(value)
    if isinstance(value, Phrases) and regular(value.within) is None:
        if followed(value) is not None:
            raise UnsupportedFeature(f"phrases are followed byte by byte here, and have no rules: {value!r}")
        grammar = product(_within(value.within), _condition(value))
    else:
        rules: dict[str, Definition] = {}
        rules[_START] = Definition(_expression(value, rules))
        grammar = flatten(rules, _START)
    useful_rules(grammar)
    return grammar


def _before(parts: list[Part], grammar: Lark) -> ContextFree:
    from grammars.lark import load as load_lark
    from grammars.lark.prefixed import prefixed

    prefix = regular(Sequence(*parts))
    if prefix is None or (prefix.nullable and prefix is not EPSILON):
        raise UnsupportedFeature(
            "before a Lark grammar with lexer='contextual' stands something that is not regular, or may be empty; "
            "with lexer='dynamic' it may"
        )
    loaded = load_lark(grammar)
    return loaded if prefix is EPSILON else prefixed(loaded, prefix, "what comes first")


def _within(value: Part) -> ContextFree:
    if isinstance(value, Lark):
        from grammars.lark import load as load_lark

        return load_lark(value)
    if isinstance(value, Gbnf):
        return load_gbnf(value)
    assert isinstance(value, Grammar)  # a text alone is regular
    return load(value)


@remembered(256)
def followed(value: Grammar) -> Phrases | None:
    """Phrases that have to be followed byte by byte beside the machine of a grammar, phrases within phrases as one.

    None of other grammars, and of phrases that become an expression or rules.

    Raises:
        UnsupportedFeature: phrases within a grammar with an indenter.
        GrammarError: what the grammar raises.
    """
    if not isinstance(value, Phrases):
        return None
    required, banned, within = value.required, value.banned, value.within
    while isinstance(within, Phrases):
        required, banned, within = (*required, *within.required), (*banned, *within.banned), within.within
    if regular(within) is not None:
        return None
    if not isinstance(within, JsonSchema):
        grammar = _within(within)
        if has_product(grammar):
            return None
        if grammar.indentation is not None:
            raise UnsupportedFeature(
                "phrases within a Lark grammar with an indenter: where its blocks end depends on lines that are still to come"
            )
    return Phrases(required, banned, within)


@remembered(256)
def regular(value: Part) -> Rx | None:
    """The texts of a grammar as one expression; `None` where they are not plainly regular.

    Raises:
        GrammarError: what the parts raise.
    """
    rules: dict[str, Definition] = {}
    rules[_START] = Definition(_expression(value, rules))
    folded = fold(rules)[_START].expression
    return folded.language if isinstance(folded, Text) else None


def _expression(value: Part, rules: dict[str, Definition]) -> Expression:
    if is_ending(value):
        assert isinstance(value, Grammar)  # a text has no lexing
        return Foreign(Ending(value), "Lark")
    if isinstance(value, str):
        return Text(literal(value))
    if isinstance(value, (Regex, Choice)):
        return Text(language(value))
    if isinstance(value, AnyText):
        return Text(without(value.stop))
    if isinstance(value, Sequence):
        return Concatenation(tuple(_expression(part, rules) for part in with_ending(value.parts)))
    if isinstance(value, OneOf):
        return Alternatives(tuple(_expression(option, rules) for option in value.options))
    if isinstance(value, Repeat):
        return _repeat(value, rules)
    if isinstance(value, ToolCalls):
        return _expression(lowered(value), rules)
    if isinstance(value, Reasoning):
        return _reasoning(value, rules)
    if isinstance(value, Phrases) and (within := regular(value.within)) is not None:
        return Text(_phrases(value, within))
    if isinstance(value, Gbnf):
        return _gbnf(value, rules)
    return Foreign(value, value.name if isinstance(value, SpecialToken) else type(value).__name__)


def _repeat(value: Repeat, rules: dict[str, Definition]) -> Expression:
    body = _expression(value.part, rules)
    if value.separator == "":
        return Repeated(body, value.least, value.most)
    if value.most == 0:
        return Text(EPSILON)
    more = Concatenation((_expression(value.separator, rules), body))
    least, most = max(value.least - 1, 0), None if value.most is None else value.most - 1
    all_of_them = Concatenation((body, Repeated(more, least, most)))
    return all_of_them if value.least else Alternatives((Text(EPSILON), all_of_them))


def without(texts: tuple[str, ...]) -> Rx:
    """The texts in which none of the given ones occurs."""
    return complement(concat(ALL, literals(texts), ALL)) if texts else ALL


def _reasoning(value: Reasoning, rules: dict[str, Definition]) -> Expression:
    if value.optional:
        return Alternatives((_expression(replace(value, optional=False), rules), _expression(value.then, rules)))
    inside = Text(without((value.end,) if isinstance(value.end, str) else ()))
    gap = Text(repeat(literal("\n"), 0, value.gap))
    then = _expression(value.then, rules)
    return Concatenation((_expression(value.start, rules), inside, _expression(value.end, rules), gap, then))


def _gbnf(value: Gbnf, rules: dict[str, Definition]) -> Expression:
    """The rules of the grammar beside the others, under names that only it uses."""
    stem = f"{len(rules)} "
    found = gbnf_rules(value)
    for name, definition in found.items():
        rules[stem + name] = Definition(_renamed(definition.expression, stem), definition.line)
    return Reference(stem + value.root)


def _renamed(expression: Expression, stem: str) -> Expression:
    if isinstance(expression, Reference):
        return Reference(stem + expression.name)
    if isinstance(expression, Concatenation):
        return Concatenation(tuple(_renamed(item, stem) for item in expression.items))
    if isinstance(expression, Alternatives):
        return Alternatives(tuple(_renamed(option, stem) for option in expression.options))
    if isinstance(expression, (Text, Foreign)):
        return expression
    return type(expression)(_renamed(expression.body, stem), expression.least, expression.most)


def _phrases(value: Phrases, within: Rx) -> Rx:
    found = intersect(within, _condition(value))
    if is_empty(found):
        raise EmptyLanguage(f"no text holds all of {value.required!r} and none of {value.banned!r}")
    return found


def _condition(value: Phrases) -> Rx:
    wanted = [concat(ALL, literal(phrase), ALL) for phrase in value.required]
    return intersect(without(value.banned), *wanted)
