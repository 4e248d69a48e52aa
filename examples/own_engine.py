"""The constraint inside somebody else's decode loop: masks in, tokens out.  No model is needed to see how."""

from __future__ import annotations

import numpy as np

from constrained import JsonSchema, Vocabulary, compile

# A vocabulary comes from any tokenizer (`from_tokenizer_json`, `from_gguf`, ...); here: 256 bytes and an end token.
end = 256
vocabulary = Vocabulary.from_token_bytes([*(bytes([byte]) for byte in range(256)), None], eos_token_ids=[end])
schema = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "maxItems": 5}
constraint = compile(JsonSchema(schema), vocabulary)

matcher = constraint.matcher(max_tokens=40)
row = np.zeros((vocabulary.size + 31) // 32, dtype=np.uint32)
random = np.random.default_rng(0)
tokens: list[int] = []
while not matcher.is_finished():
    logits = random.normal(size=vocabulary.size)  # your model's
    matcher.fill_mask(row)
    allowed = np.unpackbits(row.view(np.uint8), bitorder="little")[: vocabulary.size].astype(bool)
    token = int(np.where(allowed, logits, -np.inf).argmax())
    matcher.accept(token)
    tokens.append(token)
print(bytes(token for token in tokens if token != end).decode())
