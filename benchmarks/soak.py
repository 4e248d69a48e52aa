"""Mixed, cancelled and hostile requests against `constrained serve`, and whether anything broke.

    python benchmarks/soak.py [--requests 2000] [--concurrency 32] [--model M | --small] [--seed N] [--kv-memory SIZE]

starts a server and sends what clients send: schemas, tools, grammars, streams, bad requests, schemas made to hurt; some clients
go away in the middle.  It fails where a status is 500 or above, an answer with 200 does not hold what was asked for, a block of
keys and values is still in use at the end, or the server's memory is not flat in the second half: its peak in the last quarter of
the requests is more than 5 % above that in the third.  `--small` takes a random model of two layers, with which the server itself
is what is worked hard.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import psutil
from served import served
from small_model import write_small_model
from soak_requests import KINDS, ROUTE

MOST_GROWTH = 1.05
SETTLED = {"blocks used": 0.0, "blocks promised": 0.0, "running": 0.0, "waiting": 0.0}


class Soak:
    """One run: what was sent and what came of it."""

    def __init__(self, address: str, requests: int, seed: int) -> None:
        self.client = httpx.AsyncClient(base_url=address, timeout=600, limits=httpx.Limits(max_connections=200))
        self.random = random.Random(seed)
        self.requests, self.begun, self.done = requests, 0, 0
        self.statuses: Counter[str] = Counter()
        self.failures: list[str] = []

    def fail(self, what: str, body: Any, found: Any) -> None:
        self.failures.append(f"{what}: {json.dumps(body)[:300]} -> {str(found)[:500]}")

    async def work(self) -> None:
        while self.begun < self.requests and len(self.failures) < 20:
            self.begun += 1
            kind = self.random.choice(KINDS)
            body, check = kind(self.random)
            body = {
                "model": "default",
                "temperature": self.random.choice([0, 1, 1.5]),
                "seed": self.random.randrange(10**6),
                **body,
            }
            leave = self.random.random() < 0.2
            try:
                await self.send(kind.__name__, body, check, leave)
            except httpx.HTTPError as error:
                self.fail("transport", body, causes(error))
            self.done += 1

    async def send(self, name: str, body: dict[str, Any], check: Any, leave: bool) -> None:
        streamed = self.random.random() < 0.5
        if leave and not streamed:
            try:
                await asyncio.wait_for(self.client.post(ROUTE, json=body), self.random.random())
            except TimeoutError:
                self.statuses[f"{name} left"] += 1
            return
        if not streamed:
            response = await self.client.post(ROUTE, json=body)
            self.note(name, response.status_code, body, response.text)
            if response.status_code == 200:
                for choice in response.json()["choices"]:
                    self.judge(body, check, choice["message"], choice["finish_reason"])
            return
        async with self.client.stream("POST", ROUTE, json={**body, "stream": True}) as response:
            if response.status_code != 200:
                self.note(name, response.status_code, body, (await response.aread()).decode())
                return
            messages: dict[int, dict[str, Any]] = {}
            count = 0
            async for line in response.aiter_lines():
                if not line or line == "data: [DONE]":
                    continue
                count += 1
                if leave and count > 3:
                    self.statuses[f"{name} left"] += 1
                    return
                event = json.loads(line.removeprefix("data: "))
                if "error" in event:
                    if name == "hostile" and event["error"]["code"] == "limit_exceeded":
                        self.statuses["hostile given up"] += 1  # in the middle, where another would have had 400
                    else:
                        self.fail("error in a stream", body, event)
                    return
                for choice in event["choices"]:
                    add(messages.setdefault(choice["index"], {"content": None}), choice)
        self.note(name, 200, body, "")
        for message in messages.values():
            self.judge(body, check, message, message.pop("finish_reason"))

    def note(self, name: str, status: int, body: Any, text: str) -> None:
        self.statuses[f"{name} {status}"] += 1
        if status >= 500:
            self.fail(f"status {status}", body, text)

    def judge(self, body: Any, check: Any, message: dict[str, Any], reason: str) -> None:
        try:
            check(message, reason)
        except Exception as error:
            self.fail(f"invalid ({type(error).__name__}: {str(error)[:100]})", body, message)


def causes(error: BaseException | None) -> str:
    """An error and what brought it about."""
    found = []
    while error is not None:
        found.append(repr(error))
        error = error.__cause__ or error.__context__
    return " <- ".join(found)


def add(message: dict[str, Any], choice: dict[str, Any]) -> None:
    delta = choice["delta"]
    if delta.get("content"):
        message["content"] = (message["content"] or "") + delta["content"]
    for call in delta.get("tool_calls", []):
        calls = message.setdefault("tool_calls", [])
        if "id" in call:
            calls.append({"function": {"name": call["function"]["name"], "arguments": ""}})
        calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    message["finish_reason"] = choice["finish_reason"]


async def left(client: httpx.AsyncClient) -> dict[str, float]:
    """What the engine still has in use."""
    text = (await client.get("/metrics")).text

    def gauge(name: str, state: str) -> float:
        found = re.search(rf'constrained_{name}{{state="{state}"}} (\S+)', text)
        assert found is not None, text
        return float(found[1])

    blocks = {f"blocks {state}": gauge("kv_blocks", state) for state in ("used", "promised")}
    return blocks | {state: gauge("sequences", state) for state in ("running", "waiting")}


async def run(address: str, server: psutil.Process, options: argparse.Namespace) -> int:
    soak = Soak(address, options.requests, options.seed)
    begin = time.monotonic()
    workers = [asyncio.create_task(soak.work()) for _ in range(options.concurrency)]
    memory: list[tuple[int, float]] = []
    shown = 0
    while not all(worker.done() for worker in workers):
        await asyncio.sleep(0.5)
        memory.append((soak.done, server.memory_info().rss / 2**20))
        if soak.done // 100 > shown:
            shown = soak.done // 100
            print(
                f"{soak.done} requests, {memory[-1][1]:.0f} MiB, {len(soak.failures)} failures",
                file=sys.stderr,
                flush=True,
            )
    await asyncio.gather(*workers)
    for _ in range(100):
        in_use = await left(soak.client)
        if in_use == SETTLED:
            break
        await asyncio.sleep(0.2)
    else:
        soak.failures.append(f"left at the end: {in_use}")
    seconds = time.monotonic() - begin
    print(f"{soak.done} requests in {seconds:.0f} s at concurrency {options.concurrency}")
    for name, count in sorted(soak.statuses.items()):
        print(f"  {name:<24} {count}")
    print(f"in use at the end: {in_use}")
    peaks = [
        max((rss for done, rss in memory if at * soak.done <= 4 * done <= (at + 1) * soak.done), default=0.0)
        for at in range(4)
    ]
    print(f"peak of resident memory in each quarter, MiB: {', '.join(f'{peak:.0f}' for peak in peaks)}")
    if peaks[3] > MOST_GROWTH * peaks[2]:
        soak.failures.append("memory is not flat in the second half")
    for failure in soak.failures:
        print("FAILED", failure)
    return 1 if soak.failures else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Soak test of constrained serve.")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kv-memory", default="256MiB", help="as constrained serve has it (256MiB)")
    parser.add_argument("--model", help="as constrained serve has it")
    parser.add_argument("--small", action="store_true", help="a random model of two layers")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = write_small_model(Path(folder) / "small") if options.small else options.model
        arguments = ["--kv-memory", options.kv_memory, *(["--model", str(model)] if model else [])]
        with served(arguments) as (address, server):
            return asyncio.run(run(address, server, options))


if __name__ == "__main__":
    sys.exit(main())
