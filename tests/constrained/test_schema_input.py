from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import ipaddress
import json
import math
import uuid
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from pydantic import (
    AnyUrl,
    Base64Bytes,
    BaseModel,
    ConfigDict,
    Field,
    HttpUrl,
    IPvAnyInterface,
    KafkaDsn,
    NaiveDatetime,
    PostgresDsn,
    SecretStr,
    StrictInt,
    TypeAdapter,
    condecimal,
    field_validator,
)
from pydantic.types import UUID4
from typing_extensions import TypedDict

from constrained import compile
from constrained.compile import check_grammar
from constrained.errors import ResultError, SchemaError
from constrained.schema_input import read_schema
from constrained.validation import JsonCheck
from grammars import JsonSchema
from grammars.json_schema import FormatWarning
from tests.constrained.languages import byte_vocabulary, mask


class Person(BaseModel):
    name: str
    age: int


class Node(BaseModel):
    label: str
    children: list[Node] = []


@dataclass
class Point:
    x: float
    y: float


class Movie(TypedDict):
    title: str
    year: int


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]


class Owner(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        (Person, '{"name": "Ada", "age": 36}', Person(name="Ada", age=36)),
        (Node, '{"label": "a", "children": [{"label": "b"}]}', Node(label="a", children=[Node(label="b")])),
        (Point, '{"x": 1, "y": 2.5}', Point(1.0, 2.5)),
        (Movie, '{"title": "M", "year": 1931}', {"title": "M", "year": 1931}),
        (Colour, '"red"', Colour.RED),
        (list[int], "[1, 2]", [1, 2]),
        (tuple[int, str], '[1, "a"]', (1, "a")),
        (Literal["a", 3], "3", 3),
        (dict[str, bool], '{"a": true}', {"a": True}),
        (int | None, "null", None),
        (Owner, '{"pet": {"kind": "cat", "lives": 9}}', Owner(pet=Cat(kind="cat", lives=9))),
        (TypeAdapter(list[Person]), '[{"name": "A", "age": 1}]', [Person(name="A", age=1)]),
        (datetime.date, '"2024-02-29"', datetime.date(2024, 2, 29)),
        (uuid.UUID, '"7c9e6679-7425-40de-944b-e07fc1f90ae7"', uuid.UUID("7c9e6679-7425-40de-944b-e07fc1f90ae7")),
        (decimal.Decimal, "1.10", decimal.Decimal("1.1")),
    ],
)
def test_types_give_instances(source: Any, text: str, expected: Any) -> None:
    read = read_schema(source)
    parsed = read.parse(text)
    assert parsed == expected
    assert type(parsed) is type(expected)
    JsonCheck(read.grammar).parse(text)


@pytest.mark.parametrize(
    "source",
    [{"type": "integer"}, '{"type": "integer"}', JsonSchema({"type": "integer"}, whitespace="compact")],
    ids=["dict", "JSON string", "JsonSchema"],
)
def test_json_schemas_give_plain_values(source: Any) -> None:
    read = read_schema(source)
    assert json.loads(read.grammar.text) == {"type": "integer"}
    assert read.parse("12") == 12
    with pytest.raises(ResultError, match="not of type 'integer'"):
        read.parse('"12"')


def test_a_boolean_is_a_schema() -> None:
    assert read_schema(True).parse('{"a": 1}') == {"a": 1}
    with pytest.raises(ResultError):
        read_schema(False).parse("1")


def test_the_options_of_a_json_schema_are_kept() -> None:
    grammar = JsonSchema({"type": "object"}, whitespace="compact", property_order="any")
    assert read_schema(grammar).grammar is grammar


@pytest.mark.parametrize("source", [None, 3, 2.5, [1], ("a",), b"{}"])
def test_what_is_no_schema_is_named_with_what_would_be(source: Any) -> None:
    with pytest.raises(TypeError, match="pass a Pydantic model, a type such as"):
        read_schema(source)


def test_text_that_is_not_json_is_placed() -> None:
    with pytest.raises(SchemaError, match=r"not JSON.*line 1, column 9"):
        read_schema('{"type":}')


class Opaque:
    pass


@pytest.mark.parametrize("source", [Opaque, Callable[[int], int]])
def test_a_type_without_a_schema_is_refused_by_name(source: Any) -> None:
    with pytest.raises(SchemaError, match=r"cannot be a schema|has no JSON Schema"):
        read_schema(source)


def test_a_validator_of_the_type_has_the_last_word() -> None:
    class Even(BaseModel):
        number: int

        @field_validator("number")
        @classmethod
        def _even(cls, value: int) -> int:
            if value % 2:
                raise ValueError("odd")
            return value

    with pytest.raises(ResultError, match=r"number.*odd") as caught:
        read_schema(Even).parse('{"number": 3}')
    assert caught.value.text == '{"number": 3}'


def test_models_take_no_undeclared_properties_unless_they_ask_for_them() -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        a: int

    assert read_schema(Person).grammar.document["additionalProperties"] is False
    assert read_schema(Point).grammar.document["additionalProperties"] is False
    assert read_schema(Movie).grammar.document["additionalProperties"] is False
    assert read_schema(Open).grammar.document["additionalProperties"] is True
    assert read_schema(dict[str, bool]).grammar.document["additionalProperties"] == {"type": "boolean"}


def test_tagged_unions_are_written_without_one_of() -> None:
    text = read_schema(Owner).grammar.text
    assert "oneOf" not in text
    assert "anyOf" in text


@pytest.mark.parametrize(
    ("source", "accepted", "refused"),
    [
        (datetime.date, ["2024-02-29", "0001-01-01"], ["0000-01-01", "2023-02-29"]),
        (datetime.datetime, ["2024-02-29T23:59:59Z"], ["2016-12-31T23:59:60Z", "0000-01-01T00:00:00Z"]),
        (datetime.time, ["23:59:59Z"], ["23:59:60Z"]),
        (datetime.timedelta, ["P1Y2M3DT4H", "PT0S", "P9999D"], ["P99999999999D"]),
        (
            NaiveDatetime,
            ["2024-02-28T23:59:59", "1999-12-31T00:00:00.5"],
            ["2024-02-30T00:00:00", "2024-02-28T23:59:59Z"],
        ),
        (UUID4, ["7c9e6679-7425-40de-944b-e07fc1f90ae7"], ["7c9e6679-7425-10de-944b-e07fc1f90ae7", "7"]),
        (HttpUrl, ["https://a-b.example.org:80/x?y=1#z", "http://localhost"], ["ftp://a.b", "https://1.2.3.999"]),
        (AnyUrl, ["https://a.b/"], ["https://"]),
    ],
)
def test_what_the_written_schema_allows_the_type_takes(source: Any, accepted: list[str], refused: list[str]) -> None:
    read = read_schema(source)
    check = JsonCheck(read.grammar)
    for text in map(json.dumps, accepted):
        check.parse(text)
        read.parse(text)
    for text in map(json.dumps, refused):
        with pytest.raises(ResultError):
            check.parse(text)


@pytest.mark.parametrize(
    ("source", "accepted", "refused"),
    [
        (int, ["1E2", "-9223372036854774784", "9.223372036854774784e18"], ["1e400", "9223372036854775808"]),
        (float, ["1.7976931348623157e308", "-1e-999"], ["1e309", "-1e400"]),
        (decimal.Decimal, ["1e308"], ["1e400"]),
        (Annotated[int, Field(ge=3, lt=7)], ["3", "6.0"], ["2", "7"]),
        (Annotated[int, Field(ge=3, le=10**30)], ["3", "9.223372036854774784e18"], ["1e20"]),
        (Annotated[float, Field(gt=-math.inf, lt=3)], ["2.5", "-1e308"], ["3", "-1e309"]),
    ],
)
def test_numbers_stay_finite(source: Any, accepted: list[str], refused: list[str]) -> None:
    read = read_schema(source)
    check = JsonCheck(read.grammar)
    for text in accepted:
        check.parse(text)
        assert math.isfinite(read.parse(text))
    for text in refused:
        with pytest.raises(ResultError):
            check.parse(text)


def test_what_prompts_show_is_the_schema_as_pydantic_writes_it() -> None:
    description = read_schema(Owner).description
    assert description == Owner.model_json_schema()
    assert read_schema({"type": "integer"}).description == {"type": "integer"}


@pytest.mark.parametrize(
    ("source", "accepted", "refused"),
    [
        (condecimal(max_digits=5, decimal_places=2), ["999.99", "-0.01", "1e2"], ["1000", "0.001"]),
        (condecimal(max_digits=4), ["99.99", "-5"], ["100", "0.001"]),
        (condecimal(ge=decimal.Decimal("0.5"), lt=2), ["0.5", "1.99"], ["0.4", "2"]),
        (condecimal(decimal_places=2, multiple_of=decimal.Decimal("0.25")), ["0.75"], ["0.01", "0.125"]),
        (condecimal(decimal_places=0), ["3"], ["3.5"]),
    ],
)
def test_decimals_keep_to_their_digits(source: Any, accepted: list[str], refused: list[str]) -> None:
    read = read_schema(source)
    check = JsonCheck(read.grammar)
    for text in accepted:
        check.parse(text)
        assert isinstance(read.parse(text), decimal.Decimal)
    for text in refused:
        with pytest.raises(ResultError):
            check.parse(text)


@pytest.mark.parametrize(
    "source",
    [
        bytes, Path, SecretStr, Base64Bytes, UUID4, ipaddress.IPv4Network, ipaddress.IPv6Interface, IPvAnyInterface,
        PostgresDsn, KafkaDsn, complex, fractions.Fraction,
    ],
)  # fmt: skip
def test_formats_of_pydantics_own_warn_of_nothing_and_hold(source: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = read_schema(source)
        check_grammar(read.grammar)
        constraint = compile(read.grammar, byte_vocabulary())
    random = np.random.default_rng(7)
    for _ in range(5):
        matcher = constraint.matcher(max_tokens=90)
        while not matcher.is_finished():
            matcher.accept(int(random.choice(sorted(mask(matcher)))))
        read.parse(matcher.text.decode())


def test_a_format_of_the_users_own_still_warns() -> None:
    read = read_schema(Annotated[str, Field(json_schema_extra={"format": "phone"})])
    with pytest.warns(FormatWarning, match="phone"):
        check_grammar(read.grammar)


def test_a_property_or_a_value_that_looks_like_a_format_is_left_alone() -> None:
    class Odd(BaseModel):
        format: str = "path"
        example: dict[str, str] = Field({"type": "string", "format": "path"}, examples=[{"format": "path"}])

    document = read_schema(Odd).grammar.document
    assert document["properties"]["format"]["default"] == "path"
    assert document["properties"]["example"]["default"] == {"type": "string", "format": "path"}
    assert document["properties"]["example"]["examples"] == [{"format": "path"}]


@pytest.mark.parametrize("bounds", [{"ge": 10**30}, {"lt": -(10**30)}])
def test_bounds_beyond_what_a_type_reads_are_refused(bounds: dict[str, int]) -> None:
    with pytest.raises(SchemaError, match="use other bounds, or a JSON Schema in place of the type"):
        read_schema(Annotated[int, Field(**bounds)])


def test_a_type_that_needs_a_package_says_which() -> None:
    class Mail(str):
        @classmethod
        def __get_pydantic_core_schema__(cls, *_: Any) -> Any:
            raise ImportError("email-validator is not installed")

    with pytest.raises(SchemaError, match="Mail cannot be a schema: email-validator is not installed"):
        read_schema(Mail)


def test_a_strict_integer_may_be_written_with_a_fraction_or_an_exponent() -> None:
    class Count(BaseModel):
        number: StrictInt
        share: decimal.Decimal
        note: str

    parsed = read_schema(Count).parse('{"number": 96155.0, "share": 0.5, "note": "2.0 \\" 3e1"}')
    assert parsed == Count(number=96155, share=decimal.Decimal("0.5"), note='2.0 " 3e1')
    assert read_schema(Count).parse('{"number": -12e1, "share": 1, "note": ""}').number == -120
    with pytest.raises(ResultError, match="number"):
        read_schema(Count).parse('{"number": 1.5, "share": 1, "note": ""}')
