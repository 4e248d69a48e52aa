"""Hours of mixed, cancelled and hostile requests against `constrained serve`, and whether anything broke.

`python benchmarks/soak.py --minutes 30 --concurrency 32` starts a server with the default model and sends what clients send:
schemas, tools, grammars, streams, bad requests, schemas made to hurt; some clients go away in the middle.  It fails where a
status is 500 or above, an answer with 200 does not hold what was asked for, a block of keys and values is still in use at the
end, or the server's memory grew by more than `--growth` MiB between the first quarter and the end.  What is kept for grammars
grows until it fills `Limits.bytes` (256 MiB), and is there twice while an old store is still in use.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import psutil

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
ORDER = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": {"enum": ["soup", "tea", "bread"]}, "minItems": 1, "maxItems": 3},
        "paid": {"type": "boolean"},
        "note": {"type": ["string", "null"], "maxLength": 10},
    },
    "required": ["items", "paid"],
    "additionalProperties": False,
}
TOOLS = [
    {"type": "function", "function": {"name": "keep", "description": "Keeps a person.", "parameters": PERSON}},
    {"type": "function", "function": {"name": "order", "description": "Orders food.", "parameters": ORDER}},
]
SCHEMA_OF = {"keep": PERSON, "order": ORDER}


def nested(depth: int) -> Any:
    schema: Any = {"type": "integer"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema, "maxItems": 1}
    return schema


def doubled(depth: int) -> Any:
    """Two references to the next definition at each level: 2**depth paths."""
    levels = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(depth)}
    return {"$ref": "#/$defs/d0", "$defs": {**levels, f"d{depth}": {"type": "integer"}}}


HOSTILE: list[Any] = [
    nested(900),
    doubled(24),
    {"type": "string", "pattern": "^(a+)+$", "maxLength": 20},
    {"type": "string", "pattern": "(((a{1,30}){1,30}){1,30})"},
    {"type": "string", "minLength": 100_000},
    {"enum": [f"word-{number}" for number in range(20_000)]},
    {"$ref": "https://example.org/schema.json"},
    {"$ref": "#"},
    {"type": "array", "items": {"$ref": "#"}, "minItems": 1},
    {
        "type": "object",
        "properties": {f"p{n}": {"type": "string"} for n in range(2_000)},
        "required": [f"p{n}" for n in range(500)],
    },
    {"not": {"not": {"not": {"type": "string"}}}},
    {"oneOf": [{"multipleOf": n} for n in range(2, 40)]},
    {"type": "x"},
    False,
]


class Soak:
    """One run: what was sent and what came of it."""

    def __init__(self, address: str, seed: int) -> None:
        self.client = httpx.AsyncClient(base_url=address, timeout=600, limits=httpx.Limits(max_connections=200))
        self.random = random.Random(seed)
        self.statuses: Counter[str] = Counter()
        self.failures: list[str] = []

    def fail(self, what: str, body: Any, found: Any) -> None:
        self.failures.append(f"{what}: {json.dumps(body)[:300]} -> {str(found)[:500]}")

    async def work(self, until: float) -> None:
        while time.monotonic() < until and len(self.failures) < 20:
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
                self.fail("transport", body, repr(error))

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


def ask(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def fits(schema: Any) -> Any:
    def check(message: dict[str, Any], reason: str) -> None:
        assert reason == "stop", reason
        jsonschema.validate(json.loads(message["content"]), schema)

    return check


def schemas(rng: random.Random) -> tuple[dict[str, Any], Any]:
    schema = rng.choice([PERSON, ORDER])
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    return {
        **ask("Ada Lovelace, 36, ordered soup."),
        "response_format": form,
        "max_tokens": rng.randrange(40, 90),
    }, fits(schema)


def fresh_schemas(rng: random.Random) -> tuple[dict[str, Any], Any]:
    """One that nobody has sent before."""
    word = "".join(rng.choice("abcdefgh") for _ in range(6))
    schema = {
        "type": "object",
        "properties": {word: {"type": "integer", "minimum": rng.randrange(99), "maximum": 10**6}},
        "required": [word],
        "additionalProperties": False,
    }
    return {**ask("A number."), "guided_json": schema, "max_tokens": 60}, fits(schema)


def tools(rng: random.Random) -> tuple[dict[str, Any], Any]:
    choice = rng.choice(["auto", "required", {"type": "function", "function": {"name": "order"}}])
    form = rng.choice(["auto", "hermes", "pythonic", "mistral_args"])

    def check(message: dict[str, Any], reason: str) -> None:
        calls = message.get("tool_calls") or []
        assert calls or choice == "auto"
        assert (reason == "tool_calls") == bool(calls), reason
        assert "<tool_call>" not in (message["content"] or "")
        for call in calls:
            jsonschema.validate(json.loads(call["function"]["arguments"]), SCHEMA_OF[call["function"]["name"]])

    return {
        **ask("One soup, please."),
        "tools": TOOLS,
        "tool_choice": choice,
        "tool_format": form,
        "max_tokens": 90,
    }, check


def patterns(rng: random.Random) -> tuple[dict[str, Any], Any]:
    pattern = rng.choice([r"[A-Z]{2} [0-9]{3}", r"(\d+\.){2}\d+", r"[äöü]{3,6}"])

    def check(message: dict[str, Any], reason: str) -> None:
        assert re.fullmatch(pattern, message["content"])

    return {**ask("A number."), "structured_outputs": {"regex": pattern}, "max_tokens": 40}, check


def grammars(rng: random.Random) -> tuple[dict[str, Any], Any]:
    grammar = rng.choice(['start: NUMBER ("+" NUMBER)+\nNUMBER: /[0-9]{1,3}/', 'root ::= [0-9]{1,3} ("+" [0-9]{1,3})+'])

    def check(message: dict[str, Any], reason: str) -> None:
        assert re.fullmatch(r"[0-9]{1,3}(\+[0-9]{1,3})+", message["content"])

    return {**ask("A sum."), "guided_grammar": grammar, "max_tokens": 30}, check


def words(rng: random.Random) -> tuple[dict[str, Any], Any]:
    return {
        **ask("Say hello."),
        "max_tokens": 20,
        "n": rng.randrange(1, 4),
        "stop": ["!", "ello"],
    }, lambda message, reason: None


def bad(rng: random.Random) -> tuple[dict[str, Any], Any]:
    def never(message: dict[str, Any], reason: str) -> None:
        raise AssertionError("this was to be refused")

    wrong = rng.choice(
        [
            {"colour": 1},
            {"guided_regex": "("},
            {"max_tokens": 10**6},
            {"n": 99},
            {"tools": [{"type": "x"}]},
            {"logit_bias": {"-1": 1}},
        ]
    )
    return {**ask("x"), **wrong}, never


def hostile(rng: random.Random) -> tuple[dict[str, Any], Any]:
    def parses(message: dict[str, Any], reason: str) -> None:
        json.loads(message["content"])

    return {**ask("x"), "guided_json": rng.choice(HOSTILE), "max_tokens": 60}, parses


ROUTE = "/v1/chat/completions"
KINDS = [schemas, schemas, fresh_schemas, tools, tools, patterns, grammars, words, bad, hostile]


async def blocks_in_use(client: httpx.AsyncClient) -> tuple[float, float]:
    text = (await client.get("/metrics")).text
    used = re.search(r'constrained_kv_blocks\{state="used"\} (\S+)', text)
    running = re.search(r'constrained_sequences\{state="running"\} (\S+)', text)
    assert used and running
    return float(used[1]), float(running[1])


async def run(address: str, server: psutil.Process, options: argparse.Namespace) -> int:
    soak = Soak(address, options.seed)
    for _ in range(600):
        try:
            if (await soak.client.get("/ready")).status_code == 200:
                break
        except httpx.HTTPError:
            pass
        await asyncio.sleep(0.5)
    begin, seconds = time.monotonic(), options.minutes * 60
    workers = [asyncio.create_task(soak.work(begin + seconds)) for _ in range(options.concurrency)]
    early = 0
    while not all(worker.done() for worker in workers):
        await asyncio.sleep(1)
        rss = server.memory_info().rss
        if time.monotonic() - begin < seconds / 4:
            early = max(early, rss)
    await asyncio.gather(*workers)
    for _ in range(100):
        used, running = await blocks_in_use(soak.client)
        if not used and not running:
            break
        await asyncio.sleep(0.2)
    late = server.memory_info().rss
    print(
        f"{sum(soak.statuses.values())} requests in {time.monotonic() - begin:.0f} s at concurrency {options.concurrency}"
    )
    for name, count in sorted(soak.statuses.items()):
        print(f"  {name:<20} {count}")
    print(f"blocks in use at the end: {used:.0f}")
    print(f"memory: {early / 2**20:.0f} MiB in the first quarter, {late / 2**20:.0f} MiB at the end")
    if used or running:
        soak.failures.append(f"{used} blocks and {running} sequences are left")
    if early and late > early + options.growth * 2**20:
        soak.failures.append(f"memory grew from {early} to {late} bytes")
    for failure in soak.failures:
        print("FAILED", failure)
    return 1 if soak.failures else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Soak test of constrained serve.")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--growth", type=int, default=600, help="most MiB of growth after the first quarter (600)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kv-memory", default="1GiB", help="as constrained serve has it (1GiB)")
    parser.add_argument("--model", help="as constrained serve has it")
    options = parser.parse_args()
    command = [sys.executable, "-m", "constrained", "serve", "--port", "0", "--kv-memory", options.kv_memory]
    if options.model:
        command += ["--model", options.model]
    with tempfile.NamedTemporaryFile("w+") as log, subprocess.Popen(command, stderr=log) as server:
        try:
            address = None
            while address is None:
                time.sleep(0.5)
                address = re.search(r"listening on (http://\S+)", Path(log.name).read_text())
                if server.poll() is not None:
                    print(Path(log.name).read_text())
                    return 1
            return asyncio.run(run(address[1], psutil.Process(server.pid), options))
        finally:
            server.terminate()
            server.wait(60)


if __name__ == "__main__":
    sys.exit(main())
