"""A Pydantic model in, an instance out."""

from __future__ import annotations

from pydantic import BaseModel, Field

from constrained import generate_json


class Person(BaseModel):
    name: str = Field(max_length=60)
    age: int = Field(ge=0, le=130)
    occupation: str | None = Field(None, max_length=40)


person = generate_json("Ada Lovelace, a mathematician, was 36 years old.", schema=Person, max_tokens=100)
print(repr(person))
