"""`constrained serve`: the OpenAI-compatible server."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from constrained.cli.errors import FAILED, OK, UsageError, report

_STEP_SEARCHES = 60_000
"""About as many kilobytes of languages that one step of a request may leave behind."""
_SECONDS_TO_TELL = 5
"""Behind the grace: clients are told that their answers were cancelled."""
_SECONDS_OF_A_TURN = 1e-4
"""That a thread may keep the interpreter while others wait for it.  The engine's gives it away some hundred times in a step,
in each operation of the model; with Python's 5 ms, a schema that another thread works out would make a step four times as long."""
KEEP_ALIVE_SECONDS = 75
"""That a connection may be idle: longer than clients keep theirs (5 s in httpx), or they would send into one that is closed."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on; 0 takes a free one (8000)")
    model = parser.add_argument_group("model")
    model.add_argument("--model", metavar="M", help="GGUF file, safetensors folder or hub id (the default model)")
    model.add_argument(
        "--served-model-name", metavar="NAME", action="append",
        help="name that requests ask for; may be given repeatedly (the model's own name, and 'default')",
    )  # fmt: skip
    model.add_argument("--device", default="auto", help="auto, cpu, cuda (auto)")
    model.add_argument("--dtype", default="auto", help="auto, bfloat16, float16, float32, int8, int4 (auto)")
    model.add_argument(
        "--kv-memory",
        metavar="SIZE",
        help="memory of keys and values, as 2GiB (a quarter of the free, at most 4GiB; on CUDA four fifths)",
    )
    model.add_argument("--max-sequences", type=int, default=64, metavar="N", help="sequences that run at a time (64)")
    model.add_argument(
        "--admission", choices=["promised", "optimistic"], default="promised",
        help="whether a request waits for the memory of all its tokens, or for that of its prompt (promised)",
    )  # fmt: skip
    model.add_argument(
        "--context-length", type=int, metavar="N", help="most positions of a sequence (the model's context)"
    )
    model.add_argument(
        "--max-waiting", type=int, default=256, metavar="N", help="requests that may wait for room (256)"
    )
    access = parser.add_argument_group("access")
    access.add_argument(
        "--api-key", metavar="KEY", action="append",
        help="key that requests must bear; may be given repeatedly, or in CONSTRAINED_API_KEYS with commas between",
    )  # fmt: skip
    access.add_argument("--cors-origin", metavar="URL", action="append", help="origin whose pages may call (none)")
    access.add_argument("--no-playground", action="store_true", help="no page at /")
    limits = parser.add_argument_group("limits")
    limits.add_argument("--max-body", default="4MiB", metavar="SIZE", help="of a request (4MiB)")
    limits.add_argument("--max-grammar", default="1MiB", metavar="SIZE", help="of a request's schemas (1MiB)")
    limits.add_argument(
        "--grammar-seconds", type=float, default=3.0, metavar="S", help="that compiling, or one mask, may take (3)"
    )
    limits.add_argument(
        "--grammar-memory", default="128MiB", metavar="SIZE", help="for what is kept of grammars, about (128MiB)"
    )
    limits.add_argument("--max-requests-per-key", type=int, default=256, metavar="N", help="at a time (256)")
    limits.add_argument("--default-max-tokens", type=int, default=1024, metavar="N", help="of a chat answer (1024)")
    limits.add_argument(
        "--grace", type=int, default=30, metavar="S", help="seconds that running answers have at the end (30)"
    )
    parser.add_argument("--log-format", choices=["text", "json"], default="text", help="of the log on stderr (text)")


def run(options: argparse.Namespace) -> int:
    try:
        import uvicorn

        from constrained.memory import share_heaps
        from constrained.server import make_app
        from constrained.server.connections import BoundedConnection
    except ImportError as error:
        raise UsageError(f"the server needs {error.name}: pip install 'constrained[server]'") from None
    settings = _settings(options)
    _log_as(options.log_format)
    app = make_app(lambda: _load(options), settings, lambda: setattr(server, "should_exit", True))
    config = uvicorn.Config(
        app, host=options.host, port=options.port, log_config=None, access_log=False, server_header=False,
        timeout_graceful_shutdown=options.grace + _SECONDS_TO_TELL, timeout_keep_alive=KEEP_ALIVE_SECONDS,
        http=BoundedConnection, lifespan="on",
    )  # fmt: skip
    server = _server(config, app.state.server, options.grace)
    share_heaps()
    sys.setswitchinterval(_SECONDS_OF_A_TURN)
    with _ended_by_signals():
        server.run()
    failure = app.state.server.failure
    if failure is not None:
        return report(failure)
    return OK if server.started else FAILED


def _settings(options: argparse.Namespace) -> Any:
    from constrained.options import parse_size
    from constrained.server import ServerSettings

    if options.grammar_seconds <= 0:
        raise UsageError(f"--grammar-seconds: {options.grammar_seconds} is not above 0")
    keys = [*(options.api_key or ()), *os.environ.get("CONSTRAINED_API_KEYS", "").split(",")]
    try:
        parse_size(options.grammar_memory)
        return ServerSettings(
            model_names=_names(options),
            api_keys=frozenset(filter(None, (key.strip() for key in keys))),
            host=options.host,
            cors_origins=tuple(options.cors_origin or ()),
            max_body_bytes=parse_size(options.max_body),
            max_grammar_bytes=parse_size(options.max_grammar),
            max_requests_per_key=options.max_requests_per_key,
            default_max_tokens=options.default_max_tokens,
            playground=not options.no_playground,
            short_collections=True,
        )
    except ValueError as error:
        raise UsageError(str(error)) from None


def _names(options: argparse.Namespace) -> tuple[str, ...]:
    if options.served_model_name:
        return tuple(options.served_model_name)
    if options.model is None:
        from engine.loading import DEFAULT_MODEL

        return (DEFAULT_MODEL, "default")
    path = Path(options.model)
    return (path.name.removesuffix(".gguf") if path.exists() else options.model, "default")


def _load(options: argparse.Namespace) -> Any:
    from constrained.limits import Limits
    from constrained.llm import LLM
    from constrained.options import parse_size

    return LLM(
        options.model,
        device=options.device,
        dtype=options.dtype,
        kv_memory=options.kv_memory,
        max_sequences=options.max_sequences,
        max_waiting=options.max_waiting,
        admission=options.admission,
        context_length=options.context_length,
        limits=Limits(
            step_seconds=options.grammar_seconds,
            step_searches=_STEP_SEARCHES,
            bytes=parse_size(options.grammar_memory),
        ),
    )


def _log_as(form: str) -> None:
    from constrained.server.logs import JsonLines, TextLines

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    for name, level in (("constrained", logging.INFO), ("uvicorn.error", logging.WARNING)):
        log = logging.getLogger(name)
        log.handlers, log.propagate = [handler], False
        log.setLevel(level)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Being asked to end is no failure: the server raises the signal again when it has ended, which must not kill us then."""
    ends = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(one, lambda *_: None) for one in ends]
    try:
        yield
    finally:
        for one, handler in zip(ends, before, strict=True):
            signal.signal(one, handler)


def _server(config: Any, state: Any, grace: float) -> Any:
    """A server that says where it listens: with `--port 0` nobody else knows; at its end answers have `grace` seconds."""
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            for one in self.servers:
                for socket in one.sockets:
                    host, port = socket.getsockname()[:2]
                    shown = f"[{host}]" if ":" in host else host
                    print(f"listening on http://{shown}:{port}", file=sys.stderr, flush=True)

        async def shutdown(self, sockets: Any = None) -> None:
            cancelling = asyncio.create_task(self._cancel_late())
            await super().shutdown(sockets)
            cancelling.cancel()

        async def _cancel_late(self) -> None:
            await asyncio.sleep(grace)
            if state.engine is not None:
                await state.engine.close(cancel=True)

    return Server(config)
