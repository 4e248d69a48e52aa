"""Text as it comes: every prefix is the beginning of a valid document."""

from __future__ import annotations

from constrained import LLM, JsonSchema

schema = JsonSchema(
    {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 30}, "country": {"type": "string", "maxLength": 30}},
        "required": ["city", "country"],
        "additionalProperties": False,
    }
)

llm = LLM()
with llm.stream_json("The Eiffel Tower stands in Paris, the capital of France.", schema, max_tokens=60) as stream:
    for event in stream:
        print(event.text, end="", flush=True)
    generation = stream.result()
print()
print(generation.parsed, generation.finish_reason, f"{generation.metrics.tokens_per_s:.0f} tokens/s")
