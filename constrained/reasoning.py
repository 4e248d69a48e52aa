"""Models that think before they answer: which marks they put round it, and how much they may."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from constrained.vocabulary import Vocabulary
from engine.text import Text
from grammars import SpecialToken

_KNOWN = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
)


@dataclass(frozen=True)
class ReasoningOptions:
    """How a model is to think before it answers.

    Attributes:
        max_tokens: most tokens of the thoughts, marks included; `None` leaves them what the answer does not need.
        start, end: the marks; `None` takes those of the chat template, `<think>` and `</think>` where it names none.
        optional: whether the answer may come without any.
    """

    max_tokens: int | None = None
    start: str | None = None
    end: str | None = None
    optional: bool = False

    def __post_init__(self) -> None:
        if self.max_tokens is not None and (
            not isinstance(self.max_tokens, int) or isinstance(self.max_tokens, bool) or self.max_tokens < 1
        ):
            raise ValueError(
                f"max_tokens={self.max_tokens!r} of reasoning is not accepted; pass an integer of at least 1"
            )
        if (self.start is None) != (self.end is None):
            raise ValueError("start and end of reasoning belong together; give both marks, or neither")
        if self.max_tokens is not None and self.optional:
            raise ValueError("reasoning with a limit of its own cannot be optional; leave out one of the two")


def read_reasoning(reasoning: bool | ReasoningOptions | None) -> ReasoningOptions | None:
    """What `reasoning=` may be; `True` takes the defaults."""
    if reasoning is None or reasoning is False:
        return None
    if reasoning is True:
        return ReasoningOptions()
    if isinstance(reasoning, ReasoningOptions):
        return reasoning
    raise TypeError(f"reasoning is {reasoning!r}; pass true, false or ReasoningOptions(...)")


def template_switches(reasoning: bool | ReasoningOptions | None) -> dict[str, bool]:
    """The variables by which chat templates are told whether to think; none where that is left to them."""
    if reasoning is None:
        return {}
    return dict.fromkeys(("enable_thinking", "thinking"), reasoning is not False)


def marks_of(text: Text, options: ReasoningOptions) -> tuple[str, str]:
    """The marks round the thoughts."""
    if options.start is not None and options.end is not None:
        return options.start, options.end
    return thinking_marks(text) or _KNOWN[0]


def thinking_marks(text: Text) -> tuple[str, str] | None:
    """The marks that the chat template or the vocabulary of a model names; `None` for one that does not think."""
    template = text.chat_templates.get("default")
    for start, end in _KNOWN:
        if template is not None and end in template.source:
            return start, end
    return None


def mark(vocabulary: Vocabulary, text: str) -> str | SpecialToken:
    """The mark as the vocabulary has it: a token that no text spells, or a text."""
    number = vocabulary.special_tokens.get(text)
    return SpecialToken(text) if number is not None and vocabulary.token_bytes(number) is None else text


def is_special(vocabulary: Vocabulary, text: str) -> bool:
    """Whether the mark is a token that no text spells."""
    found: Any = mark(vocabulary, text)
    return isinstance(found, SpecialToken)
