"""Errors as OpenAI's clients read them: a status and `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from constrained.errors import BudgetError, GrammarError, LimitExceeded, ResultError, UnsupportedFeature
from engine.errors import ContextError, EngineClosed, EngineError, QueueFull, TextError
from engine.sampling import SamplingError
from grammars.tool_calls import ToolTextError

INVALID, AUTHENTICATION, RATE = "invalid_request_error", "authentication_error", "rate_limit_error"
UNAVAILABLE, SERVER = "service_unavailable_error", "server_error"


_ALTERNATIVE = re.compile(r"str|int|float|bool|(dict|list|tuple|union|literal|function-\w+)\[.*")
"""What Pydantic puts into a place for the member of a union that it tried; no parameter has such a name."""


class ApiError(Exception):
    """What a request is refused with.

    Attributes:
        status: of the response.
        param: the parameter that is wrong, with a pointer into it after `#`.
        code: a word that programs can tell it by.
        retry_after: seconds after which another try may do better.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = INVALID,
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.kind = status, message, kind
        self.param, self.code, self.retry_after = param, code, retry_after

    def body(self) -> dict[str, Any]:
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}

    def headers(self) -> dict[str, str]:
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return headers


def loading() -> ApiError:
    """The model is not there yet."""
    return ApiError(503, "the model is being loaded; try again soon", kind=UNAVAILABLE, code="loading", retry_after=2)


def as_api_error(error: BaseException, param: str | None = None) -> ApiError:
    """What an error of this project means to the client; `param` is the parameter that was being read."""
    if isinstance(error, ApiError):
        return error
    message = " ".join([str(error), *getattr(error, "__notes__", ())])
    if isinstance(error, GrammarError):
        pointer = getattr(error, "pointer", None)
        keyword = getattr(error, "keyword", None)
        if param is not None and pointer is not None:
            param = f"{param}#{pointer}" + (f"/{keyword}" if keyword else "")
        kinds = ((LimitExceeded, "limit_exceeded"), (UnsupportedFeature, "unsupported_feature"))
        code = next((code for kind, code in kinds if isinstance(error, kind)), "invalid_grammar")
        return ApiError(400, message, param=param, code=code)
    if isinstance(error, BudgetError):
        return ApiError(400, message, param="max_tokens", code="max_tokens_too_small")
    if isinstance(error, ContextError):
        return ApiError(400, message, param="messages", code="context_length_exceeded")
    ours = isinstance(error, ToolTextError | ResultError)  # what was generated does not fit: no fault of the request
    if isinstance(error, SamplingError | TextError | ValueError | TypeError) and not ours:
        return ApiError(400, message, param=param, code="invalid_value")
    if isinstance(error, QueueFull):
        return ApiError(429, message, kind=RATE, code="queue_full", retry_after=1)
    if isinstance(error, EngineClosed):
        return ApiError(503, "the server is shutting down", kind=UNAVAILABLE, code="shutting_down", retry_after=5)
    if isinstance(error, EngineError):
        return ApiError(500, message, kind=SERVER, code="engine_error")
    return ApiError(500, "an error inside the server; its log has the request's id", kind=SERVER, code="internal_error")


def validation_error(errors: Sequence[Any]) -> ApiError:
    """The first thing that is wrong with a body."""
    first = min(errors, key=lambda one: one["type"] != "extra_forbidden")
    place = [str(step) for step in first["loc"] if step != "body"]
    place = [step for at, step in enumerate(place) if at == 0 or not _ALTERNATIVE.fullmatch(step)]
    param = first.get("ctx", {}).get("param") or ".".join(place) or None
    if first["type"] == "extra_forbidden":
        return ApiError(
            400, f"unknown parameter: {param}; docs/server.md lists those that there are", param=param,
            code="unknown_parameter",
        )  # fmt: skip
    if first["type"] == "json_invalid":
        reason = first.get("ctx", {}).get("error", first["msg"])
        return ApiError(400, f"the body is not JSON: {reason}", code="invalid_json")
    if first["type"] == "wrong_parameter":
        return ApiError(400, first["msg"], param=param, code="invalid_value")
    message = first["msg"].removeprefix("Value error, ")
    code = "missing_required_parameter" if first["type"] == "missing" else "invalid_value"
    return ApiError(400, f"{param}: {message}" if param else message, param=param, code=code)


def from_validation(error: ValidationError) -> ApiError:
    """The same for a model that was validated by hand."""
    return validation_error(error.errors(include_url=False))
