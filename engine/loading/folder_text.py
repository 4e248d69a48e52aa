"""Tokenizer and chat template of a model directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.config import ModelConfig
from engine.errors import ModelFileError
from engine.loading.safetensors import read_json
from engine.text import Text, read_tokenizer

SPECIAL_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")


def read_folder_text(folder: Path, config: ModelConfig) -> Text:
    """`tokenizer.json`, `tokenizer_config.json` and `chat_template.jinja` as a `Text`.

    Raises:
        TextError, ModelFileError: a file that is missing or malformed.
    """
    settings = folder / "tokenizer_config.json"
    options = read_json(settings) if settings.exists() else {}
    special_tokens = {name: _content(options[name]) for name in SPECIAL_TOKENS if options.get(name) is not None}
    return Text(
        read_tokenizer(folder / "tokenizer.json"), config.eos_token_ids, _templates(folder, options), special_tokens
    )


def _templates(folder: Path, options: Mapping[str, Any]) -> dict[str, str]:
    """Templates by name: from their own file, or from the tokenizer's settings (one, or a list of named ones)."""
    own = folder / "chat_template.jinja"
    if own.exists():
        templates = {"default": own.read_text("utf-8")}
        for extra in sorted((folder / "additional_chat_templates").glob("*.jinja")):
            templates[extra.stem] = extra.read_text("utf-8")
        return templates
    given = options.get("chat_template")
    if given is None:
        return {}
    if isinstance(given, str):
        return {"default": given}
    try:
        return {entry["name"]: entry["template"] for entry in given}
    except (TypeError, KeyError):
        raise ModelFileError(f"malformed chat_template in {folder / 'tokenizer_config.json'}: fetch it again") from None


def _content(token: Any) -> str:
    """A special token, written as text or as a record with its text."""
    return str(token["content"]) if isinstance(token, Mapping) else str(token)
