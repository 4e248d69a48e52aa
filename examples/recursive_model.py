"""A model that contains itself: the depth is bounded by the budget, and the object is whole all the same."""

from __future__ import annotations

from pydantic import BaseModel, Field

from constrained import LLM, Sampling


class Folder(BaseModel):
    name: str = Field(pattern="^[a-z]{1,12}$")
    children: list[Folder] = Field(max_length=3)


llm = LLM()
text = "The folder src holds the folders core and web; web holds css."
for max_tokens in (20, 60, 120):
    folder = llm.generate_json(text, Folder, max_tokens=max_tokens, sampling=Sampling(temperature=1.0, seed=3))
    print(max_tokens, folder.model_dump_json())
