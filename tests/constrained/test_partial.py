from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from constrained import LLM, Regex, Sampling, compile
from constrained.async_llm import AsyncLLM
from constrained.partial import PartialJson, typed_as
from grammars import JsonSchema

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=4), inside, max_size=3),
    max_leaves=8,
)


def begins(part: Any, whole: Any) -> bool:
    """Whether `part` is what is known of `whole` at some moment."""
    if isinstance(part, str):
        return isinstance(whole, str) and whole.startswith(part)
    if isinstance(part, list):
        return isinstance(whole, list) and len(part) <= len(whole) and all(map(begins, part, whole))
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and begins(one, whole[key]) for key, one in part.items())
    return bool(part == whole)


def values(text: str, size: int) -> Iterator[Any]:
    reader = PartialJson()
    for at in range(0, len(text), size):
        yield reader.push(text[at : at + size])


@given(VALUES, st.integers(1, 5), st.booleans(), st.sampled_from([None, 1]))
def test_what_is_known_is_never_more_than_what_will_be(
    value: Any, size: int, ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    last: Any = None
    for last in values(text, size):
        assert last is None or begins(last, value)
    number_at_the_end = isinstance(value, int | float) and not isinstance(value, bool)
    assert last == value or number_at_the_end  # which might have gone on


def test_numbers_appear_when_they_are_whole_and_strings_as_they_grow() -> None:
    parts = list(values('{"a":12,"b":"xy"}', 1))
    assert parts[6] == {}  # behind `12`, which may become 123
    assert parts[7] == {"a": 12}
    assert [part.get("b") for part in parts[11:]] == [None, "", "x", "xy", "xy", "xy"]


class Line(BaseModel):
    name: str = Field(alias="what")
    count: int = 1


class Order(BaseModel):
    lines: list[Line]
    by: Annotated[Line | None, "who"] = None
    named: dict[str, Line] = {}


def test_models_lack_the_fields_that_have_not_come() -> None:
    order = typed_as(Order)({"lines": [{"what": "te"}], "by": {"count": 2}, "named": {"x": {}}})
    assert isinstance(order, Order)
    assert order.lines[0].name == "te"
    assert order.by is not None
    assert order.by.count == 2
    assert isinstance(order.named["x"], Line)
    with pytest.raises(AttributeError):
        order.lines[0].count  # noqa: B018 - a default would look as if it had been written


@dataclass(frozen=True)
class Place:
    name: str
    at: tuple[float, float] = (0.0, 0.0)
    lines: Sequence[Line] = ()


class Trip(TypedDict):
    to: Place
    back: NotRequired[Place]


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["cow", "dog"]
    name: str


def test_dataclasses_and_typed_dicts_are_dicts_of_what_has_come() -> None:
    trip = typed_as(Trip)({"to": {"name": "Os", "at": [1.5], "lines": [{"what": "L"}]}})
    place = trip["to"]
    assert (set(trip), set(place)) == ({"to"}, {"name", "at", "lines"})
    assert (place["name"], place["at"], place["lines"][0].name) == ("Os", (1.5,), "L")
    assert typed_as(tuple[Line, ...])([{}, {"what": "x"}])[1].name == "x"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({}, dict),
        ({"kind": "c"}, dict),
        ({"kind": "ca"}, Cat),
        ({"kind": "co"}, Dog),
        ({"kind": "dog", "name": "R"}, Dog),
    ],
)
def test_one_of_several_models_is_made_once_it_is_the_only_one(value: dict[str, Any], kind: type) -> None:
    assert type(typed_as(list[Cat | Dog])([value])[0]) is kind


class Small(BaseModel):
    name: str = Field(max_length=5)
    sizes: list[int] = Field(max_length=3)


def test_each_event_of_a_stream_has_the_value_so_far(random_llm: LLM) -> None:
    options: dict[str, Any] = {"partial": True, "max_tokens": 60, "sampling": Sampling(temperature=1.2, seed=4)}
    with random_llm.stream("go", Small, **options) as stream:
        parts = [event.partial for event in stream]
        whole = stream.result().parsed.model_dump()
    for part in parts:
        assert part is None or (isinstance(part, Small) and begins(part.model_dump(warnings=False), whole))
    assert parts[-1].model_dump() == whole
    plain = JsonSchema(Small.model_json_schema())
    for constraint in (plain, compile(plain, random_llm.vocabulary)):
        assert isinstance(list(random_llm.stream("go", constraint, **options))[-1].partial, dict)
    assert all(event.partial is None for event in random_llm.stream("go", Small, max_tokens=60))


async def _last(llm: LLM) -> Any:
    last = None
    async for event in AsyncLLM(llm).stream("go", Small, partial=True, max_tokens=60):
        last = event.partial
    return last


def test_asynchronous_streams_have_it_too(random_llm: LLM) -> None:
    import asyncio

    assert isinstance(asyncio.run(_last(random_llm)), Small)


@pytest.mark.parametrize("constraint", [None, Regex("a"), "compiled"])
def test_only_schemas_have_partial_values(random_llm: LLM, constraint: Any) -> None:
    given = compile(Regex("a"), random_llm.vocabulary) if constraint == "compiled" else constraint
    with pytest.raises(ValueError, match="needs a schema"):
        random_llm.stream("go", given, partial=True)
