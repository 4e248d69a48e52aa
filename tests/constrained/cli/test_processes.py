"""Commands as processes: killed in the middle, and asked to end."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

pytest.importorskip("fastapi", reason="the extra `server` is not installed")

COMMAND = [sys.executable, "-m", "constrained"]
ANSWERS = 40
pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")


def started(*arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([*COMMAND, *arguments], stderr=subprocess.PIPE, text=True, env=environment)


def test_a_batch_that_is_killed_wherever_it_is_goes_on_without_loss_or_repeats(
    model_folder: Path, tmp_path: Path
) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    asked = {
        f"request-{number}": {
            "messages": [{"role": "user", "content": "go"}],
            "guided_regex": "[ab]{40}",
            "seed": number,
        }
        for number in range(ANSWERS)
    }
    source.write_text("".join(json.dumps({"custom_id": name, **body}) + "\n" for name, body in asked.items()))
    arguments = ["batch", str(source), str(target), "--model", str(model_folder), "--concurrency", "3"]
    rng = random.Random(3)
    lines: list[bytes] = []
    for least in (rng.randrange(1, 10), rng.randrange(15, 30)):
        with started(*arguments) as process:
            while len(lines) < least:
                with pytest.raises(subprocess.TimeoutExpired):  # it is not to end by itself
                    process.wait(0.02)
                lines = target.read_bytes().splitlines(keepends=True) if target.exists() else []
            process.kill()
        before, lines = lines, target.read_bytes().splitlines(keepends=True)
        assert lines[: len(before)] == before
        assert least <= len(lines) < ANSWERS
    target.write_bytes(target.read_bytes() + b'{"custom_id": "request-3')  # as if it had been in the middle of a line
    with started(*arguments) as process:
        assert process.wait(120) == 0
        assert process.stderr is not None
        assert f"{len(lines)} of {ANSWERS} are answered already" in process.stderr.read()
    assert target.read_bytes().startswith(b"".join(lines))
    answers = [json.loads(line) for line in target.read_text().splitlines()]
    assert sorted(answer["custom_id"] for answer in answers) == sorted(asked)
    for answer in answers:
        assert re.fullmatch("[ab]{40}", answer["response"]["body"]["choices"][0]["message"]["content"])


def port_of(log: IO[str]) -> int:
    for line in log:
        if found := re.search(r"listening on http://127\.0\.0\.1:(\d+)", line):
            return int(found[1])
    raise AssertionError("the server has not begun to listen")


def streaming(port: int, tokens: int) -> IO[bytes]:
    """The answer to a streamed request, of which some has come."""
    body = {"model": "default", "messages": [{"role": "user", "content": "go"}], "stream": True, "max_tokens": tokens}
    data = json.dumps({**body, "logit_bias": {"256": -100}}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        connection.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + data)
        file = connection.makefile("rb")
    for line in file:
        if b'"content":"' in line and b'"content":""' not in line:
            return file
    raise AssertionError("the stream has ended")


@pytest.mark.parametrize(("grace", "tokens", "end"), [(60, 600, b"data: [DONE]"), (1, 2_000, b"shutting_down")])
def test_a_server_that_is_asked_to_end_lets_streams_end_within_the_grace(
    model_folder: Path, grace: int, tokens: int, end: bytes
) -> None:
    arguments = ("serve", "--port", "0", "--model", str(model_folder), "--grace", str(grace), "--log-format", "json")
    with started(*arguments) as process:
        assert process.stderr is not None
        port = port_of(process.stderr)
        for line in process.stderr:
            if '"ready"' in line:
                break
        stream = streaming(port, tokens)
        process.send_signal(signal.SIGTERM)
        rest = stream.read()
        assert process.wait(120) == 0
    assert end in rest, rest[-500:]
    with pytest.raises(ConnectionError):
        socket.create_connection(("127.0.0.1", port), timeout=10)
