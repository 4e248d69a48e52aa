"""Tools from Python functions: the call's arguments always fit the signature."""

from __future__ import annotations

from typing import Literal

from constrained import LLM


def weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> str:
    """Tells the current weather in a city.

    Args:
        city: name of the city
        unit: unit of the temperature
    """
    return f"20 degrees {unit} in {city}"


def add(first: int, second: int) -> int:
    """Adds two whole numbers.

    Args:
        first: one number
        second: the other number
    """
    return first + second


llm = LLM()
question = "What is the weather like in Oslo?"
for choice in ("required", {"name": "weather"}):
    call = llm.call_tool(question, [weather, add], tool_choice=choice, max_tokens=80)
    print(call.name, call.arguments, "->", call.run())
