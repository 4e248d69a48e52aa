"""Beam search at the front door: the most likely sentences of a language, best first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from constrained.prompts import Prompt
from constrained.results import Generation
from constrained.streaming import as_generation
from engine.beams import Beam, beam_search
from engine.generation import CancelToken, Output
from engine.metrics import Metrics
from engine.sampling import Sampling

if TYPE_CHECKING:
    from constrained.llm import LLM


def generate_beams(
    llm: LLM,
    prompt: Prompt,
    constraint: Any,
    *,
    beams: int,
    length_penalty: float,
    max_tokens: int,
    sampling: Sampling | None,
    chat: bool,
    cancel: CancelToken | None,
) -> list[Generation]:
    """See `LLM.beam_search`."""
    request = llm.prepare(
        prompt, constraint, max_tokens=max_tokens, sampling=sampling, chat=chat, cancel=cancel, proposer="none"
    )
    matcher = request.arguments["constraint"]
    found = beam_search(
        llm.model,
        request.ids,
        beams=beams,
        length_penalty=length_penalty,
        constraint=matcher,
        sampling=sampling,
        max_new_tokens=max_tokens,
        eos_token_ids=request.arguments["eos_token_ids"],
        cancel=cancel,
    )
    # Two ways of spelling a text in tokens are one text; the better of them comes first.
    texts: dict[str, Beam] = {}
    for beam in found.beams:
        decoding = llm.decoding(constrained=matcher is not None)
        pieces = [decoding.push(token) for token in beam.token_ids]
        texts.setdefault("".join((*pieces, decoding.flush())), beam)
    return [as_generation(_output(beam, found.metrics), text, request.parse) for text, beam in texts.items()]


def _output(beam: Beam, metrics: Metrics) -> Output:
    return Output(
        token_ids=list(beam.token_ids),
        finish_reason=beam.finish_reason,
        fallbacks=[],
        logprobs=[],
        seed=None,
        metrics=metrics,
        score=beam.score,
    )
