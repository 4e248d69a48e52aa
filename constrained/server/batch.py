"""Files of requests, answered without a socket: the same bodies and answers as the server's.

A line is `{"custom_id": ..., "url": "/v1/chat/completions", "body": {...}}`, as OpenAI's batches have it, or a body alone, which is
then named after its line.  Answers are appended as they come, in whatever order, each whole before the next begins; a run that was
killed leaves at most one unfinished line, which the next run cuts off.
"""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import ValidationError

from constrained.async_llm import AsyncLLM
from constrained.server.chat import chat_job, whole_chat
from constrained.server.chat_request import ChatRequest
from constrained.server.completions import CompletionRequest, completion_jobs, whole_completion
from constrained.server.errors import ApiError, as_api_error, from_validation
from constrained.server.responses import ResponseRequest, response_job, whole_response
from constrained.server.settings import ServerSettings
from constrained.server.state import ServerState

if TYPE_CHECKING:
    from constrained.llm import LLM

_ROUTES = {"messages": "/v1/chat/completions", "prompt": "/v1/completions", "input": "/v1/responses"}
_MODEL = "model"


class BatchFileError(ValueError):
    """A file that cannot be read or written."""


@dataclass(frozen=True)
class BatchRequest:
    """One line.

    Attributes:
        custom_id: tells its answer from others.
        url: the route.
        body: what the route is sent; an exception where the line could not be read.
    """

    custom_id: str
    url: str = ""
    body: dict[str, Any] | ApiError = field(default_factory=dict)


def read_requests(path: Path) -> list[BatchRequest]:
    """The requests of a file; lines that cannot be read become requests that fail.

    Raises:
        BatchFileError: the file cannot be read, or two lines have one id.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise BatchFileError(f"{path}: {error.strerror}; check the path") from None
    except UnicodeDecodeError as error:
        raise BatchFileError(f"{path} is no UTF-8 text at byte {error.start}") from None
    found: dict[str, int] = {}
    requests = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        request = _read_line(line, number)
        if request.custom_id in found:
            raise BatchFileError(
                f"{path}: lines {found[request.custom_id]} and {number} have the custom_id {request.custom_id!r}; give each its own"
            )
        found[request.custom_id] = number
        requests.append(request)
    return requests


def _read_line(line: str, number: int) -> BatchRequest:
    name = f"line-{number}"
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        return BatchRequest(name, body=ApiError(400, f"line {number} is not JSON: {error}", code="invalid_json"))
    if not isinstance(given, dict):
        return BatchRequest(name, body=ApiError(400, f"line {number} is no object", code="invalid_value"))
    if "body" in given:
        url, body = given.get("url", _ROUTES["messages"]), given["body"]
    else:
        body = {key: value for key, value in given.items() if key != "custom_id"}
        url = next((route for key, route in _ROUTES.items() if key in body), "")
    name = str(given.get("custom_id") or name)
    if url not in _ROUTES.values() or not isinstance(body, dict):
        problem = f"line {number} asks for {url!r}; there are {', '.join(_ROUTES.values())}"
        return BatchRequest(name, body=ApiError(404, problem, code="not_found"))
    return BatchRequest(name, url, {_MODEL: _MODEL, **body})


class Answers:
    """The file of answers, which one process has to itself.

    Attributes:
        done: ids of the requests that it answers.
    """

    def __init__(self, path: Path) -> None:
        self._file = open(path, "a+b")  # noqa: SIM115 - it is closed by `__exit__`
        _take_alone(self._file, path)
        self.done = self._read(path)

    def add(self, answer: dict[str, Any]) -> None:
        """Writes one line, which is in the file when this returns."""
        line = json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        self._file.write(line)
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def _read(self, path: Path) -> set[str]:
        """The ids in the file; what a killed run left of a line is cut off."""
        self._file.seek(0)
        done: set[str] = set()
        end = 0
        for number, line in enumerate(self._file, 1):
            if not line.endswith(b"\n"):
                break
            try:
                done.add(json.loads(line)["custom_id"])
            except (ValueError, KeyError, TypeError):
                raise BatchFileError(
                    f"{path}: line {number} is no answer of a batch; name another file, or remove the line"
                ) from None
            end += len(line)
        self._file.truncate(end)
        self._file.seek(0, os.SEEK_END)
        return done


def open_answers(path: Path) -> Answers:
    """Opens the file of answers, made where there is none.

    Raises:
        BatchFileError: it cannot be opened, is in use, or holds something else.
    """
    try:
        return Answers(path)
    except OSError as error:
        raise BatchFileError(f"{path}: {error.strerror}; check the path") from None


def _take_alone(file: Any, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not on this system
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise BatchFileError(f"{path} is being written by another batch; wait for it, or name another file") from None


def answer_file(
    load: Callable[[], Any],
    requests: Sequence[BatchRequest],
    answers: Answers,
    concurrency: int,
    progress: Callable[[int], None],
) -> int:
    """Answers all requests; the number of those that were refused or failed."""
    llm: LLM = load()
    return asyncio.run(_answer_all(llm, requests, answers, concurrency, progress))


async def _answer_all(
    llm: LLM, requests: Sequence[BatchRequest], answers: Answers, concurrency: int, progress: Callable[[int], None]
) -> int:
    state = ServerState(ServerSettings(model_names=(_MODEL,)))
    failed = done = 0
    waiting = iter(requests)

    async def work() -> None:
        nonlocal failed, done
        for request in waiting:
            answer = await _answer(state, request)
            answers.add(answer)
            failed += answer["error"] is not None
            done += 1
            progress(done)

    async with AsyncLLM(llm) as state.engine:
        workers = [asyncio.create_task(work()) for _ in range(min(concurrency, len(requests)))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
    return failed


async def _answer(state: ServerState, request: BatchRequest) -> dict[str, Any]:
    """The line that answers a request."""
    error: dict[str, Any] | None = None
    try:
        status, body = 200, await _body(state, request)
    except Exception as problem:
        refused = as_api_error(problem)
        status, body, error = refused.status, refused.body(), refused.body()["error"]
    response = {"status_code": status, "request_id": uuid.uuid4().hex, "body": body}
    return {"id": f"batch_req_{uuid.uuid4().hex}", "custom_id": request.custom_id, "response": response, "error": error}


async def _body(state: ServerState, request: BatchRequest) -> dict[str, Any]:
    if isinstance(request.body, ApiError):
        raise request.body
    given = {**request.body, _MODEL: _MODEL}  # there is one model, whatever it was called where the file was made
    if given.get("stream"):
        raise ApiError(400, "a batch answers whole; leave out stream", param="stream", code="invalid_value")
    model = request.body[_MODEL]
    try:
        if request.url == _ROUTES["messages"]:
            return await whole_chat(await chat_job(state, ChatRequest.model_validate(given)), model)
        if request.url == _ROUTES["prompt"]:
            text = CompletionRequest.model_validate(given)
            return await whole_completion(await completion_jobs(state, text), text, model)
        asked = ResponseRequest.model_validate(given)
        return await whole_response(await response_job(state, asked), asked, model)
    except ValidationError as error:
        raise from_validation(error) from None
