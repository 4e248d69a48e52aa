"""Many prompts at once: all refused or queued before the first is decoded, results in the order of the prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from constrained.errors import BatchError
from constrained.prompts import Prompt
from constrained.requests import TextRequest
from constrained.results import Generation
from constrained.streaming import as_generation
from engine.batching import RequestHandle
from engine.generation import CancelToken, Token
from engine.sampling import Sampling
from engine.speculation.proposer import Proposer

if TYPE_CHECKING:
    from constrained.llm import LLM

BatchProgress = Callable[[int, int], None]
"""Called with how many prompts are finished and how many there are."""


def generate_batch(
    llm: LLM,
    prompts: Sequence[Prompt],
    constraint: Any,
    *,
    max_tokens: int,
    sampling: Sampling | Sequence[Sampling | None] | None,
    chat: bool,
    cancel: CancelToken | None,
    proposer: str | Proposer | None,
    lookahead: str | int | None,
    progress: bool | BatchProgress,
) -> list[Generation]:
    """See `LLM.generate_batch`."""
    if isinstance(prompts, str):
        raise TypeError("prompts is one text; pass a list of prompts")
    prompts = list(prompts)
    constraints = _one_each(constraint, len(prompts), "constraints")
    samplings = _one_each(sampling, len(prompts), "samplings")
    texts = [
        llm.prepare(
            prompt,
            one,
            max_tokens=max_tokens,
            sampling=how,
            chat=chat,
            cancel=cancel,
            proposer=proposer,
            lookahead=lookahead,
        )
        for prompt, one, how in zip(prompts, constraints, samplings, strict=True)
    ]
    loop = llm.engine
    requests = [loop.engine.prepare(text.ids, **text.arguments) for text in texts]
    finished: SimpleQueue[None] = SimpleQueue()
    handles: list[RequestHandle] = []
    with _shown(progress) as show:
        try:
            for request in requests:
                handles.append(loop.enqueue(request, wait=True))
                handles[-1].listen(partial(_note_end, finished))
            for done in range(1, len(handles) + 1):
                finished.get()
                show(done, len(handles))
        finally:
            for handle in handles:  # left early: nobody waits for the others
                handle.cancel()
    results = [_result(text, handle) for text, handle in zip(texts, handles, strict=True)]
    errors = {at: result for at, result in enumerate(results) if isinstance(result, Exception)}
    if errors:
        named = ", ".join(map(str, list(errors)[:8])) + (", ..." if len(errors) > 8 else "")
        raise BatchError(
            f"{len(errors)} of {len(results)} generations failed (at {named}); results holds the others",
            list(errors.values()),
            results,
        )
    return [result for result in results if isinstance(result, Generation)]


def _note_end(finished: SimpleQueue[None], token: Token | None) -> None:
    if token is None:
        finished.put(None)


def _one_each(value: Any, count: int, what: str) -> list[Any]:
    """`value` for each of `count` prompts, or its items where it is a list."""
    values = list(value) if isinstance(value, list | tuple) else [value] * count
    if len(values) != count:
        raise ValueError(f"{count} prompts and {len(values)} {what}; pass one, or one for each")
    return values


def _result(text: TextRequest, handle: RequestHandle) -> Generation | Exception:
    try:
        output = handle.result()
        pieces = [text.decoding.push(token) for token in output.token_ids]
        return as_generation(output, "".join((*pieces, text.decoding.flush())), text.parse)
    except Exception as error:
        return error


@contextmanager
def _shown(progress: bool | BatchProgress) -> Iterator[BatchProgress]:
    if callable(progress):
        yield progress
    elif not progress:
        yield lambda done, total: None
    else:
        from constrained.progress import progress_bars

        with progress_bars() as show:
            yield lambda done, total: show("generating", done, total)
