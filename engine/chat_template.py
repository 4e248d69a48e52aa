"""Chat templates: messages and tools to the text that a model was tuned on, rendered as Transformers renders them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn

from jinja2 import Template, TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.errors import TextError

Message = Mapping[str, Any]


class ChatTemplate:
    """A Jinja template, run in a sandbox: it sees the messages and nothing else of this process."""

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        """`special_tokens` are the template's `bos_token`, `eos_token` and their kin."""
        self.source = source
        self.special_tokens = dict(special_tokens)

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """The prompt's text.

        Args:
            messages: each with `role` and `content`, and what else the template reads.
            tools: JSON Schema descriptions of functions.
            add_generation_prompt: whether to open the assistant's turn at the end.
            variables: further variables of the template, `enable_thinking` for one.

        Raises:
            TextError: the template is malformed, or refuses these messages.
        """
        values = {**self.special_tokens, **variables}
        try:
            template = _compile(self.source)
            return template.render(
                messages=messages, tools=tools, add_generation_prompt=add_generation_prompt, **values
            )
        except SecurityError as error:
            raise TextError(f"the chat template does what no template may: {error}") from None
        except TemplateError as error:
            raise TextError(f"the chat template refuses these messages: {error}") from None
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise TextError(f"the chat template cannot render these messages: {error}") from None


class _Generation(Extension):
    """`{% generation %}` … `{% endgeneration %}` marks the assistant's words for training; here it marks nothing."""

    tags = {"generation"}  # noqa: RUF012 - jinja's own declaration

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


@lru_cache(maxsize=16)
def _compile(source: str) -> Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = lambda layout: datetime.now().strftime(layout)
    return environment.from_string(source)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Jinja's own filter escapes for HTML, which models have not seen."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)
