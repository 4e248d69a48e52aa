"""Health, keys, limits, load, cancelling, and the end."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from constrained import LLM, Limits
from constrained.server import ServerSettings, make_app
from constrained.server.guard import host_of
from constrained.server.logs import JsonLines, TextLines

from .conftest import chat, refused, wait_until_ready


def test_while_the_model_is_loaded_requests_are_put_off(random_llm: LLM) -> None:
    may_load = threading.Event()

    def load() -> LLM:
        may_load.wait()
        return LLM(random_llm.model)

    with TestClient(make_app(load, ServerSettings()), base_url="http://localhost") as client:
        assert client.get("/health").json() == {"status": "ok"}
        for response in (
            client.get("/ready"),
            client.post(
                "/v1/chat/completions", json={"model": "default", "messages": [{"role": "user", "content": "x"}]}
            ),
        ):
            assert response.status_code == 503
            assert int(response.headers["retry-after"]) > 0
            assert response.json()["error"]["code"] == "loading"
        may_load.set()
        wait_until_ready(client)
        chat(client, max_tokens=2)


def test_a_model_that_cannot_be_loaded_ends_the_server() -> None:
    def load() -> LLM:
        raise RuntimeError("no such model")

    ended = threading.Event()
    app = make_app(load, ServerSettings(), ended.set)
    with TestClient(app, base_url="http://localhost") as client:
        assert ended.wait(10)
        assert client.get("/ready").status_code == 503
    assert str(app.state.server.failure) == "no such model"


def test_models_are_listed(client: TestClient) -> None:
    [model] = client.get("/v1/models").json()["data"]
    assert model["id"] == "default"
    assert client.get("/v1/models/default").json() == model


def test_keys_are_asked_for_where_there_are_some(serve: Callable[..., TestClient]) -> None:
    with serve(ServerSettings(api_keys=frozenset({"secret", "other"}))) as client:
        assert client.get("/health").status_code == 200
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Basic secret"},
            {"Authorization": "secret"},
        ):
            for path in ("/v1/models", "/metrics", "/openapi.json"):
                response = client.get(path, headers=headers)
                assert response.status_code == 401
                assert response.headers["www-authenticate"] == "Bearer"
                assert response.json()["error"]["code"] == "invalid_api_key"
        for key in ("secret", "other"):
            assert client.get("/v1/models", headers={"Authorization": f"Bearer {key}"}).status_code == 200


def test_only_this_host_is_answered_for_on_a_loopback_address(
    client: TestClient, serve: Callable[..., TestClient]
) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", ""):
        assert client.get("/v1/models", headers={"Host": host}).status_code == 403
    for host in ("localhost", "localhost:8000", "127.0.0.1:1", "[::1]:8000"):
        assert client.get("/v1/models", headers={"Host": host}).status_code == 200
    with serve(ServerSettings(host="0.0.0.0")) as open_client:
        assert open_client.get("/v1/models", headers={"Host": "model.example"}).status_code == 200


def test_hosts_are_read_with_and_without_a_port() -> None:
    assert [host_of(one) for one in ("a:1", "a", "[::1]:1", "[::1]", "")] == ["a", "a", "::1", "::1", ""]


def test_pages_elsewhere_may_not_call_unless_they_are_named(
    client: TestClient, serve: Callable[..., TestClient]
) -> None:
    headers = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST"}
    assert "access-control-allow-origin" not in client.get("/v1/models", headers=headers).headers
    with serve(ServerSettings(cors_origins=("https://page.example",))) as open_client:
        assert (
            open_client.options("/v1/models", headers=headers).headers["access-control-allow-origin"]
            == headers["Origin"]
        )
        assert (
            "access-control-allow-origin" not in open_client.get("/v1/models", headers={"Origin": "https://x"}).headers
        )


def test_bodies_and_grammars_have_a_size(serve: Callable[..., TestClient]) -> None:
    with serve(ServerSettings(max_body_bytes=3000, max_grammar_bytes=500)) as client:
        wait_until_ready(client)
        error = refused(client, status=413, messages=[{"role": "user", "content": "x" * 4000}])
        assert error["code"] == "request_too_large"

        def unmeasured() -> Any:
            yield from (b"x" * 1000 for _ in range(8))

        headers = {"Content-Type": "application/json"}
        assert client.post("/v1/chat/completions", content=unmeasured(), headers=headers).status_code == 413
        assert refused(client, status=413, guided_regex="a" * 600)["param"] == "guided_regex"
        tool = {"type": "function", "function": {"name": "t", "description": "x" * 600}}
        assert refused(client, status=413, tools=[tool])["param"] == "tools"


def test_one_client_has_so_many_requests_at_a_time(serve: Callable[..., TestClient]) -> None:
    with serve(ServerSettings(max_requests_per_key=1)) as client:
        wait_until_ready(client)
        with client.app.state.server.served("testclient"):  # type: ignore[attr-defined]
            error = refused(client, status=429)
            assert (error["type"], error["code"]) == ("rate_limit_error", "too_many_requests")
        for _ in range(3):  # places are given back, also after refusals and streams
            chat(client, max_tokens=2)
            refused(client, guided_regex="(")
            with client.stream(
                "POST",
                "/v1/chat/completions",
                json={
                    "model": "default",
                    "stream": True,
                    "max_tokens": 3,
                    "messages": [{"role": "user", "content": "x"}],
                },
            ) as stream:
                stream.read()


def test_a_full_queue_is_told_with_a_time_to_come_again(serve: Callable[..., TestClient]) -> None:
    with serve(max_waiting=1) as client:
        wait_until_ready(client)
        body = {"model": "default", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1500, "n": 16}
        response = client.post("/v1/chat/completions", json=body)
        assert response.status_code == 429
        assert response.headers["retry-after"] == "1"
        assert response.json()["error"]["code"] == "queue_full"
        assert idle(client.app)


def idle(app: Any) -> bool:
    """Whether nothing runs any more and every block is free, soon."""
    engine = app.state.server.engine.llm.engine
    with engine._changed:
        assert engine._changed.wait_for(lambda: engine._thread is None, 30)
    usage = engine.usage()
    return bool(usage.running == usage.waiting == usage.used_blocks == 0)


async def _leaves(app: Any, body: dict[str, Any], after: int) -> None:
    """A client that goes away after so many messages of the answer."""
    data = json.dumps({"model": "default", "messages": [{"role": "user", "content": "x"}], **body}).encode()
    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": "POST",
        "scheme": "http", "path": "/v1/chat/completions", "raw_path": b"/v1/chat/completions", "query_string": b"",
        "root_path": "", "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000), "state": {},
    }  # fmt: skip
    sent = 0
    gone = asyncio.Event()
    asked = False

    async def receive() -> dict[str, Any]:
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "http.request", "body": data, "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal sent
        sent += 1
        if sent > after:
            gone.set()

    if not after:
        engine = app.state.server.engine.llm.engine

        async def leave_when_it_runs() -> None:
            while engine.usage().running < body["n"]:
                await asyncio.sleep(0)
            gone.set()

        leaving = asyncio.create_task(leave_when_it_runs())
    await app(scope, receive, send)
    if not after:
        await leaving


@pytest.mark.parametrize(("stream", "after", "n"), [(True, 3, 1), (True, 3, 4), (False, 0, 1), (False, 0, 4)])
def test_a_client_that_goes_away_ends_its_request_and_frees_its_blocks(
    serve: Callable[..., TestClient], stream: bool, after: int, n: int
) -> None:
    with serve() as client:
        wait_until_ready(client)
        assert client.portal is not None
        body = {"stream": stream, "max_tokens": 1500, "logit_bias": {"256": -100}, "n": n}
        client.portal.call(_leaves, client.app, body, after)
        assert idle(client.app)
        text = client.get("/metrics").text
        assert f'constrained_answers_total{{reason="cancelled"}} {n}.0' in text


def test_a_grammar_that_takes_too_long_is_given_up(serve: Callable[..., TestClient]) -> None:
    schema = {"oneOf": [{"multipleOf": number} for number in range(2, 40)]}
    with serve(limits=Limits(step_seconds=0.2)) as client:
        wait_until_ready(client)
        assert refused(client, guided_json=schema)["code"] == "limit_exceeded"
        chat(client, max_tokens=2)


@pytest.mark.parametrize("stream", [False, True])
def test_a_grammar_that_is_given_up_in_the_middle_leaves_the_connection_as_it_was(
    random_llm: LLM, stream: bool
) -> None:
    """uvicorn closes the connection behind whatever a route raises, and the client's next request would be lost."""
    schema = {
        "type": "object",
        "properties": {"a": {"const": "x" * 30}, "b": {"type": "string", "pattern": "^(.*a.{12}b|.*c.{12}d)$"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    app = make_app(lambda: LLM(random_llm.model, limits=Limits(step_searches=1000)), ServerSettings())
    body = {"model": "default", "messages": [{"role": "user", "content": "x"}], "guided_json": schema, "stream": stream}
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=True) as client:
        wait_until_ready(client)
        response = client.post("/v1/chat/completions", json={**body, "max_tokens": 200, "temperature": 0})
        events = response.text.removeprefix("data: ").split("\n\ndata: ")
        assert response.status_code == (200 if stream else 400)
        assert (len(events) > 30) is stream  # the text had begun
        error = json.loads(events[-1])["error"]
        assert (error["code"], error["param"]) == ("limit_exceeded", None)
        assert "connection" not in response.headers
        assert idle(app)


def test_behind_an_error_that_nobody_foresaw_the_connection_ends(serve: Callable[..., TestClient]) -> None:
    with serve() as client:

        @client.app.get("/broken")  # type: ignore[attr-defined,untyped-decorator]
        async def broken() -> None:
            raise RuntimeError("nobody foresaw this")

        response = client.get("/broken")
        assert (response.status_code, response.headers["connection"]) == (500, "close")
        assert response.json()["error"]["code"] == "internal_error"


def test_metrics_tell_what_was_done(serve: Callable[..., TestClient]) -> None:
    with serve() as client:
        wait_until_ready(client)
        chat(client, guided_regex="[ab]{5}")
        refused(client, guided_regex="(")
        text = client.get("/metrics").text
    for line in (
        'constrained_requests_total{route="/v1/chat/completions",status="200"} 1.0',
        'constrained_requests_total{route="/v1/chat/completions",status="400"} 1.0',
        'constrained_tokens_total{kind="output"} 5.0',
        'constrained_answers_total{reason="stop"} 1.0',
        "constrained_ttft_seconds_count 1.0",
        "constrained_itl_seconds_count 4.0",
        'constrained_sequences{state="running"} 0.0',
        'constrained_kv_blocks{state="used"} 0.0',
    ):
        assert line in text, text
    assert "constrained_mask_seconds_count" in text
    assert 'constrained_tokens_total{kind="cached_prompt"}' in text


def test_the_log_has_a_line_for_each_request_and_nothing_of_what_it_said(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="constrained.server"):
        response = client.post(
            "/v1/chat/completions",
            json={"model": "default", "max_tokens": 2, "messages": [{"role": "user", "content": "private words"}]},
        )
    [record] = [one for one in caplog.records if one.getMessage() == "request"]
    line = JsonLines().format(record)
    fields = json.loads(line)
    assert fields["id"] == response.headers["x-request-id"]
    assert (fields["route"], fields["status"]) == ("/v1/chat/completions", 200)
    assert "private" not in line
    assert f"status={fields['status']}" in TextLines().format(record)


def test_an_error_inside_tells_the_client_nothing_of_it(
    serve: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve() as client:
        wait_until_ready(client)
        planner = client.app.state.server.engine.llm.planner  # type: ignore[attr-defined]
        monkeypatch.setattr(planner, "plan", lambda *_, **__: 1 / 0)
        error = refused(client, status=500)
    assert "division" not in error["message"]
    assert error["code"] == "internal_error"


def test_the_end_of_the_server_cancels_what_is_left(serve: Callable[..., TestClient]) -> None:
    with serve() as client:
        wait_until_ready(client)
        app: Any = client.app
        handle = app.state.server.engine.llm.engine.submit([1, 2, 3], max_new_tokens=1500, eos_token_ids=[])
    assert handle.wait(10)
    assert handle.result().finish_reason == "cancelled"


@pytest.mark.parametrize("options", [{"model_names": ()}, {"max_choices": 0}, {"max_body_bytes": True}])
def test_settings_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        ServerSettings(**options)
