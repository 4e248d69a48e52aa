"""What `make demo` shows: data out of real texts, each under its own schema, with a small model on this machine."""

from __future__ import annotations

import json
import sys
import textwrap
import time
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from rich.console import Console

from constrained import LLM, Generation
from constrained.cli.progress import progress_bars


class Person(BaseModel):
    name: str = Field(max_length=60)
    born: int = Field(ge=1000, le=2100, description="year of birth")
    occupation: str = Field(max_length=40)


class Line(BaseModel):
    product: str = Field(max_length=40)
    quantity: int = Field(ge=1, le=1000)
    unit_price: float = Field(ge=0, le=100_000)


class Invoice(BaseModel):
    number: str = Field(pattern="^INV-[0-9]{5}$")
    currency: Literal["EUR", "USD", "CHF"]
    lines: list[Line] = Field(min_length=1, max_length=4)
    paid: bool


class Review(BaseModel):
    sentiment: Literal["positive", "negative", "mixed"]
    stars: int = Field(ge=1, le=5)
    topics: list[Literal["food", "service", "price", "place"]] = Field(max_length=3)


class Item(BaseModel):
    name: str = Field(max_length=20)
    quantity: int = Field(ge=1, le=100)


EVENT = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 40},
        "year": {"type": "integer", "minimum": 2000, "maximum": 2099},
        "month": {"enum": ["January", "February", "March", "April", "May", "June", "July", "August", "September",
                           "October", "November", "December"]},
        "start": {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"},
    },
    "required": ["title", "year", "month", "start"],
    "additionalProperties": False,
}  # fmt: skip

TASKS: list[tuple[str, Any]] = [
    (
        "Marie Curie was a physicist and chemist who conducted pioneering research on radioactivity. "
        "She was born in Warsaw in 1867.",
        Person,
    ),
    (
        "Invoice INV-20417. 12 boxes of paper at 4.50 EUR each, 2 printers at 199.00 EUR each. Payment is outstanding.",
        Invoice,
    ),
    ("The soup was wonderful, but we waited an hour for it and nobody apologised. Three stars.", Review),
    ("The design review takes place on 14 May 2025 at 10:30 with Kim and Lee.", EVENT),
    ("Please buy three apples, six eggs and two bottles of milk.", Annotated[list[Item], Field(max_length=3)]),
]


def main() -> int:
    console = Console()
    with progress_bars() as show:
        started = time.perf_counter()
        llm = LLM(progress=lambda done, total: show("fetching the model", done, total))
    console.print(f"[dim]model ready after {time.perf_counter() - started:.1f} s[/dim]")
    tokens = seconds = masks = 0.0
    for number, (text, schema) in enumerate(TASKS, 1):
        console.rule(f"task {number} of {len(TASKS)}")
        generation = llm.stream_json(text, schema, max_tokens=200).result()
        show_task(console, text, schema, generation)
        metrics = generation.metrics
        tokens += metrics.output_tokens
        seconds += metrics.output_tokens / metrics.tokens_per_s
        masks += metrics.mask_s
    console.rule("all tasks")
    console.print(
        f"{tokens:.0f} tokens, {tokens / seconds:.1f} tokens/s; in masks {100 * masks / seconds:.1f} % of the time"
    )
    return 0


def show_task(console: Console, text: str, schema: Any, generation: Generation) -> None:
    from constrained.schema_input import read_schema

    written = json.dumps(read_schema(schema).description)
    metrics = generation.metrics
    for name, value in (
        ("text", text),
        ("schema", written),
        ("JSON", generation.text),
        ("value", repr(generation.parsed)),
    ):
        console.print(f"[bold]{name}[/bold]")
        console.print(
            textwrap.indent(textwrap.fill(value, console.width - 4), "  "), markup=False, highlight=name == "JSON"
        )
    each = 1000 * metrics.mask_s / max(metrics.output_tokens, 1)
    speed = f"{metrics.output_tokens} tokens, {metrics.tokens_per_s:.1f} tokens/s, first after {metrics.ttft_s:.2f} s"
    console.print(f"[dim]{speed}; {1000 * metrics.mask_s:.1f} ms in masks, {each:.2f} ms a token[/dim]")


if __name__ == "__main__":
    sys.exit(main())
