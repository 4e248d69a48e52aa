"""Free text held to a regular expression, and one of a few texts."""

from __future__ import annotations

from constrained import LLM, Choice, Regex, Sampling

llm = LLM()
print(llm.generate("What is the emergency telephone number in Europe?", Regex(r"\d{3}"), max_tokens=8).text)
print(llm.generate("The food was cold and the waiter rude. Was the guest happy?", Choice(["yes", "no"])).text)
for seed in range(3):
    sampling = Sampling(temperature=1.2, seed=seed)
    print(llm.generate("Invent a licence plate.", Regex("[A-Z]{2} [0-9]{3}-[A-Z]{2}"), sampling=sampling).text)
