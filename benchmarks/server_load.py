"""What the server costs, and what requests cost each other.

    python benchmarks/server_load.py [--only overhead ttft schema] [--rounds 3] [--requests 64] [--tokens 32] [--model M | --small]

Sides take turns in one run; a figure is the median of the rounds' ratios, so that what else the machine does matters little.

overhead: the same requests, each under a JSON Schema, by `LLM.generate_batch` in a process without a server, and by as many clients
    of `constrained serve`, streamed and not: output tokens per second by the server's over those of the batch.
ttft: the time to the first token of a small request alone, and while 15 long ones run.
schema: 15 streams; a request with a schema of 200 properties that nobody has sent before comes in the middle of a span of tokens.
    p95 of the time between the tokens of the 15 within that span, against spans without, and against the same request under a
    schema that is known.  The request ends after its first tokens, so that what is measured is its coming.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx
from served import served
from small_model import write_small_model

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 40, "maxLength": 400}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
ROUTE = "/v1/chat/completions"
LONG_TOKENS = 4_000
NO_END = {"0": -100, "2": -100}
"""Forbids the end tokens of the default model's tokenizer."""


def body(text: str, **options: Any) -> dict[str, Any]:
    return {"model": "default", "messages": [{"role": "user", "content": text}], "temperature": 0, **options}


def texts(count: int) -> list[str]:
    return [f"Person number {number} of the list was born in {1900 + number}." for number in range(count)]


# --- overhead ---------------------------------------------------------------------------------------------------------


def batches(pipe: Connection, model: str | None, prompts: Sequence[str], tokens: int) -> None:
    """Runs `generate_batch` when it is told to, in a process of its own; sends tokens and seconds."""
    from constrained import LLM
    from constrained.prompts import with_schema
    from constrained.schema_input import read_schema

    llm = LLM(model)
    asked = [with_schema(prompt, read_schema(PERSON).description) for prompt in prompts]
    llm.generate_batch(asked[:2], PERSON, max_tokens=tokens)
    pipe.send(None)
    while pipe.recv():
        begin = time.perf_counter()
        outputs = llm.generate_batch(asked, PERSON, max_tokens=tokens)
        pipe.send((sum(len(one.token_ids) for one in outputs), time.perf_counter() - begin))


async def overhead(client: httpx.AsyncClient, options: argparse.Namespace, model: str | None) -> None:
    prompts = texts(options.requests)
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=batches, args=(theirs, model, prompts, options.tokens)
    )
    process.start()
    await asyncio.to_thread(ours.recv)
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
    bodies = [body(prompt, response_format=form, max_tokens=options.tokens) for prompt in prompts]

    async def whole(one: dict[str, Any]) -> int:
        answer = (await client.post(ROUTE, json=one)).json()
        return int(answer["usage"]["completion_tokens"])

    async def streamed(one: dict[str, Any]) -> int:
        events = [event async for event in stream(client, {**one, "stream_options": {"include_usage": True}})]
        return int(events[-1]["usage"]["completion_tokens"])

    async def served_by(way: Callable[[dict[str, Any]], Awaitable[int]]) -> float:
        begin = time.perf_counter()
        counts = await asyncio.gather(*map(way, bodies))
        return sum(counts) / (time.perf_counter() - begin)

    await asyncio.gather(*map(whole, bodies[:2]))
    ratios: dict[str, list[float]] = {"whole": [], "streamed": []}
    for _ in range(options.rounds):
        rates = {"whole": await served_by(whole)}
        ours.send(True)
        count, seconds = await asyncio.to_thread(ours.recv)
        rates["streamed"] = await served_by(streamed)
        ours.send(True)
        again, more = await asyncio.to_thread(ours.recv)
        batch = (count + again) / (seconds + more)
        for way, rate in rates.items():
            ratios[way].append(rate / batch)
        shown = ", ".join(f"server {way} {rate:.0f}" for way, rate in rates.items())
        print(f"overhead: tokens/s: generate_batch {batch:.0f}, {shown}", flush=True)
    ours.send(False)
    process.join()
    for way, found in ratios.items():
        print(f"overhead, {way}: server / generate_batch, median of {len(found)}: {statistics.median(found):.3f}")


# --- requests beside each other ---------------------------------------------------------------------------------------


async def stream(client: httpx.AsyncClient, asked: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """The events of an answer; those with text have the time at which they came."""
    async with client.stream("POST", ROUTE, json={**asked, "stream": True}) as response:
        if response.status_code != 200:
            raise RuntimeError((await response.aread()).decode())
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                event = json.loads(line.removeprefix("data: "))
                if "error" in event:
                    raise RuntimeError(str(event))
                yield {**event, "at": time.perf_counter()}


def has_text(event: dict[str, Any]) -> bool:
    return bool(event["choices"] and event["choices"][0]["delta"].get("content"))


class Streams:
    """So many long answers at a time, of which the time of each token is noted; one that ends is followed by another."""

    def __init__(self, client: httpx.AsyncClient, count: int) -> None:
        self.times: list[list[float]] = [[] for _ in range(count)]
        self._client = client
        self._tasks = [asyncio.create_task(self._run(number)) for number in range(count)]

    async def _run(self, number: int) -> None:
        while True:
            asked = body(f"Tell a long story, number {number}.", max_tokens=LONG_TOKENS, logit_bias=NO_END)
            async for event in stream(self._client, asked):
                if has_text(event):
                    self.times[number].append(event["at"])

    async def flow(self, tokens: int) -> None:
        """Waits until each has so many tokens more."""
        goals = [len(times) + tokens for times in self.times]
        while any(len(times) < goal for times, goal in zip(self.times, goals, strict=True)):
            for task in self._tasks:
                if task.done():
                    await task
            await asyncio.sleep(0.01)

    def gaps(self, begin: float, end: float) -> list[float]:
        """Seconds from one token to the next, of all, between two times."""
        return [
            later - earlier
            for times in self.times
            for earlier, later in pairwise(times)
            if begin <= earlier and later <= end
        ]

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def first_token(client: httpx.AsyncClient, asked: dict[str, Any], more: int = 0) -> float:
    """Seconds to the first token, `more` of which are waited for; then the client goes away."""
    begin = time.perf_counter()
    took = None
    async for event in stream(client, asked):
        if has_text(event):
            took = took or event["at"] - begin
            more -= 1
            if more < 0:
                break
    assert took is not None
    return took


async def ttft(client: httpx.AsyncClient, options: argparse.Namespace) -> None:
    ratios = []
    number = 0

    async def measured() -> float:
        nonlocal number
        found = []
        for _ in range(7):
            number += 1  # else the prompt's blocks would be there already
            found.append(await first_token(client, body(f"{number} is a number. Say hello.", max_tokens=8)))
        return statistics.median(found)

    for _ in range(options.rounds):
        alone = await measured()
        streams = Streams(client, 15)
        await streams.flow(8)
        beside = await measured()
        await streams.end()
        ratios.append(beside / alone)
        print(f"ttft: alone {1e3 * alone:.1f} ms, beside 15: {1e3 * beside:.1f} ms", flush=True)
    print(f"ttft: beside 15 / alone, median of {len(ratios)}: {statistics.median(ratios):.2f}")


def large_schema(rng: random.Random) -> dict[str, Any]:
    """200 properties of every simple kind, none of which was there before."""
    word = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=6))
    kinds: list[Any] = [
        {"type": "string", "maxLength": rng.randrange(5, 60)},
        {"type": "integer", "minimum": rng.randrange(99), "maximum": rng.randrange(100, 10**6)},
        {"enum": [f"{word}{number}" for number in range(5)]},
        {"type": "array", "items": {"type": "number"}, "maxItems": rng.randrange(2, 9)},
        {"type": "string", "pattern": f"^[a-z]{{{rng.randrange(2, 9)}}}-{word}$"},
        {"type": ["boolean", "null"]},
    ]
    properties = {f"{word}_{number}": kinds[number % len(kinds)] for number in range(200)}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


async def schema(client: httpx.AsyncClient, options: argparse.Namespace) -> None:
    rng = random.Random(time.time_ns())
    streams = Streams(client, 15)
    await streams.flow(20)
    known = large_schema(rng)

    async def span(given: dict[str, Any] | None) -> float:
        begin = time.perf_counter()
        await streams.flow(10)
        if given is not None:
            asked = body(f"{rng.random()} is a number.", max_tokens=3_500, guided_json=given)
            await first_token(client, asked, more=3)
        await streams.flow(options.span - 10)
        gaps = sorted(streams.gaps(begin, time.perf_counter()))
        return gaps[int(0.95 * len(gaps))]

    await span(known)
    against: dict[str, list[float]] = {"without": [], "known": []}
    for _ in range(options.rounds * 2):
        found = {"without": await span(None), "new": await span(large_schema(rng)), "known": await span(known)}
        for name, ratios in against.items():
            ratios.append(found["new"] / found[name])
        print(
            "schema: p95 between tokens, ms: " + ", ".join(f"{k} {1e3 * v:.1f}" for k, v in found.items()), flush=True
        )
    await streams.end()
    for name, ratios in against.items():
        print(f"schema: new / {name}, median of {len(ratios)}: {statistics.median(ratios):.3f}")


async def run(address: str, options: argparse.Namespace, model: str | None) -> None:
    limits = httpx.Limits(max_connections=200, max_keepalive_connections=200)
    async with httpx.AsyncClient(base_url=address, timeout=600, limits=limits) as client:
        if "overhead" in options.only:
            await overhead(client, options, model)
        if "ttft" in options.only:
            await ttft(client, options)
        if "schema" in options.only:
            await schema(client, options)


def main() -> int:
    figures = ("overhead", "ttft", "schema")
    parser = argparse.ArgumentParser(description="What the server costs, and what requests cost each other.")
    parser.add_argument("--only", nargs="+", choices=figures, default=figures)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=32, help="of each answer that is measured for the overhead (32)")
    parser.add_argument("--span", type=int, default=100, help="tokens of each stream in one measurement (100)")
    parser.add_argument("--model", help="as constrained serve has it")
    parser.add_argument("--small", action="store_true", help="a random model of two layers")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = str(write_small_model(Path(folder) / "small")) if options.small else options.model
        with served(["--model", model] if model else []) as (address, _):
            asyncio.run(run(address, options, model))
    return 0


if __name__ == "__main__":
    sys.exit(main())
