"""What `make demo` shows: data out of real texts, each under its own schema, with a small model on this machine."""

from __future__ import annotations

import json
import os
import sys
import textwrap
import time
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from rich.console import Console

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before torch comes in: on a busy machine, threads should not spin

from constrained import LLM, Generation
from constrained.progress import progress_bars


class Person(BaseModel):
    name: str = Field(max_length=60)
    occupation: str = Field(max_length=40)
    birthplace: str = Field(max_length=40)


class Contact(BaseModel):
    name: str = Field(max_length=40)
    email: str = Field(max_length=40, json_schema_extra={"format": "email"})
    phone: str = Field(pattern=r"^\+[0-9]{1,3}( [0-9]{2,4}){2,4}$")


class Invoice(BaseModel):
    number: str = Field(pattern="^INV-[0-9]{5}$")
    total: Decimal = Field(ge=0, max_digits=8, decimal_places=2)
    currency: Literal["EUR", "USD", "CHF"]


class Item(BaseModel):
    name: str = Field(max_length=20)
    quantity: int = Field(ge=1, le=100)


@dataclass
class Recipe:
    title: Annotated[str, Field(max_length=30)]
    servings: Annotated[int, Field(ge=1, le=20)]
    ingredients: Annotated[list[Annotated[str, Field(max_length=20)]], Field(min_length=1, max_length=6)]


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
    ("Ada Lovelace was an English mathematician, born in London.", Person),
    ("Please contact Jane Miller at jane.miller@example.com or call +44 20 7946 0958.", Contact),
    ("Invoice INV-20417, total 452.00 EUR, due in 30 days.", Invoice),
    ("The design review takes place on 14 May 2025 at 10:30 with Kim and Lee.", EVENT),
    ("Please buy three apples, six eggs and two bottles of milk.", Annotated[list[Item], Field(max_length=3)]),
    ("Pancakes for four: flour, milk, eggs and butter.", Recipe),
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
        shown = value if name == "JSON" else textwrap.fill(value, console.width - 4)
        console.print(textwrap.indent(shown, "  "), markup=False, highlight=name == "JSON")
    each = 1000 * metrics.mask_s / max(metrics.output_tokens, 1)
    speed = f"{metrics.output_tokens} tokens, {metrics.tokens_per_s:.1f} tokens/s, first after {metrics.ttft_s:.2f} s"
    console.print(f"[dim]{speed}; {1000 * metrics.mask_s:.1f} ms in masks, {each:.2f} ms a token[/dim]")


if __name__ == "__main__":
    sys.exit(main())
