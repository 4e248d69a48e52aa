"""Text in and out of a model: its tokenizer, its end tokens, its chat template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from engine.chat_template import ChatTemplate, Message
from engine.detokenizer import Detokenizer, Spelling, StreamDetokenizer, spelling_of
from engine.errors import TextError


class Text:
    """A tokenizer with the things around it.

    Attributes:
        tokenizer: the `tokenizers` object.
        eos_token_ids: tokens that end a generation.
        chat_templates: name → template; `"default"`, and `"tool_use"` where a model has its own for tools.
        special_tokens: `bos_token`, `eos_token`, `unk_token`, `pad_token` as text, where the model has them.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        eos_token_ids: Sequence[int] = (),
        chat_templates: Mapping[str, str] | None = None,
        special_tokens: Mapping[str, str] | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.eos_token_ids = tuple(eos_token_ids)
        self.special_tokens = dict(special_tokens or {})
        self.chat_templates = {
            name: ChatTemplate(source, self.special_tokens) for name, source in (chat_templates or {}).items()
        }
        self._bytes_of = lru_cache(maxsize=65_536)(self._read_bytes)

    @property
    def vocab_size(self) -> int:
        """Number of tokens, the added ones included; logits may be longer."""
        size: int = self.tokenizer.get_vocab_size(with_added_tokens=True)
        return size

    @cached_property
    def special_token_ids(self) -> frozenset[int]:
        """Control tokens, which `decode` leaves out."""
        added = self.tokenizer.get_added_tokens_decoder()
        return frozenset(token_id for token_id, token in added.items() if token.special)

    @cached_property
    def _spelling(self) -> Spelling | None:
        return spelling_of(self.tokenizer)

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Token ids of `text`; special tokens written out in it become tokens.

        Args:
            add_special_tokens: whether the tokenizer puts its own round the text (a BOS, for one).
        """
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=add_special_tokens).ids
        return ids

    def decode(self, token_ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """Text of `token_ids`; bytes that are no UTF-8 become U+FFFD."""
        text: str = self.tokenizer.decode(list(token_ids), skip_special_tokens=skip_special_tokens)
        return text

    def detokenizer(self) -> Detokenizer | StreamDetokenizer:
        """A fresh decoder for one stream of tokens; see `Detokenizer`."""
        if self._spelling is None:
            return StreamDetokenizer(self.tokenizer)
        return Detokenizer(self._bytes_of, self._spelling.strips_first_space)

    def token_bytes(self, token_id: int) -> bytes:
        """What a token writes; nothing for control tokens, and where the tokenizer's spelling is not known."""
        return self._bytes_of(token_id)

    def _read_bytes(self, token_id: int) -> bytes:
        token = self.tokenizer.id_to_token(token_id)
        if token is None or token_id in self.special_token_ids or self._spelling is None:
            return b""
        return self._spelling.bytes_of(token)

    def render_chat(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """The prompt's text; see `ChatTemplate.render`.

        Raises:
            TextError: the model has no chat template, or it refuses the messages.
        """
        template = self.chat_templates.get("tool_use") if tools else None
        template = template or self.chat_templates.get("default")
        if template is None:
            raise TextError("this model has no chat template: give the prompt as text instead of messages")
        return template.render(messages, tools, add_generation_prompt, **variables)

    def encode_chat(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> list[int]:
        """Token ids of the rendered chat, which spells its special tokens itself."""
        return self.encode(self.render_chat(messages, tools, add_generation_prompt, **variables), False)

    def description(self) -> dict[str, Any]:
        """Everything but the tokenizer, as JSON values."""
        return {
            "eos_token_ids": list(self.eos_token_ids),
            "chat_templates": {name: template.source for name, template in self.chat_templates.items()},
            "special_tokens": self.special_tokens,
        }

    @classmethod
    def from_description(cls, description: Mapping[str, Any], tokenizer_json: Path) -> Text:
        """Back from `description` and a tokenizer file."""
        return cls(
            read_tokenizer(tokenizer_json),
            description["eos_token_ids"],
            description["chat_templates"],
            description["special_tokens"],
        )


def read_tokenizer(path: Path) -> Tokenizer:
    """Reads a `tokenizer.json`.

    Raises:
        TextError: it is missing or malformed.
    """
    if not path.exists():
        raise TextError(f"no {path.name} in {path.parent}: the model comes without a tokenizer that can be read")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise TextError(f"{path} is no tokenizer: fetch it again ({error})") from None
