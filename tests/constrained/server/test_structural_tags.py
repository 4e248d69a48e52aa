"""Free text with tags whose contents are held, in both forms; texts are matched against expressions written by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from fastapi.testclient import TestClient

from constrained import Vocabulary, compile
from constrained.server.errors import ApiError
from constrained.server.structural_tags import read_structural_tag

from .conftest import PERSON, chat, chunks, refused

X = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": False}
OLD = {"structures": [{"begin": "<f=a>", "schema": X, "end": "</f>"}, {"begin": "<f=b>", "schema": True, "end": "</f>"}],
       "triggers": ["<f="]}  # fmt: skip


def tag(begin: str, content: Any, end: Any) -> dict[str, Any]:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


ANY, SCHEMA = {"type": "any_text"}, {"type": "json_schema", "json_schema": X}
TAGS = [tag("<f=a>", SCHEMA, "</f>"), tag("<f=b>", {"type": "regex", "pattern": "[ab]+"}, ["</f>", "!"])]


def triggered(**more: Any) -> dict[str, Any]:
    return {"type": "triggered_tags", "triggers": ["<f="], "tags": TAGS, **more}


ARGUMENTS = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "array", "items": {"type": "integer"}}},
             "required": ["city"]}  # fmt: skip

CASES: list[tuple[dict[str, Any], list[str], list[str]]] = [
    (OLD, ["", "so", 'so <f=a>{"x": 1}</f> and <f=b>[]</f>', "<f"], ["<f=", '<f=a>{"x": "1"}</f>', "<f=c>1</f>", "<f=a>"]),
    ({"format": triggered()}, ["", 'a<f=b>ab!<f=a>{"x": 2}</f>z'], ["<f=b>c!", "<f=b>ab", "<f="]),
    ({"format": triggered(at_least_one=True)}, ["<f=b>a!", "a <f=b>a! b"], ["", "a"]),
    ({"format": triggered(stop_after_first=True)}, ["", "a", "a<f=b>a!"], ["<f=b>a! b", "<f=b>a!<f=b>a!"]),
    ({"format": triggered(stop_after_first=True, at_least_one=True)}, ["<f=b>a!"], ["", "<f=b>a!b"]),
    ({"format": triggered(excludes=["no"])}, ["n o", "<f=b>a!"], ["no", "a <f=b>a! nono"]),
    ({"format": {"type": "tags_with_separator", "tags": TAGS, "separator": "; "}}, ["", "<f=b>a!", "<f=b>a!; <f=b>b</f>"],
     ["a", "<f=b>a!;<f=b>a!", "<f=b>a!; "]),
    ({"format": {"type": "tags_with_separator", "tags": TAGS, "separator": "", "at_least_one": True, "stop_after_first": True}},
     ["<f=b>a!"], ["", "<f=b>a!<f=b>a!"]),
    ({"format": {"type": "sequence", "elements": [tag("<t>", ANY, "</t>"), {"type": "const_string", "value": "\n"}, SCHEMA]}},
     ['<t>a < b</t>\n{"x": 1}'], ['<t></t>{"x": 1}', '<t>a</t></t>\n{"x": 1}']),
    ({"format": {"type": "or", "elements": [SCHEMA, {"type": "const_string", "text": "no"}]}}, ["no", '{"x": 0}'], ["", "yes"]),
    ({"format": {"type": "grammar", "grammar": 'root ::= "a" [0-9]+'}}, ["a1"], ["a"]),
    ({"format": {"type": "qwen_xml_parameter", "json_schema": ARGUMENTS}},
     ["<parameter=city>\nOslo\n</parameter>", '\n<parameter=city>\nOs\nlo\n</parameter>\n<parameter=days>\n[1, 2]\n</parameter>\n'],
     ["", "<parameter=days>\n[1]\n</parameter>", "<parameter=city>\nOslo\n</parameter><parameter=days>\n\"1\"\n</parameter>",
      "<parameter=town>\nOslo\n</parameter>", '{"city": "Oslo"}']),
    ({"format": triggered(triggers=["<tool_call>"], tags=[tag("<tool_call>\n<function=f>\n",
      {"type": "json_schema", "json_schema": ARGUMENTS, "style": "qwen_xml"}, "\n</function>\n</tool_call>")])},
     ["so", "so<tool_call>\n<function=f>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>"],
     ["<tool_call>\n<function=f>\n</function>\n</tool_call>", "<tool_call>\n<function=g>\n"]),
    ({"format": {"type": "any_text", "excludes": ["x", "yy"]}}, ["y", "", "a\nb"], ["ax", "yy"]),
    ({"format": tag("<t>", {"type": "any_text", "excludes": ["q"]}, "")}, ["<t>", "<t>abc"], ["<t>q"]),
]  # fmt: skip


@pytest.mark.parametrize(("value", "taken", "wrong"), CASES)
def test_each_format_takes_what_it_says(
    make_vocabulary: Callable[..., Vocabulary], value: dict[str, Any], taken: list[str], wrong: list[str]
) -> None:
    grammar, _ = read_structural_tag({"type": "structural_tag", **value}, "response_format", "bounded")
    constraint = compile(grammar, make_vocabulary())
    for texts, expected in ((taken, True), (wrong, False)):
        for text in texts:
            matcher = constraint.matcher()
            data = list(text.encode())
            assert (matcher.accept_many(data) == len(data) and matcher.is_accepting()) == expected, text


@pytest.mark.parametrize("streamed", [False, True])
def test_a_server_holds_the_contents_of_tags(client: TestClient, streamed: bool) -> None:
    inside = {"type": "json_schema", "json_schema": PERSON}
    format = {"type": "tags_with_separator", "tags": [tag("<p>", inside, "</p>")], "separator": "\n", "at_least_one": True,
              "stop_after_first": True}  # fmt: skip
    body: dict[str, Any] = {"response_format": {"type": "structural_tag", "format": format}}
    if streamed:
        events = chunks(client, **body)
        text = "".join(event["choices"][0]["delta"].get("content") or "" for event in events)
    else:
        [choice] = chat(client, **body)["choices"]
        text = choice["message"]["content"]
        assert choice["finish_reason"] == "stop"
    found = re.fullmatch("<p>(.*)</p>", text, re.DOTALL)
    assert found is not None
    jsonschema.validate(json.loads(found[1]), PERSON)


def test_vllm_sends_it_among_structured_outputs_as_text_too(client: TestClient) -> None:
    written = {"type": "structural_tag", "format": {"type": "const_string", "value": "hi"}}
    for given in (written, json.dumps(written)):
        found = chat(client, structured_outputs={"structural_tag": given})
        assert found["choices"][0]["message"]["content"] == "hi"
    error = refused(client, structured_outputs={"structural_tag": "{"})
    assert error["param"] == "structured_outputs.structural_tag"


BAD = {"type": "object", "properties": {"a": {"minimum": "x"}}}


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ({}, "response_format.format"),
        ({"format": {"type": "yaml"}}, "response_format.format.type"),
        ({"format": {"type": "regex", "pattern": "("}}, "response_format.format.pattern"),
        ({"format": {"type": "json_schema", "json_schema": BAD}},
         "response_format.format.json_schema#/properties/a/minimum"),
        ({"format": {"type": "sequence", "elements": [ANY, tag("<", {"type": "json_schema", "json_schema": BAD}, ">")]}},
         "response_format.format.elements[1].content.json_schema#/properties/a/minimum"),
        ({"format": triggered(triggers=["<g="])}, "response_format.format.tags[0].begin"),
        ({"format": triggered(at_least_one="yes")}, "response_format.format.at_least_one"),
        ({"format": {**ANY, "colour": 1}}, "response_format.format.colour"),
        ({"format": {"type": "json_schema", "json_schema": X, "style": "yaml"}}, "response_format.format.style"),
        ({"format": {"type": "qwen_xml_parameter", "json_schema": {"type": "array"}}}, "response_format.format.json_schema"),
        ({"format": {"type": "qwen_xml_parameter", "json_schema": {**X, "minProperties": 2}}},
         "response_format.format.json_schema#/minProperties"),
        ({"format": {"type": "qwen_xml_parameter"}}, "response_format.format.json_schema"),
        ({"format": {"type": "or", "elements": []}}, "response_format.format.elements"),
        ({"structures": [{"begin": "<", "schema": BAD, "end": ">"}], "triggers": ["<"]},
         "response_format.structures[0].schema#/properties/a/minimum"),
        ({"structures": [{"begin": "<", "schema": {}}], "triggers": ["<"]}, "response_format.structures[0].end"),
        ({"structures": [], "triggers": ["<"]}, "response_format"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_by_its_place(client: TestClient, value: dict[str, Any], param: str) -> None:
    assert refused(client, response_format={"type": "structural_tag", **value})["param"] == param


def test_what_nests_without_an_end_is_refused() -> None:
    deep: dict[str, Any] = {"type": "any_text"}
    for _ in range(40):
        deep = {"type": "sequence", "elements": [deep]}
    with pytest.raises(ApiError, match="nested deeper"):
        read_structural_tag({"type": "structural_tag", "format": deep}, "response_format", "bounded")
