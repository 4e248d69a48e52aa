"""From a prompt and a constraint to a request that the engine takes: everything that can be refused before it begins is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from constrained.compile import Constraint, check_grammar, compile
from constrained.phases import Phases
from constrained.prompts import Prompt, as_messages, is_token_ids
from constrained.requests import EngineArguments, TextRequest
from constrained.schema_input import read_schema
from engine.generation import CancelToken
from engine.sampling import Sampling
from engine.speculation.speculation import Speculation
from grammars import Grammar, JsonSchema

if TYPE_CHECKING:
    from constrained.llm import LLM


def prepare(
    llm: LLM,
    prompt: Prompt,
    constraint: Any,
    *,
    max_tokens: int,
    sampling: Sampling | None,
    chat: bool,
    cancel: CancelToken | None,
    speculation: Speculation | None,
) -> TextRequest:
    """See `LLM.prepare`."""
    if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 1:
        raise ValueError(f"max_tokens={max_tokens!r} is not accepted; pass an integer of at least 1")
    compiled, parse = _read_constraint(llm, constraint)
    ids = _encode(llm, prompt, chat)
    matcher = None if compiled is None else compiled.matcher(max_tokens=max_tokens)
    decoding = llm.decoding(constrained=matcher is not None)
    arguments: EngineArguments = {
        "sampling": sampling,
        "constraint": matcher,
        "max_new_tokens": max_tokens,
        "eos_token_ids": llm.text.eos_token_ids or None,
        "cancel": cancel,
        "speculation": speculation,
        "group": compiled.grammar if isinstance(compiled, Constraint) else None,
    }
    return TextRequest(ids, arguments, decoding, parse)


def _read_constraint(llm: LLM, constraint: Any) -> tuple[Constraint | Phases | None, Callable[[str], Any] | None]:
    """The compiled constraint, and how to read the finished text."""
    if constraint is None:
        return None, None
    if isinstance(constraint, Constraint | Phases):
        if constraint.vocabulary != llm.vocabulary:
            raise ValueError("the constraint was compiled for another vocabulary; compile it with llm.vocabulary")
        return constraint, None
    if isinstance(constraint, Grammar) and not isinstance(constraint, JsonSchema):
        return compile(constraint, llm.vocabulary, llm.limits), None
    source = read_schema(constraint)
    check_grammar(source.grammar)  # what is wrong further down is said before the first token, too
    return compile(source.grammar, llm.vocabulary, llm.limits), source.parse


def _encode(llm: LLM, prompt: Prompt, chat: bool) -> list[int]:
    if isinstance(prompt, str) and not chat:
        return llm.text.encode(prompt)
    if is_token_ids(prompt):
        return [int(token) for token in prompt]
    return llm.encode_messages(as_messages(prompt))
