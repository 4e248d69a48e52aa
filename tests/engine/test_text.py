from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from engine.chat_template import ChatTemplate
from engine.errors import TextError
from engine.loading import load_text
from engine.loading.gguf_text import read_gguf_text
from engine.text import Text, read_tokenizer

TEXTS = [
    "",
    " ",
    "Hello, world!",
    "  leading and trailing  ",
    "\n\n\ttabs\r\nand\n newlines\n\n",
    "don't you'll we've I'M it's",
    "x=1;y=22;z=333.25e-10 1234567 4½",
    'def f(a: int) -> str:\n    return {"k": [1, 2, null]}',
    "Zürich naïve Ελλάδα Россия हिन्दी ไทย",
    "東京都 中文字 한국어 日本語テスト",
    "🚀👩‍👩‍👧‍👦🇨🇭 e\u0301 \u200d\ufe0f",
    "\x00\x01\x7f\x85\u2028\ufeff",
    "<|im_start|>user\nhi<|im_end|>\n<|endoftext|>",
    "<|im_start|> <|im_end|><|im_end|>",
    "a" * 300,
    " " * 17 + "x",
    "\ud7ff\ue000\uffff\U0010ffff",
]

CHATS: list[list[dict[str, str]]] = [
    [{"role": "user", "content": "What is 2+2?"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello! 🚀"},
        {"role": "user", "content": "<|im_end|> {{ 7 * 7 }} \n"},
    ],
]


@pytest.fixture(scope="module")
def text(default_gguf: Path) -> Text:
    return load_text(default_gguf)


@pytest.mark.parametrize("sample", TEXTS)
def test_ids_equal_those_of_transformers(text: Text, published_tokenizer: Any, sample: str) -> None:
    assert text.encode(sample) == published_tokenizer.encode(sample)
    assert text.decode(text.encode(sample)) == published_tokenizer.decode(
        published_tokenizer.encode(sample), skip_special_tokens=True
    )


def test_digits_are_cut_off_before_spaces_as_in_the_models_training(text: Text, published_tokenizer: Any) -> None:
    """Transformers forgets this rule when it reads the GGUF: with the published rule put in, the ids are the same."""
    backend = type(published_tokenizer.backend_tokenizer).from_str(published_tokenizer.backend_tokenizer.to_str())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    for sample in ("x  12", "   1", "½ ² ٣ Ⅷ", "\n\n  {\n    4", "a\t\t7 \n 8"):
        assert text.encode(sample) == backend.encode(sample).ids
    assert text.encode("x  1") != published_tokenizer.encode("x  1")


@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("opens_turn", [True, False])
def test_chats_equal_those_of_transformers(
    text: Text, published_tokenizer: Any, chat: list[dict[str, str]], opens_turn: bool
) -> None:
    expected = published_tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=opens_turn)
    assert text.render_chat(chat, add_generation_prompt=opens_turn) == expected
    ids = published_tokenizer.apply_chat_template(chat, add_generation_prompt=opens_turn)["input_ids"]
    assert text.encode_chat(chat, add_generation_prompt=opens_turn) == ids


def test_the_end_token_comes_from_the_model(text: Text) -> None:
    assert text.eos_token_ids == (2,)
    assert text.special_token_ids == frozenset(range(17))
    assert text.vocab_size == 49_152


@given(ids=st.lists(st.integers(0, 49_151), max_size=30))
@settings(max_examples=200, deadline=None)
def test_streamed_pieces_join_to_the_decoded_text(text: Text, ids: list[int]) -> None:
    detokenizer = text.detokenizer()
    pieces = [detokenizer.push(token) for token in ids]
    assert "".join(pieces) + detokenizer.flush() == text.decode(ids)


@pytest.mark.parametrize("sample", TEXTS)
def test_streaming_never_splits_a_character(text: Text, sample: str) -> None:
    detokenizer = text.detokenizer()
    so_far = ""
    for token in text.encode(sample):
        so_far += detokenizer.push(token)
        assert text.decode(text.encode(sample)).startswith(so_far)
    assert detokenizer.flush() == ""


@pytest.mark.parametrize("name", ["llama2", "llama3", "qwen3", "gemma3", "gptoss"])
@pytest.mark.parametrize("sample", TEXTS)
def test_other_tokenizers_stream_their_own_text(
    tokenizer_file: Callable[[str], Path], tokenizers_read: dict[str, Text], name: str, sample: str
) -> None:
    if name not in tokenizers_read:
        tokenizers_read[name] = Text(read_tokenizer(tokenizer_file(name)))
    text = tokenizers_read[name]
    ids = text.encode(sample)
    detokenizer = text.detokenizer()
    pieces = [detokenizer.push(token) for token in ids]
    assert "".join(pieces) + detokenizer.flush() == text.decode(ids)


@pytest.fixture(scope="module")
def tokenizers_read() -> dict[str, Text]:
    return {}


def _as_gguf(path: Path, kind: str, rule: str | None) -> dict[str, Any]:
    """GGUF metadata with the vocabulary of a tokenizer.json."""
    content = json.loads(path.read_text("utf-8"))
    vocabulary = dict(content["model"]["vocab"])
    added = {token["content"]: token for token in content["added_tokens"]}
    vocabulary |= {name: token["id"] for name, token in added.items()}
    tokens = [name for name, _ in sorted(vocabulary.items(), key=lambda item: item[1])]
    types = [3 if token in added and added[token]["special"] else 4 if token in added else 1 for token in tokens]
    metadata: dict[str, Any] = {
        "tokenizer.ggml.model": kind,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.add_bos_token": False,
    }
    if kind == "gpt2":
        merges = content["model"]["merges"]
        metadata["tokenizer.ggml.merges"] = [m if isinstance(m, str) else " ".join(m) for m in merges]
        metadata["tokenizer.ggml.pre"] = rule
    else:
        # Llama 2's scores are its ranks, but for the runs of spaces that were added by hand.
        metadata["tokenizer.ggml.scores"] = [
            -1e9 if token.strip("\u2581") == "" and len(token) > 1 else -float(max(0, index - 259))
            for index, token in enumerate(tokens)
        ]
    return metadata


@pytest.mark.parametrize(
    ("name", "kind", "rule"), [("llama3", "gpt2", "llama-bpe"), ("qwen3", "gpt2", "qwen2"), ("llama2", "llama", None)]
)
def test_a_tokenizer_rebuilt_from_a_gguf_equals_the_published_one(
    tokenizer_file: Callable[[str], Path], name: str, kind: str, rule: str | None
) -> None:
    path = tokenizer_file(name)
    rebuilt, original = read_gguf_text(_as_gguf(path, kind, rule)), Text(read_tokenizer(path))
    for sample in TEXTS:
        ids = rebuilt.encode(sample)
        assert ids == original.encode(sample, add_special_tokens=False), sample
        assert rebuilt.decode(ids) == original.decode(ids)


def test_the_tools_of_a_chat_reach_the_template() -> None:
    template = ChatTemplate(
        "{%- for tool in tools %}{{ tool | tojson }}\n{% endfor %}{{ bos_token }}{% generation %}"
        "{% for m in messages %}{% if m.role == 'skip' %}{% continue %}{% endif %}{{ m['content'] }}{% endfor %}"
        "{% endgeneration %}{% if add_generation_prompt %}>{% endif %}{{ extra }}",
        {"bos_token": "<s>"},
    )
    tools = [{"name": "é<", "parameters": {"type": "object"}}]
    rendered = template.render([{"role": "user", "content": "x"}, {"role": "skip", "content": "y"}], tools, extra=3)
    assert rendered == '{"name": "é<", "parameters": {"type": "object"}}\n<s>x>3'


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{{ raise_exception('system comes first') }}", "system comes first"),
        ("{{ messages[0].__class__.__mro__ }}", "no template may"),
        ("{% if %}", "refuses these messages"),
        ("{{ messages.append(1) }}", "no template may"),
        ("{{ messages[0]['content'] + 1 }}", "cannot render"),
    ],
)
def test_a_template_that_fails_or_escapes_is_an_error_of_one_line(source: str, said: str) -> None:
    with pytest.raises(TextError, match=said) as caught:
        ChatTemplate(source, {}).render([{"role": "user", "content": "x"}])
    assert "\n" not in str(caught.value)


def test_messages_without_a_template_are_refused(tokenizer_file: Callable[[str], Path]) -> None:
    with pytest.raises(TextError, match="no chat template: give the prompt as text"):
        Text(read_tokenizer(tokenizer_file("llama2"))).encode_chat(CHATS[0])


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({}, "no vocabulary"),
        ({"tokenizer.ggml.tokens": ["a"], "tokenizer.ggml.model": "rwkv"}, "kind 'rwkv'"),
        (
            {"tokenizer.ggml.tokens": ["a"], "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "martian"},
            "pre-tokenizer 'martian'",
        ),
    ],
)
def test_a_tokenizer_that_cannot_be_rebuilt_is_refused(metadata: dict[str, Any], said: str) -> None:
    with pytest.raises(TextError, match=said):
        read_gguf_text(metadata)


def test_a_damaged_tokenizer_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TextError, match="comes without a tokenizer"):
        read_tokenizer(tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(TextError, match="fetch it again"):
        read_tokenizer(tmp_path / "tokenizer.json")
