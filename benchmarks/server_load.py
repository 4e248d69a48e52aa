"""What the server costs, and what requests cost each other.

    python benchmarks/server_load.py [--only overhead ttft schema hostile] [--rounds 3] [--requests 64] [--span 100] [--small]

Sides take turns in one run; a figure is the median of the rounds' ratios, so that what else the machine does matters little.

overhead: the same requests, each under a JSON Schema, by `LLM.generate_batch` in a process without a server, and by as many clients
    of `constrained serve`, streamed and not: output tokens per second by the server's over those of the batch, by the clock and by
    the processes' computing, which says more on a machine that is busy otherwise.
ttft: the time to the first token of a small request alone, and while 15 long ones run.
schema: 15 streams; a request with a schema of 200 properties that nobody has sent before comes in the middle of a span of tokens.
    p95 of the time between the tokens of the 15 within that span, against the spans without one on both sides of it, and against
    the same request under a schema that is known.  The request ends after `--schema-tokens`, by default its first four, so that
    what is measured is its coming.
hostile: 15 streams, and two clients that send schemas made to hurt, one after the other; p95 and the largest time between the
    tokens of the 15, against spans without them.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
from plain_client import Answer
from served import served
from small_model import write_small_model
from soak_requests import hostile_schema

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 40, "maxLength": 200}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
LONG_TOKENS = 4_000
NO_END = {"0": -100, "2": -100}
"""Forbids the end tokens of the default model's tokenizer."""


def body(text: str, **options: Any) -> dict[str, Any]:
    return {"model": "default", "messages": [{"role": "user", "content": text}], "temperature": 0, **options}


def texts(count: int, series: int) -> list[str]:
    """Prompts of a series, none of which is like those of another: else their keys and values would be there."""
    return [f"In list {series}, person number {number} was born in {1900 + number}." for number in range(count)]


# --- overhead ---------------------------------------------------------------------------------------------------------


def batches(pipe: Connection, model: str | None, tokens: int) -> None:
    """Runs `generate_batch` on the texts that it is sent, in a process of its own; sends tokens and seconds."""
    from constrained import LLM
    from constrained.prompts import with_schema
    from constrained.schema_input import read_schema

    llm = LLM(model)
    while given := pipe.recv():
        asked = [with_schema(prompt, read_schema(PERSON).description) for prompt in given]
        begin, computed = time.perf_counter(), time.process_time()
        outputs = llm.generate_batch(asked, PERSON, max_tokens=tokens)
        seconds = time.perf_counter() - begin, time.process_time() - computed
        pipe.send((sum(len(one.token_ids) for one in outputs), *seconds))


Rates = tuple[float, float]
"""Tokens per second, and per second of computing."""


async def overhead(address: str, options: argparse.Namespace, model: str | None, process: psutil.Process) -> None:
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    other = multiprocessing.get_context("spawn").Process(target=batches, args=(theirs, model, options.tokens))
    other.start()
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
    ways: dict[str, dict[str, Any]] = {
        "whole": {}, "streamed": {"stream": True, "stream_options": {"include_usage": True}},
    }  # fmt: skip

    def computed() -> float:
        times = process.cpu_times()
        return times.user + times.system

    async def server(given: Sequence[str], extra: dict[str, Any]) -> Rates:
        bodies = [body(one, response_format=form, max_tokens=options.tokens, **extra) for one in given]
        begin, before = time.perf_counter(), computed()
        answers = await asyncio.gather(*(Answer(address, one).send() for one in bodies))
        count = sum(await asyncio.gather(*(answer.ended for answer in answers)))
        return count / (time.perf_counter() - begin), count / (computed() - before)

    async def batch(given: Sequence[str]) -> Rates:
        ours.send(given)
        count, seconds, of_computing = await asyncio.to_thread(ours.recv)
        return count / seconds, count / of_computing

    await server(texts(2, 0), {})
    await batch(texts(2, 0))
    ratios: dict[str, list[Rates]] = {way: [] for way in ways}
    series = 0
    for number in range(options.rounds):
        shown = []
        for way, extra in ways.items():
            series += 1
            given = texts(options.requests, series)
            if number % 2:
                theirs_rates, ours_rates = await batch(given), await server(given, extra)
            else:
                ours_rates, theirs_rates = await server(given, extra), await batch(given)
            ratios[way].append((ours_rates[0] / theirs_rates[0], ours_rates[1] / theirs_rates[1]))
            shown.append(f"{way} {ours_rates[0]:.0f} against {theirs_rates[0]:.0f}")
        print(f"overhead: tokens/s, server against generate_batch: {', '.join(shown)}", flush=True)
    ours.send(None)
    other.join()
    for way, found in ratios.items():
        by_clock, by_computing = (statistics.median(one) for one in zip(*found, strict=True))
        print(
            f"overhead, {way}: server / generate_batch, median of {len(found)}: {by_clock:.3f}; "
            f"tokens for computing: {by_computing:.3f}"
        )


# --- requests beside each other ---------------------------------------------------------------------------------------


class Streams:
    """So many long answers at a time; one that ends is followed by another."""

    def __init__(self, address: str, count: int) -> None:
        self._address = address
        self._answers: list[list[Answer]] = [[] for _ in range(count)]

    async def begin(self) -> None:
        for number in range(len(self._answers)):
            await self._follow(number)

    async def _follow(self, number: int) -> None:
        text = f"Tell a long story, number {number}."
        # Greedy ones would repeat themselves after a while, be guessed, and come several at a time.
        asked = body(text, max_tokens=LONG_TOKENS, logit_bias=NO_END, stream=True)
        asked |= {"temperature": 1, "seed": number}
        self._answers[number].append(await Answer(self._address, asked).send())

    async def flow(self, tokens: int) -> None:
        """Waits until each has so many tokens more."""
        goals = [count + tokens for count in self._counts()]
        while any(count < goal for count, goal in zip(self._counts(), goals, strict=True)):
            for number, answers in enumerate(self._answers):
                if answers[-1].ended.done():
                    if len(answers[-1].times) < LONG_TOKENS // 2:
                        answers[-1].ended.result()
                    await self._follow(number)
            await asyncio.sleep(0.01)

    def _counts(self) -> list[int]:
        return [sum(len(answer.times) for answer in answers) for answers in self._answers]

    def gaps(self, begin: float, end: float) -> list[float]:
        """Seconds from one token to the next, of all, between two times."""
        return [
            later - earlier
            for answers in self._answers
            for answer in answers
            for earlier, later in pairwise(answer.times)
            if begin <= earlier and later <= end
        ]

    async def end(self) -> None:
        for answers in self._answers:
            answers[-1].leave()
        await asyncio.sleep(0.5)  # their blocks are free after the step that is running


async def first_token(address: str, asked: dict[str, Any], more: int = 0) -> float:
    """Seconds to the first token, `more` of which are waited for; then the client goes away."""
    begin = time.perf_counter()
    answer = await Answer(address, {**asked, "stream": True}).send()
    await answer.has(1 + more)
    answer.leave()
    return answer.times[0] - begin


async def ttft(address: str, options: argparse.Namespace) -> None:
    ratios = []
    number = 0

    async def measured() -> list[float]:
        nonlocal number
        found = []
        for _ in range(11):
            number += 1  # else the prompt's blocks would be there already
            found.append(await first_token(address, body(f"{number} is a number. Say hello.", max_tokens=8)))
        return sorted(found)

    for _ in range(options.rounds):
        alone = await measured()
        streams = Streams(address, 15)
        await streams.begin()
        await streams.flow(8)
        beside = await measured()
        await streams.end()
        ratios.append(statistics.median(beside) / statistics.median(alone))
        print(
            f"ttft, ms, median (largest) of {len(alone)}: alone {1e3 * statistics.median(alone):.1f} "
            f"({1e3 * alone[-1]:.1f}), beside 15: {1e3 * statistics.median(beside):.1f} ({1e3 * beside[-1]:.1f})",
            flush=True,
        )
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


async def schema(address: str, options: argparse.Namespace) -> None:
    rng = random.Random(time.time_ns())
    streams = Streams(address, 15)
    await streams.begin()
    await streams.flow(20)
    known = large_schema(rng)

    async def span(given: dict[str, Any] | None) -> float:
        begin = time.perf_counter()
        await streams.flow(10)
        if given is not None:
            asked = body(f"{rng.random()} is a number.", max_tokens=3_500, guided_json=given)
            await first_token(address, asked, more=options.schema_tokens - 1)
        await streams.flow(options.span - 10)
        gaps = sorted(streams.gaps(begin, time.perf_counter()))
        return gaps[int(0.95 * len(gaps))]

    await span(known)
    against: dict[str, list[float]] = {"without": [], "known": []}
    before = await span(None)
    for _ in range(options.rounds * 2):
        new = await span(large_schema(rng))
        after = await span(None)
        found = {"without": (before + after) / 2, "new": new, "known": await span(known)}
        before = await span(None)
        for name, ratios in against.items():
            ratios.append(found["new"] / found[name])
        print(
            "schema: p95 between tokens, ms: " + ", ".join(f"{k} {1e3 * v:.1f}" for k, v in found.items()), flush=True
        )
    await streams.end()
    for name, ratios in against.items():
        print(f"schema: new / {name}, median of {len(ratios)}: {statistics.median(ratios):.3f}")


async def hostile(address: str, options: argparse.Namespace) -> None:
    rng = random.Random(options.seed)
    streams = Streams(address, 15)
    await streams.begin()
    await streams.flow(20)
    sent = 0

    async def attack() -> None:
        nonlocal sent
        while True:
            asked = body("x", max_tokens=60, guided_json=hostile_schema(rng), seed=sent)
            answer = await Answer(address, {**asked, "temperature": 1}).send()
            sent += 1
            with suppress(RuntimeError):  # most are refused
                await answer.ended

    async def span() -> list[float]:
        begin = time.perf_counter()
        await streams.flow(options.span)
        return sorted(streams.gaps(begin, time.perf_counter()))

    ratios = []
    for _ in range(options.rounds):
        sent = 0
        without = await span()
        attackers = [asyncio.create_task(attack()) for _ in range(2)]
        beside = await span()
        for attacker in attackers:
            attacker.cancel()
        p95 = [gaps[int(0.95 * len(gaps))] for gaps in (without, beside)]
        ratios.append(p95[1] / p95[0])
        print(
            f"hostile: ms between tokens, p95 (largest): without {1e3 * p95[0]:.1f} ({1e3 * without[-1]:.0f}), "
            f"beside {sent} hostile schemas {1e3 * p95[1]:.1f} ({1e3 * beside[-1]:.0f})",
            flush=True,
        )
    await streams.end()
    print(f"hostile: p95 beside them / without, median of {len(ratios)}: {statistics.median(ratios):.2f}")


async def run(address: str, options: argparse.Namespace, model: str | None, process: psutil.Process) -> None:
    if "overhead" in options.only:
        await overhead(address, options, model, process)
    if "ttft" in options.only:
        await ttft(address, options)
    if "schema" in options.only:
        await schema(address, options)
    if "hostile" in options.only:
        await hostile(address, options)


def main() -> int:
    figures = ("overhead", "ttft", "schema", "hostile")
    parser = argparse.ArgumentParser(description="What the server costs, and what requests cost each other.")
    parser.add_argument("--only", nargs="+", choices=figures, default=figures)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="of the hostile schemas (0)")
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument(
        "--tokens", type=int, default=256, help="limit of each answer that is measured for the overhead (256)"
    )
    parser.add_argument("--span", type=int, default=100, help="tokens of each stream in one measurement (100)")
    parser.add_argument(
        "--schema-tokens",
        type=int,
        default=4,
        help="pieces of text of the request with the schema that are waited for (4)",
    )
    parser.add_argument("--model", help="as constrained serve has it")
    parser.add_argument("--small", action="store_true", help="a random model of two layers")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = str(write_small_model(Path(folder) / "small")) if options.small else options.model
        with served(["--model", model] if model else []) as (address, process):
            asyncio.run(run(address, options, model, process))
    return 0


if __name__ == "__main__":
    sys.exit(main())
