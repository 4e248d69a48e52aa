from __future__ import annotations

import functools
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, RootModel
from typing_extensions import TypedDict

from constrained.errors import ResultError, SchemaError
from constrained.tools import checked_call, read_tools


class Guest(BaseModel):
    name: str


def book(city: str, nights: int = 2, *, guest: Guest, board: Literal["none", "half"] = "none") -> str:
    """Books a room
    in a hotel.

    Args:
        city: where the hotel
            stands
        nights (int): how long
        guest: who stays

    Returns:
        A code.
    """
    return f"{guest.name}@{city}:{nights}:{board}"


def sphinx(first: int, second: int) -> int:
    """Adds.

    :param first: one number
    :param int second: another
    :returns: the sum
    """
    return first + second


def numpy_style(first: int) -> int:
    """Squares.

    Parameters
    ----------
    first : int
        the number
        to square
    """
    return first * first


WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather.",
        "parameters": {
            "type": "object",
            "properties": {"at": {"$ref": "#/$defs/place"}},
            "required": ["at"],
            "$defs": {"place": {"type": "string", "minLength": 2}},
        },
    },
}


def test_a_function_is_read_from_its_signature_and_docstring() -> None:
    [tool] = read_tools([book])
    assert (tool.name, tool.description) == ("book", "Books a room in a hotel.")
    properties = tool.parameters["properties"]
    assert list(properties) == ["city", "nights", "guest", "board"]
    assert properties["city"]["description"] == "where the hotel stands"
    assert properties["nights"]["description"] == "how long"
    assert properties["board"]["enum"] == ["none", "half"]
    assert tool.parameters["required"] == ["city", "guest"]
    assert tool.parameters["additionalProperties"] is False


@pytest.mark.parametrize(
    ("function", "meanings"),
    [(sphinx, {"first": "one number", "second": "another"}), (numpy_style, {"first": "the number to square"})],
)
def test_other_docstring_styles_are_read_too(function: Any, meanings: dict[str, str]) -> None:
    [tool] = read_tools([function])
    assert {name: part["description"] for name, part in tool.parameters["properties"].items()} == meanings
    assert tool.description in ("Adds.", "Squares.")


def test_arguments_come_back_as_the_annotated_types_and_the_call_runs() -> None:
    tools = read_tools([book, WEATHER])
    call = checked_call(tools, "book", '{"city": "Basel", "guest": {"name": "Ada"}}')
    assert call.arguments == {"city": "Basel", "guest": Guest(name="Ada")}
    assert call.run() == "Ada@Basel:2:none"


def test_the_arguments_stay_readable_as_they_were_written() -> None:
    call = checked_call(read_tools([WEATHER]), "weather", '{"at": "B\\u00e2le", "n": 1.50}')
    assert call.arguments_json == '{"at": "B\\u00e2le", "n": 1.50}'
    assert call.arguments == {"at": "Bâle", "n": 1.5}


def test_a_tool_given_as_a_schema_cannot_be_run() -> None:
    call = checked_call(read_tools([WEATHER]), "weather", '{"at": "Bern"}')
    with pytest.raises(TypeError, match="only tools given as functions"):
        call.run()


@pytest.mark.parametrize("key", ["parameters", "input_schema", "inputSchema"])
def test_the_usual_dict_forms_are_read(key: str) -> None:
    [tool] = read_tools([{"name": "t", key: {"properties": {"a": {"type": "integer"}}}}])
    assert tool.parameters == {"properties": {"a": {"type": "integer"}}, "type": "object"}
    assert tool.parse('{"a": 1}') == {"a": 1}
    with pytest.raises(ResultError):
        tool.parse("3")


def test_a_tool_without_parameters_takes_no_arguments() -> None:
    [tool] = read_tools([{"name": "now"}])
    assert tool.parse("{}") == {}
    with pytest.raises(ResultError):
        tool.parse('{"a": 1}')


def test_arguments_that_do_not_fit_are_not_handed_over() -> None:
    tools = read_tools([WEATHER, book])
    for name, arguments in (("weather", '{"at": "B"}'), ("book", '{"at": "Bern"}'), ("other", "{}")):
        with pytest.raises(ResultError):
            checked_call(tools, name, arguments)


def test_strict_false_leaves_the_arguments_any_object_and_the_prompt_its_schema() -> None:
    [tool] = read_tools([{**WEATHER["function"], "strict": False}])
    assert tool.parse('{"anything": 1}') == {"anything": 1}
    assert tool.parameters == WEATHER["function"]["parameters"]
    with pytest.raises(ResultError):
        tool.parse("[]")


def test_a_call_stands_in_a_message_with_its_own_id() -> None:
    first, second = (checked_call(read_tools([WEATHER]), "weather", '{"at": "Bern"}') for _ in range(2))
    assert first == second
    assert first.id != second.id
    assert first.as_message() == {
        "id": first.id,
        "type": "function",
        "function": {"name": "weather", "arguments": '{"at": "Bern"}'},
    }


class Booking(BaseModel):
    """Books a room."""

    city: str = Field(alias="where")
    nights: int = 1


@dataclass
class Point:
    x: int
    y: int = 0


class Query(TypedDict):
    """Searches."""

    words: list[str]


class Folder(BaseModel):
    name: str
    inside: list[Folder] = []


@pytest.mark.parametrize(
    ("source", "description", "text", "arguments", "instance"),
    [
        (Booking, "Books a room.", '{"where": "Bern"}', {"city": "Bern"}, Booking(where="Bern")),
        (Point, "", '{"x": 3}', {"x": 3, "y": 0}, Point(3)),
        (Query, "Searches.", '{"words": ["a"]}', {"words": ["a"]}, {"words": ["a"]}),
        (Folder, "", '{"name": "a", "inside": [{"name": "b"}]}', {"name": "a", "inside": [Folder(name="b")]},
         Folder(name="a", inside=[Folder(name="b")])),
    ],
)  # fmt: skip
def test_a_class_with_fields_is_a_tool_whose_call_makes_an_instance(
    source: type, description: str, text: str, arguments: dict[str, Any], instance: Any
) -> None:
    tools = read_tools([source, WEATHER])
    assert (tools[0].name, tools[0].description) == (source.__name__, description)
    call = checked_call(tools, source.__name__, text)
    assert call.arguments == arguments
    assert call.run() == instance


class Plain:
    def __init__(self, x: int) -> None:
        self.x = x


@pytest.mark.parametrize("source", [Plain, int, Enum])
def test_a_class_without_fields_is_refused(source: type) -> None:
    with pytest.raises(SchemaError, match="a class is a tool where it is a Pydantic model, a dataclass or a TypedDict"):
        read_tools([source])


def test_a_model_of_something_else_than_an_object_is_refused() -> None:
    class Numbers(RootModel[list[int]]):
        pass

    with pytest.raises(SchemaError, match="arguments are an object, but the class is read from 'array'"):
        read_tools([Numbers])


def test_a_function_with_some_arguments_filled_in_keeps_its_name_and_purpose() -> None:
    [tool] = read_tools([functools.partial(sphinx, second=2)])
    assert (tool.name, tool.description) == ("sphinx", "Adds.")


def test_a_tool_that_was_read_is_a_tool() -> None:
    [tool] = read_tools([book])
    assert read_tools([tool]) == [tool]


def test_numbers_of_any_size_pass_through_a_call() -> None:
    [tool] = read_tools([{"name": "t", "parameters": {"properties": {"a": {"type": "integer"}}}}])
    call = checked_call([tool], "t", '{"a": %s}' % ("7" * 5000))
    assert call.arguments == {"a": 7 * (10**5000 - 1) // 9}


def _variadic(*words: str) -> None: ...


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ([], "empty"),
        ([{"description": "no name"}], "needs a name"),
        ([WEATHER, WEATHER], "two tools are named 'weather'"),
        ([{"name": "a b"}], "letters, digits"),
        ([{"name": "a", "parameters": {"type": "string"}}], "arguments are an object"),
        ([{"name": "a", "parameters": 3}], "JSON Schema object"),
        ([_variadic], "named parameters only"),
    ],
)
def test_a_tool_that_cannot_be_read_is_named(tools: list[Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        read_tools(tools)


def test_what_is_neither_function_nor_dict_is_refused() -> None:
    with pytest.raises(TypeError, match="a function or a dict"):
        read_tools([3])
    for tools in (WEATHER, "book", 3):
        with pytest.raises(TypeError, match="pass a list of functions, classes or dicts"):
            read_tools(tools)  # type: ignore[arg-type]
