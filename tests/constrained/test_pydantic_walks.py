"""Random walks through the schemas that Pydantic writes: whatever comes out, the type takes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from ipaddress import IPv4Address, IPv6Network
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypeVar
from uuid import UUID

import numpy as np
import pytest
from annotated_types import Ge, Len, MultipleOf
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    StringConstraints,
    computed_field,
    conint,
    conlist,
    constr,
)
from pydantic.alias_generators import to_camel
from typing_extensions import TypedDict

from constrained import Vocabulary, compile
from constrained.schema_input import read_schema

VOCABULARY = Vocabulary.from_token_bytes(
    [*[bytes([byte]) for byte in range(256)], b'":', b'","', b'{"', b'"}', b"12", b"ab", None], eos_token_ids=[262]
)
Item = TypeVar("Item")


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: Annotated[Decimal, Field(gt=0, max_digits=4, decimal_places=2)]


class Square(BaseModel):
    kind: Literal["square", "box"] = "square"
    side: conint(ge=1, le=9)  # type: ignore[valid-type]


class Drawing(BaseModel):
    shape: Annotated[Circle | Square, Field(discriminator="kind")]
    colors: conlist(Color, min_length=1, max_length=2)  # type: ignore[valid-type]
    level: Level | None = None


class Tree(BaseModel):
    name: constr(pattern=r"^[a-z]{1,3}$")  # type: ignore[valid-type]
    left: Tree | None = None
    right: Tree | None = None


class Page(BaseModel, Generic[Item]):
    items: Annotated[list[Item], Len(1, 2)]
    total: Annotated[int, Ge(0), MultipleOf(5)]


class Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")
    first_name: Annotated[str, StringConstraints(min_length=1, max_length=3, to_upper=True)]
    born_on: date = Field(alias="birthDay")
    other: int = Field(default=1, validation_alias=AliasChoices("other", "another"))


class Weights(RootModel[dict[Annotated[str, StringConstraints(pattern=r"^[ab]$")], float]]):
    pass


class Computed(BaseModel):
    width: Annotated[int, Field(ge=0, le=9, json_schema_extra={"examples": [1], "x-unit": "m"})]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def area(self) -> int:
        return self.width**2


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, bool]
    name: str = Field(max_length=2)


class Pair(NamedTuple):
    left: int
    right: bool = True


class Movie(TypedDict):
    title: Annotated[str, Field(max_length=2)]
    year: NotRequired[Annotated[int, Field(ge=1900, lt=2100)]]


@dataclass
class Point:
    x: float
    tags: frozenset[Literal["a", "b", "c"]] = frozenset()


SOURCES: list[Any] = [
    Drawing, Tree, Page[Circle], Page[Literal["x"]], Camel, Weights, Computed, Open, Pair, Movie, Point, Color, Level,
    list[Tree] | None, tuple[int, str, *tuple[bool, ...]], set[Annotated[int, Field(ge=0, le=3)]],
    datetime, time, IPv4Address, IPv6Network, Decimal,
    Annotated[Decimal, Field(ge=Decimal("0.5"), lt=3, decimal_places=1)], Annotated[bytes, Field(max_length=3)],
    Annotated[float, Field(gt=-1, multiple_of=0.25)], int | Annotated[str, Field(max_length=1)],
]  # fmt: skip
MAPPINGS: list[Any] = [
    dict[UUID, timedelta], dict[int, bool], dict[Level, int], dict[Annotated[int, Field(ge=1, le=4)], bool],
    dict[bool | Color, int], dict[Annotated[str, Field(max_length=2)], None], dict[float, Literal[1]], dict[date, bool],
    dict[Annotated[int, Field(ge=0)], str], dict[str, int],
]  # fmt: skip


def walks(source: Any) -> Iterator[str]:
    constraint = compile(read_schema(source).grammar, VOCABULARY)
    row = np.zeros(VOCABULARY.row_words, dtype=np.uint32)
    rng = random.Random(str(source))
    for _ in range(3):
        matcher = constraint.matcher(max_tokens=150)
        while not matcher.is_finished():
            matcher.fill_mask(row)
            allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
            matcher.accept(int(rng.choice(allowed)))
        yield matcher.text.decode()


@pytest.mark.parametrize("source", [*SOURCES, *MAPPINGS], ids=str)
def test_whatever_comes_out_of_a_walk_the_type_takes(source: Any) -> None:
    parse = read_schema(source).parse
    for text in walks(source):
        parse(text)
