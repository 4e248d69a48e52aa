"""The playground: one page at `/` to try a grammar on the model, and what it asks of the server beside the routes of everybody."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from importlib.resources import files
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response
from pydantic import Field

from constrained.cli.check import refusals, supported
from constrained.compile import check_grammar, compile
from constrained.prefixes import advance, character_start
from constrained.prompts import with_schema
from constrained.server.errors import RATE, ApiError, as_api_error
from constrained.server.grammars import check_size
from constrained.server.jobs import in_time
from constrained.server.parameters import Parameters
from constrained.server.sse import EventStream, event
from constrained.server.state import ServerState
from constrained.watching import WatchedStep, watched
from engine.sampling import Sampling
from grammars import Choice, Gbnf, Grammar, JsonSchema, Lark, Regex

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_SHOWN = 24


class GrammarText(Parameters):
    """A grammar as it is written into the page."""

    kind: Literal["schema", "regex", "lark", "gbnf", "choice", "none"]
    grammar: str = ""

    def read(self, limit: int) -> Grammar | None:
        """
        Raises:
            ApiError: it is too large, or malformed.
        """
        check_size(self.grammar, limit, "grammar")
        makers: dict[str, Callable[[str], Grammar]] = {
            "schema": JsonSchema,
            "regex": Regex,
            "lark": lambda text: Lark(text + "\n"),  # never a path
            "gbnf": lambda text: Gbnf(text + "\n"),
            "choice": lambda text: Choice(text.splitlines()),
        }
        return makers[self.kind](self.grammar) if self.kind in makers else None


class RunRequest(GrammarText):
    """A generation to be watched."""

    prompt: Annotated[str, Field(min_length=1)]
    max_tokens: Annotated[int, Field(ge=1, le=512)] = 128
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    seed: Annotated[int, Field(ge=0)] | None = None


class ExplainRequest(GrammarText):
    """A text so far, of which is asked what may follow."""

    text: str = ""


def add_playground(app: FastAPI, state: ServerState) -> None:
    """Adds the page and its routes; one generation is watched at a time, beside the engine and not in it."""
    page = files("constrained.server").joinpath("playground.html").read_text(encoding="utf-8")
    watching = asyncio.Semaphore(1)

    @app.get("/", include_in_schema=False)
    async def playground() -> HTMLResponse:
        return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"})

    @app.post("/playground/check", include_in_schema=False)
    async def check(body: GrammarText) -> dict[str, Any]:
        return await _in_thread(_checked, state, body)

    @app.post("/playground/explain", include_in_schema=False)
    async def explain(body: ExplainRequest) -> dict[str, Any]:
        return await _in_thread(_explained, state, body)

    @app.post("/playground/run", include_in_schema=False)
    async def run(body: RunRequest) -> Response:
        state.llm  # noqa: B018 - refuses while the model is being loaded
        if watching.locked():
            raise ApiError(429, "another generation is being watched; try again soon", kind=RATE, retry_after=2)
        await watching.acquire()
        cancel = threading.Event()

        async def end() -> None:
            cancel.set()
            watching.release()

        try:
            steps = await in_time(state, lambda: _run(state, body, cancel))
        except BaseException as error:
            watching.release()
            if isinstance(error, Exception):
                raise as_api_error(error, "grammar") from error
            raise
        return EventStream(_events(steps, state.llm.llm.vocabulary.size), lambda error: None, end)


async def _in_thread(
    work: Callable[[ServerState, Any], dict[str, Any]], state: ServerState, body: Any
) -> dict[str, Any]:
    try:
        return await in_time(state, lambda: work(state, body))
    except Exception as error:
        raise as_api_error(error, "grammar") from error


def _checked(state: ServerState, body: GrammarText) -> dict[str, Any]:
    grammar = body.read(state.settings.max_grammar_bytes)
    if grammar is None:
        return {"supported": True, "findings": []}
    found = list(refusals(grammar, state.llm.llm.vocabulary))
    places = {(one.pointer, one.detail.partition(":")[0]) for one in found}
    held = list(supported(grammar, places)) if isinstance(grammar, JsonSchema) else []
    return {"supported": not found, "findings": [asdict(one) for one in (*found, *held)]}


def _explained(state: ServerState, body: ExplainRequest) -> dict[str, Any]:
    grammar = body.read(state.settings.max_grammar_bytes)
    vocabulary = state.llm.llm.vocabulary
    if grammar is None:
        raise ApiError(400, "free text needs no explanation; choose a grammar", param="kind", code="invalid_value")
    matcher = compile(grammar, vocabulary, state.llm.llm.limits).matcher()
    data = body.text.encode()
    read = advance(matcher, vocabulary, data)
    if read < len(data):
        read = character_start(data, read)
        matcher.reset()
        advance(matcher, vocabulary, data[:read])
    row = np.zeros(vocabulary.row_words, np.uint32)
    matcher.fill_mask(row)
    allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")[: vocabulary.size])
    texts = [vocabulary.token_bytes(int(token)) for token in allowed if int(token) not in vocabulary.eos_token_ids]
    return {
        "read": data[:read].decode(),
        "refused": data[read:].decode(),
        "is_sentence": matcher.is_accepting(),
        "shortest_end": matcher.shortest_completion().decode("utf-8", "replace"),
        "allowed": len(texts),
        "of": vocabulary.size,
        "next": [(text or b"").decode("utf-8", "replace") for text in texts[:_SHOWN]],
    }


def _run(state: ServerState, body: RunRequest, cancel: threading.Event) -> Any:
    llm = state.llm.llm
    grammar = body.read(state.settings.max_grammar_bytes)
    prompt: Any = body.prompt
    constraint = None
    if grammar is not None:
        check_grammar(grammar)
        constraint = compile(grammar, llm.vocabulary, llm.limits)
        constraint.matcher(max_tokens=body.max_tokens)  # what does not fit is refused now
    if isinstance(grammar, JsonSchema):
        prompt = with_schema(prompt, grammar.document)
    ids = llm.planner.plan(prompt).ids
    sampling = Sampling(temperature=body.temperature, seed=body.seed)
    return watched(llm, ids, constraint, max_tokens=body.max_tokens, sampling=sampling, cancel=cancel)


async def _events(steps: Any, tokens: int) -> AsyncIterator[bytes]:
    """The steps, each with the number of all tokens, which is what `allowed` is out of."""
    done = object()
    while True:
        step: WatchedStep | object = await asyncio.to_thread(next, steps, done)
        if not isinstance(step, WatchedStep):
            break
        yield event({**asdict(step), "of": tokens})
    yield b"data: [DONE]\n\n"
