"""What the files next to a tokenizer say: end tokens and the length of the logits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

END_TOKEN_NAMES = (
    "</s>",
    "<eos>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|eot|>",
    "<|eom|>",
    "<|im_end|>",
    "<end_of_turn>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|end_of_turn|>",
    "<|endofturn|>",
    "<|end_of_sentence|>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "<|END_OF_TURN_TOKEN|>",
    "<|END_RESPONSE|>",
    "<|END_OF_TEXT_TOKEN|>",
    "<EOS_TOKEN>",
    "<EOT>",
    "<|EOT|>",
    "[EOS]",
)
"""Names under which well-known models end a text or a turn."""

_HARMONY_TURN = "<|return|>"


@dataclass(frozen=True)
class ModelFacts:
    """Facts from configuration files; None where none of them says.

    Attributes:
        eos_token_ids: end tokens.
        eos_token: name of the end token, where only the name is given.
        logits_size: `vocab_size`.
    """

    eos_token_ids: tuple[int, ...] | None = None
    eos_token: str | None = None
    logits_size: int | None = None

    def end_tokens(self, special_tokens: Mapping[str, int], text_tokens: Mapping[str, int]) -> tuple[int, ...]:
        """The end tokens as configured by id, else the one configured by name and those with well-known names.

        A name alone is not trusted to be all: chat models often end a text and a turn differently.
        """
        if self.eos_token_ids is not None:
            return self.eos_token_ids
        named = None
        if self.eos_token is not None:
            named = special_tokens.get(self.eos_token, text_tokens.get(self.eos_token))
        return (() if named is None else (named,)) + well_known_end_tokens(special_tokens)


def well_known_end_tokens(special_tokens: Mapping[str, int]) -> tuple[int, ...]:
    """Ids of the special tokens whose name is one of `END_TOKEN_NAMES`, ascending.

    Only special tokens count: Gemma has an ordinary token `</s>` for HTML.  In the harmony format `<|end|>` ends one
    message of several, `<|return|>` the turn.
    """
    names = set(END_TOKEN_NAMES)
    if _HARMONY_TURN in special_tokens:
        names.discard("<|end|>")
    return tuple(sorted({token for name, token in special_tokens.items() if name in names}))


def read_model_facts(folder: Path) -> ModelFacts:
    """Read generation_config.json, config.json and tokenizer_config.json of a folder, the first that says winning.

    A file that is missing or does not parse says nothing.
    """
    generation, config, tokenizer = (
        _read_object(folder / name) for name in ("generation_config.json", "config.json", "tokenizer_config.json")
    )
    nested = config.get("text_config")  # models that also see or hear keep the language model's part here
    text_config: dict[str, Any] = nested if isinstance(nested, dict) else {}
    ids = next((found for part in (generation, config, text_config) if (found := _ids(part.get("eos_token_id")))), None)
    name = tokenizer.get("eos_token")
    if isinstance(name, dict):
        name = name.get("content")
    sizes: Iterable[Any] = (config.get("vocab_size"), text_config.get("vocab_size"))
    size = next((size for size in sizes if type(size) is int and size > 0), None)
    return ModelFacts(ids, name if isinstance(name, str) else None, size)


def _ids(value: Any) -> tuple[int, ...] | None:
    values = value if isinstance(value, list) else [value]
    if values and all(type(item) is int and item >= 0 for item in values):
        return tuple(dict.fromkeys(values))
    return None


def _read_object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
