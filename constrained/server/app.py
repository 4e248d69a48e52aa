"""The routes, and what stands round them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, suppress
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from constrained import __version__
from constrained.async_llm import AsyncLLM
from constrained.llm import LLM
from constrained.server.chat import chat_job, streamed_chat, whole_chat
from constrained.server.chat_request import ChatRequest
from constrained.server.completions import (
    CompletionRequest,
    completion_jobs,
    streamed_completion,
    whole_completion,
)
from constrained.server.errors import ApiError, as_api_error, loading, validation_error
from constrained.server.garbage import ShortCollections
from constrained.server.guard import Guard
from constrained.server.jobs import Job
from constrained.server.logs import RequestLog
from constrained.server.playground import add_playground
from constrained.server.responses import ResponseRequest, response_job, streamed_response, whole_response
from constrained.server.settings import ServerSettings
from constrained.server.sse import ClientGone, EventStream, Json, while_connected
from constrained.server.state import ServerState
from grammars import Choice

log = logging.getLogger("constrained.server")


def make_app(
    load: Callable[[], LLM], settings: ServerSettings, on_failure: Callable[[], None] = lambda: None
) -> FastAPI:
    """The server as an ASGI application.

    Args:
        load: makes the model; called in a thread when the server starts, which answers 503 meanwhile.
        on_failure: called when that fails; `app.state.server.failure` is the error.
    """
    state = ServerState(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async def begin() -> None:
            try:
                engine = AsyncLLM(await asyncio.to_thread(_loaded, load))
                if settings.short_collections:
                    state.collections = ShortCollections()
                state.engine = engine
                log.info("ready", extra={"fields": {"model": settings.model_names[0]}})
            except Exception as error:
                state.failure = error
                on_failure()

        beginning = asyncio.create_task(begin())
        yield
        beginning.cancel()
        with suppress(asyncio.CancelledError):
            await beginning
        if state.engine is not None:
            await state.engine.close(cancel=True)
        if state.collections is not None:
            state.collections.close()

    app = FastAPI(title="constrained", version=__version__, lifespan=lifespan, redoc_url=None)
    app.state.server = state
    _add_errors(app)
    _add_middleware(app, state)
    _add_routes(app, state)
    if settings.playground:
        add_playground(app, state)
    return app


def _loaded(load: Callable[[], LLM]) -> LLM:
    """The model, with what the first request would have to wait for."""
    llm = load()
    llm.generate_batch(["hello"], Choice(["yes"]), max_tokens=4)
    return llm


def _add_routes(app: FastAPI, state: ServerState) -> None:
    served = state.served

    @app.get("/health")
    async def health() -> dict[str, str]:
        """The process is alive."""
        return {"status": "ok"}

    @app.get("/ready")
    async def ready() -> dict[str, str]:
        """The model is there."""
        if state.engine is None:
            raise loading()
        return {"status": "ready"}

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [_model(state, name) for name in state.settings.model_names]}

    @app.get("/v1/models/{name:path}")
    async def model(name: str) -> dict[str, Any]:
        state.model_name(name)
        return _model(state, name)

    @app.post("/v1/chat/completions")
    async def chat(body: ChatRequest, request: Request) -> Response:
        name = state.model_name(body.model)
        usage = body.stream_options is not None and body.stream_options.include_usage
        return await _answered(
            request,
            served(request.state.client),
            lambda: chat_job(state, body),
            lambda job: whole_chat(job, name),
            (lambda job: streamed_chat(job, name, usage)) if body.stream else None,
        )

    @app.post("/v1/completions")
    async def completions(body: CompletionRequest, request: Request) -> Response:
        name = state.model_name(body.model)
        return await _answered(
            request,
            served(request.state.client),
            lambda: completion_jobs(state, body),
            lambda jobs: whole_completion(jobs, body, name),
            (lambda jobs: streamed_completion(jobs, body, name)) if body.stream else None,
        )

    @app.post("/v1/responses")
    async def responses(body: ResponseRequest, request: Request) -> Response:
        name = state.model_name(body.model)
        return await _answered(
            request,
            served(request.state.client),
            lambda: response_job(state, body),
            lambda job: whole_response(job, body, name),
            (lambda job: streamed_response(job, body, name)) if body.stream else None,
        )


def _model(state: ServerState, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {"id": name, "object": "model", "created": state.started, "owned_by": "constrained"}
    if state.engine is not None:
        found["max_model_len"] = state.engine.llm.model.config.context_length
    return found


async def _answered(
    request: Request,
    place: AbstractContextManager[None],
    prepare: Callable[[], Awaitable[Any]],
    whole: Callable[[Any], Awaitable[dict[str, Any]]],
    streamed: Callable[[Any], AsyncIterator[bytes]] | None,
) -> Response:
    """Takes one of the client's places, queues the work, and answers; a client that goes away ends it."""
    with ExitStack() as ending:
        ending.enter_context(place)
        try:
            job = await while_connected(request, prepare())
            ending.callback(_count, job)
            if streamed is None:
                return Json(await while_connected(request, whole(job)))
        except ClientGone:
            return Response(status_code=499)
        except ApiError:
            raise
        except Exception as error:  # of the generation: an answer like any other, behind which the connection goes on
            api = as_api_error(error)
            if api.status >= 500:
                log.error("a request failed", exc_info=error)
            raise api from error
        later = ending.pop_all()

    async def end() -> None:
        for one in _jobs(job):
            for answer in one.answers:
                await answer.close()
        later.close()

    return EventStream(streamed(job), _log_failure, end)


def _log_failure(error: BaseException) -> None:
    if as_api_error(error).status >= 500:
        log.error("a stream ended with an error", exc_info=error)


def _jobs(job: Any) -> list[Job]:
    return [job] if isinstance(job, Job) else job


def _count(job: Any) -> None:
    for one in _jobs(job):
        one.count()


def _add_errors(app: FastAPI) -> None:
    def refused(_: Request, error: Exception) -> Json:
        api = as_api_error(error)
        if api.status >= 500 and not isinstance(error, ApiError):
            log.error("a request failed", exc_info=error)
        return Json(api.body(), status_code=api.status, headers=api.headers())

    async def api_error(request: Request, error: Exception) -> Json:
        return refused(request, error)

    async def unexpected(request: Request, error: Exception) -> Json:
        """What no route has made an answer of is raised again behind this one, and uvicorn then closes the connection:
        a client that was not told might send its next request into it."""
        response = refused(request, error)
        response.headers["Connection"] = "close"
        return response

    async def invalid(request: Request, error: Exception) -> Json:
        assert isinstance(error, RequestValidationError)
        return refused(request, validation_error(error.errors()))

    async def http_error(request: Request, error: Exception) -> Json:
        assert isinstance(error, HTTPException)
        message = f"{request.method} {request.url.path}: {error.detail}"
        return refused(
            request, ApiError(error.status_code, message, code="not_found" if error.status_code == 404 else None)
        )

    app.add_exception_handler(ApiError, api_error)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(Exception, unexpected)


def _add_middleware(app: FastAPI, state: ServerState) -> None:
    app.add_middleware(Guard, settings=state.settings)
    if state.settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(state.settings.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    app.add_middleware(RequestLog, metrics=state.metrics)
