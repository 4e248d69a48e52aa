"""What the soak test sends, and what each answer has to hold."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import jsonschema

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
ORDER = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": {"enum": ["soup", "tea", "bread"]}, "minItems": 1, "maxItems": 3},
        "paid": {"type": "boolean"},
        "note": {"type": ["string", "null"], "maxLength": 10},
    },
    "required": ["items", "paid"],
    "additionalProperties": False,
}
TOOLS = [
    {"type": "function", "function": {"name": "keep", "description": "Keeps a person.", "parameters": PERSON}},
    {"type": "function", "function": {"name": "order", "description": "Orders food.", "parameters": ORDER}},
]
SCHEMA_OF = {"keep": PERSON, "order": ORDER}


def nested(depth: int) -> Any:
    schema: Any = {"type": "integer"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema, "maxItems": 1}
    return schema


def doubled(depth: int) -> Any:
    """Two references to the next definition at each level: 2**depth paths."""
    levels = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(depth)}
    return {"$ref": "#/$defs/d0", "$defs": {**levels, f"d{depth}": {"type": "integer"}}}


def hostile_schema(rng: random.Random) -> Any:
    """One that is made to hurt; nearly all are of their own, so that nothing is known of them."""
    some = rng.randrange(2, 60)
    return rng.choice(
        [
            lambda: nested(rng.randrange(50, 900)),
            lambda: doubled(rng.randrange(10, 30)),
            lambda: {"type": "string", "pattern": f"^(a+){{1,{some}}}+$", "maxLength": 20},
            lambda: {"type": "string", "pattern": f"(((a{{1,{some}}}){{1,30}}){{1,30}})"},
            lambda: {"type": "string", "pattern": f"a.{{{some}}}b|c.{{{some // 2}}}d"},
            lambda: {"type": "string", "minLength": rng.randrange(10_000, 100_000)},
            lambda: {"enum": [f"word-{some}-{number}" for number in range(rng.randrange(20_000))]},
            lambda: {"$ref": "https://example.org/schema.json"},
            lambda: {"$ref": "#"},
            lambda: {"type": "array", "items": {"$ref": "#"}, "minItems": 1},
            lambda: {
                "type": "object",
                "properties": {f"p{n}": {"type": "string", "maxLength": some} for n in range(rng.randrange(2_000))},
                "required": [f"p{n}" for n in range(rng.randrange(500))],
            },
            lambda: {"not": {"not": {"not": {"type": "string", "maxLength": some}}}},
            lambda: {"oneOf": [{"multipleOf": n} for n in range(2, some)]},
            lambda: {"allOf": [{"pattern": f"a.{{{n}}}b"} for n in range(rng.randrange(2, 12))], "type": "string"},
            lambda: {"type": "array", "uniqueItems": True, "items": {"type": "integer"}, "minItems": some},
            lambda: {"type": "x"},
            lambda: False,
        ]
    )()


def ask(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def fits(schema: Any) -> Any:
    def check(message: dict[str, Any], reason: str) -> None:
        assert reason == "stop", reason
        jsonschema.validate(json.loads(message["content"]), schema)

    return check


def schemas(rng: random.Random) -> tuple[dict[str, Any], Any]:
    schema = rng.choice([PERSON, ORDER])
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    return {
        **ask("Ada Lovelace, 36, ordered soup."),
        "response_format": form,
        "max_tokens": rng.randrange(40, 90),
    }, fits(schema)


def fresh_schemas(rng: random.Random) -> tuple[dict[str, Any], Any]:
    """One that nobody has sent before."""
    word = "".join(rng.choice("abcdefgh") for _ in range(6))
    schema = {
        "type": "object",
        "properties": {word: {"type": "integer", "minimum": rng.randrange(99), "maximum": 10**6}},
        "required": [word],
        "additionalProperties": False,
    }
    return {**ask("A number."), "guided_json": schema, "max_tokens": 60}, fits(schema)


def tools(rng: random.Random) -> tuple[dict[str, Any], Any]:
    choice = rng.choice(["auto", "required", {"type": "function", "function": {"name": "order"}}])
    form = rng.choice(["auto", "hermes", "pythonic", "mistral_args"])

    def check(message: dict[str, Any], reason: str) -> None:
        calls = message.get("tool_calls") or []
        assert calls or choice == "auto"
        assert (reason == "tool_calls") == bool(calls), reason
        assert "<tool_call>" not in (message["content"] or "")
        for call in calls:
            jsonschema.validate(json.loads(call["function"]["arguments"]), SCHEMA_OF[call["function"]["name"]])

    return {
        **ask("One soup, please."),
        "tools": TOOLS,
        "tool_choice": choice,
        "tool_format": form,
        "max_tokens": 90,
    }, check


def patterns(rng: random.Random) -> tuple[dict[str, Any], Any]:
    pattern = rng.choice([r"[A-Z]{2} [0-9]{3}", r"(\d+\.){2}\d+", r"[äöü]{3,6}"])

    def check(message: dict[str, Any], reason: str) -> None:
        assert re.fullmatch(pattern, message["content"])

    return {**ask("A number."), "structured_outputs": {"regex": pattern}, "max_tokens": 40}, check


def grammars(rng: random.Random) -> tuple[dict[str, Any], Any]:
    grammar = rng.choice(['start: NUMBER ("+" NUMBER)+\nNUMBER: /[0-9]{1,3}/', 'root ::= [0-9]{1,3} ("+" [0-9]{1,3})+'])

    def check(message: dict[str, Any], reason: str) -> None:
        assert re.fullmatch(r"[0-9]{1,3}(\+[0-9]{1,3})+", message["content"])

    return {**ask("A sum."), "guided_grammar": grammar, "max_tokens": 30}, check


def words(rng: random.Random) -> tuple[dict[str, Any], Any]:
    return {
        **ask("Say hello."),
        "max_tokens": 20,
        "n": rng.randrange(1, 4),
        "stop": ["!", "ello"],
    }, lambda message, reason: None


def bad(rng: random.Random) -> tuple[dict[str, Any], Any]:
    def never(message: dict[str, Any], reason: str) -> None:
        raise AssertionError("this was to be refused")

    wrong = rng.choice(
        [
            {"colour": 1},
            {"guided_regex": "("},
            {"max_tokens": 10**6},
            {"n": 99},
            {"tools": [{"type": "x"}]},
            {"logit_bias": {"-1": 1}},
        ]
    )
    return {**ask("x"), **wrong}, never


def hostile(rng: random.Random) -> tuple[dict[str, Any], Any]:
    def parses(message: dict[str, Any], reason: str) -> None:
        json.loads(message["content"])

    return {**ask("x"), "guided_json": hostile_schema(rng), "max_tokens": 60}, parses


ROUTE = "/v1/chat/completions"
KINDS = [schemas, schemas, fresh_schemas, tools, tools, patterns, grammars, words, bad, hostile]
