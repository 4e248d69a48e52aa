"""The formats: what stands before, between and behind the name and the arguments of a call.

They are those of the models' own chat templates: Hermes and Qwen 2.5/3 (`hermes`), Qwen3-Coder and Qwen 3.5
(`qwen3_coder`), Llama 3.1 to 3.3 (`llama3_json`),
Llama 3.2 and 4 (`pythonic`), Mistral up to tokenizer v7 and from v11 on (`mistral`, `mistral_args`), DeepSeek V3/R1 and V3.1
(`deepseek`, `deepseek_v31`), gpt-oss (`harmony`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from grammars.values import ToolCalls, ToolFormat


@dataclass(frozen=True)
class Layout:
    """The texts of one format, in their order; marks among them may be tokens of their own.

    Attributes:
        marks: the marks that occur in the texts.
        lead: a mark that may stand before everything, where it is a token of its own.
        begin: before the first call.
        gap: whether one space may follow `begin`.
        before_name: before the name of each call.
        name_id: what stands before a number of the call, which may come behind the name.
        before_arguments: between name and arguments.
        arguments_id: the same for a number behind the arguments, and what stands behind it.
        after: behind the arguments.
        between: between two calls.
        end: behind the last call.
        trigger: the text at which free text ends and calls begin; `""` where a call can only be the whole of an answer,
            which then begins with one of `leading`.
        leading: characters with which such an answer begins and free text does not.
    """

    marks: tuple[str, ...] = ()
    lead: str = ""
    begin: str = ""
    gap: bool = False
    before_name: str = ""
    name_id: str = ""
    before_arguments: str = ""
    arguments_id: tuple[str, str] = ("", "")
    after: str = ""
    between: str = ""
    end: str = ""
    trigger: str = ""
    leading: str = ""


CALL_ID: Final = "[A-Za-z0-9]{9}"
"""A number of a call, as Mistral's templates have it."""

_CALLS, _CALLS_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_CALL, _CALL_END, _SEPARATOR = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"
_DEEPSEEK: Final = (_CALLS, _CALLS_END, _CALL, _CALL_END, _SEPARATOR)
_JSON_NAME: Final = '{"name": "'
_JSON_ARGUMENTS: Final = '", "arguments": '

HARMONY_MARKS: Final = ("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|constrain|>")

_JSON_CALL: Final = Layout(before_name=_JSON_NAME, before_arguments=_JSON_ARGUMENTS, after="}", leading="{[")
_JSON_CALLS: Final = Layout(
    begin="[", before_name=_JSON_NAME, before_arguments=_JSON_ARGUMENTS, after="}", between=", ", end="]", leading="{["
)

FORMATS: Final[Mapping[ToolFormat, Layout]] = MappingProxyType(
    {
        "json": _JSON_CALLS,
        "hermes": Layout(
            marks=("<tool_call>", "</tool_call>"),
            before_name="<tool_call>\n" + _JSON_NAME,
            before_arguments=_JSON_ARGUMENTS,
            after="}\n</tool_call>",
            between="\n",
            trigger="<tool_call>",
        ),
        "qwen3_coder": Layout(
            marks=("<tool_call>", "</tool_call>"),
            before_name="<tool_call>\n<function=",
            before_arguments=">\n",
            after="\n</tool_call>",
            between="\n",
            trigger="<tool_call>",
        ),
        "llama3_json": Layout(
            marks=("<|python_tag|>",),
            lead="<|python_tag|>",
            before_name=_JSON_NAME,
            before_arguments='", "parameters": ',
            after="}",
            between="; ",
            leading="{",
        ),
        "pythonic": Layout(begin="[", before_arguments="(", after=")", between=", ", end="]", leading="["),
        "mistral": Layout(
            marks=("[TOOL_CALLS]",),
            begin="[TOOL_CALLS]",
            gap=True,
            before_name=_JSON_NAME,
            before_arguments=_JSON_ARGUMENTS,
            arguments_id=(', "id": "', '"'),
            after="}",
            between=", ",
            end="]",
            trigger="[TOOL_CALLS]",
        ),
        "mistral_args": Layout(
            marks=("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"),
            before_name="[TOOL_CALLS]",
            name_id="[CALL_ID]",
            before_arguments="[ARGS]",
            trigger="[TOOL_CALLS]",
        ),
        "deepseek": Layout(
            marks=_DEEPSEEK,
            begin=_CALLS,
            before_name=f"{_CALL}function{_SEPARATOR}",
            before_arguments="\n```json\n",
            after=f"\n```{_CALL_END}",
            between="\n",
            end=_CALLS_END,
            trigger=_CALLS,
        ),
        "deepseek_v31": Layout(
            marks=_DEEPSEEK,
            begin=_CALLS,
            before_name=_CALL,
            before_arguments=_SEPARATOR,
            after=_CALL_END,
            end=_CALLS_END,
            trigger=_CALLS,
        ),
        "harmony": Layout(
            marks=HARMONY_MARKS,
            before_name="<|channel|>commentary to=functions.",
            before_arguments=" <|constrain|>json<|message|>",
        ),
    }
)


def layout_of(value: ToolCalls) -> Layout:
    """The layout of a value: a lone call of the `json` format stands without brackets."""
    return _JSON_CALL if value.format == "json" and not value.parallel else FORMATS[value.format]


_TAUGHT: Final[tuple[tuple[ToolFormat, str], ...]] = (
    ("harmony", r"<\|channel\|>analysis"),
    ("deepseek", f"{_CALLS}.*```json|```json.*{_CALLS}"),
    ("deepseek_v31", _CALLS),
    ("mistral_args", r"\[TOOL_CALLS\].*\[ARGS\]"),
    ("mistral", r"\[TOOL_CALLS\]"),
    ("qwen3_coder", r"<tool_call>(\\n|\s)*<function=.*<parameter="),
    ("hermes", r"<tool_call>(\\n|\s)*\{\\?[\"']name"),
    ("pythonic", r"\[func_name1\(param"),
    ("llama3_json", r"""\{"name": [^{}]{1,20}, "parameters": """),
)
"""What tells that a template teaches a format: how it writes a call, or says that one is written."""

_SEAM: Final = re.compile(r"""["']\s*-?\}\}\s*\{\{-?\s*["']""")
"""Between two texts that a template writes one after the other."""


def format_of_template(source: str) -> ToolFormat | None:
    """The format that a chat template teaches, by the way in which it writes calls; `None` where it is none of these."""
    written = _SEAM.sub("", source)
    for format, sign in _TAUGHT:
        if re.search(sign, written, re.DOTALL):
            return format
    return None
