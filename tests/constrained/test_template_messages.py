"""Conversations in which tools were called reach each template in the form that it takes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from constrained import LLM
from constrained.template_messages import is_one_call_all, takes_calls
from engine.errors import TextError
from engine.text import Text

from .test_replies import weather, with_template

TURNS = "{% for m in messages %}"
CALLS = "{% for c in m.tool_calls %}"
# Each reads calls as a family of published templates does, and goes wrong where it is given another form.
TEMPLATES = {
    # Looks into the content of every answer, and writes arguments as JSON.
    "qwen": TURNS + "<{{ m.role }}>{% if '</think>' in m.content %}thought{% endif %}{{ m.content }}"
    '{% if m.tool_calls %}' + CALLS + '<tool_call>\n{"name": "{{ c.function.name }}", "arguments": '
    "{{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}{% endif %}{% endfor %}{{ tools }}<bot>",
    # Joins arguments as text, and begins another message where a call has a content.
    "deepseek": TURNS + "{% if m.tool_calls and m.content is none %}" + CALLS + "{{ '<｜tool▁calls▁begin｜>' + c.function.name + "
    "'\n```json\n' + c.function.arguments + '\n```' }}{% endfor %}{% elif m.content is not none %}<{{ m.role }}>{{ m.content }}"
    "{% endif %}{% endfor %}<bot>",
    # Wants ids of nine letters and digits.
    "mistral": TURNS + "{% if m.tool_calls %}[TOOL_CALLS] [" + CALLS +
    "{% if c.id | length != 9 %}{{ raise_exception('length 9!') }}"
    '{% endif %}{{ c.function | tojson }}#{{ c.id }}{% endfor %}]{% elif m.role == "tool" %}{% if m.tool_call_id | length != 9 %}'
    "{{ raise_exception('length 9!') }}{% endif %}{{ m.content }}#{{ m.tool_call_id }}{% else %}{{ m.content }}{% endif %}"
    "{% endfor %}{{ tools }}<bot>",
    # Takes one call in a message.
    "llama": TURNS + "{% if m.tool_calls %}{% if m.tool_calls | length != 1 %}{{ raise_exception('only single tool-calls!') }}"
    '{% endif %}{% set c = m.tool_calls[0] %}{"name": "x", "parameters": {{ c.function.arguments | tojson }}}{% else %}'
    "<{{ m.role }}>{{ m.content }}{% endif %}{% endfor %}{{ tools }}<bot>",
}  # fmt: skip
ARGUMENTS = [{"city": "Oslo", "days": 2}, {"city": "Bern"}]
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "Rain?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": f"call_{at}", "type": "function", "function": {"name": "weather", "arguments": json.dumps(one)}}
            for at, one in enumerate(ARGUMENTS)
        ],
    },
    {"role": "tool", "tool_call_id": "call_0", "name": "weather", "content": "dry"},
    {"role": "tool", "tool_call_id": "call_1", "name": "weather", "content": "wet"},
]


def shown(llm: LLM, messages: Any = MESSAGES, **options: Any) -> str:
    ids = llm.planner.plan(messages, tools=[weather], **options).ids
    return llm.text.decode(ids)


@pytest.mark.parametrize("family", sorted(TEMPLATES))
def test_calls_and_results_reach_each_family_of_templates(random_llm: LLM, family: str) -> None:
    text = shown(with_template(random_llm, TEMPLATES[family]))
    for arguments in ARGUMENTS:
        assert json.dumps(arguments) in text
    assert text.index("dry") < text.index("wet")
    assert "None" not in text.replace("': None", "")


def test_ids_are_shortened_where_the_template_counts_them_and_stay_matched(random_llm: LLM) -> None:
    text = shown(with_template(random_llm, TEMPLATES["mistral"]))
    ids = re.findall("#([0-9A-Za-z]{9})", text)
    assert len(ids) == 4
    assert ids[:2] == ids[2:]
    assert ids[0] != ids[1]
    assert "call_0" not in text


def test_calls_come_one_by_one_where_the_template_takes_one(random_llm: LLM) -> None:
    llm = with_template(random_llm, TEMPLATES["llama"])
    assert is_one_call_all(llm.text)
    text = shown(llm)
    first, second = (text.index(json.dumps(one)) for one in ARGUMENTS)
    assert first < text.index("dry") < second < text.index("wet")
    plan = llm.planner.plan("Rain?", tools=[weather])
    assert plan.grammar.parallel is False


def test_what_no_form_helps_is_refused_as_the_template_says_it(random_llm: LLM) -> None:
    llm = with_template(
        random_llm, "{% if tools or messages %}{{ raise_exception('not today: ' ~ tool_calls) }}{% endif %}"
    )
    assert takes_calls(llm.text)
    with pytest.raises(TextError, match="not today"):
        shown(llm)


def test_a_template_for_tools_alone_is_looked_at_too(random_llm: LLM) -> None:
    llm = with_template(random_llm, "{{ messages }}")
    given = llm.text
    templates = {"default": "{{ messages }}", "tool_use": TEMPLATES["qwen"]}
    llm.model.text = Text(given.tokenizer, given.eos_token_ids, templates, given.special_tokens)
    assert llm.planner.tool_format == "hermes"
    assert json.dumps(ARGUMENTS[0]) in shown(llm)


# As Gemma 2: no system messages, and roles by turns.
TURNS_ONLY = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" + TURNS +
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}"
    "<{{ m.role }}>{{ m.content }}{% endfor %}<bot>"
)  # fmt: skip


def test_what_the_system_says_is_said_by_the_user_where_there_is_no_system(random_llm: LLM) -> None:
    llm = with_template(random_llm, TURNS_ONLY)
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
    assert isinstance(llm.generate_json("go", schema, max_tokens=30)["a"], bool)
    text = shown(llm)
    assert text.startswith("<user>Answer in words, or by calling")
    assert "Rain?<assistant>" in text
    assert text.index("dry\n\nResult of weather: wet<bot>") > 0


def test_a_template_that_has_system_messages_gets_them(random_llm: LLM) -> None:
    text = llm_text(random_llm, [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "go"}])
    assert text.startswith("<system>Be brief.</><user>go</>")


def llm_text(llm: LLM, messages: Any) -> str:
    return llm.text.decode(llm.planner.plan(messages).ids)
