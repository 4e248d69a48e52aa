"""On real tokenizers: the bytes of the tokens of a text, joined, are the bytes of the text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from constrained.vocabulary import Vocabulary
from constrained.vocabulary.gguf_metadata import read_gguf_metadata

NAMES = ["llama3", "llama2", "qwen3", "gptoss", "gemma3", "default model"]

CORPUS = {
    "empty": "",
    "one space": " ",
    "prose": "The quick brown fox — “quoted” … isn't it?  Two spaces.\r\nCRLF, and a\ttab.",
    "json": '{"name": "Ada \\u0041 \\n", "tags": [[], {}, null, true, -1.5e+10], "a":{"b":[{"c":""}]}}',
    "python": 'def f(x: int = 0) -> str:\n    """Doc"""\n\tif x >= 1_0:\n        return f"{x!r:>10}"  # comment\n\n\n',
    "c": '#include <stdio.h>\nint main(void) {\n  printf("%d\\n", 1 << 2 | ~0x7fU);\n  return 0;\n}\n',
    "html": "<!DOCTYPE html><h1 class='x'>&amp;</h1><br/><!-- --><u>no</u>",
    "sql and shell": "SELECT * FROM t WHERE a<>'b''c';--\n$ cat <<'EOF' | sed -e 's/\\(.*\\)/\\1/' 2>&1 && echo $?",
    "numbers": "0 00 000 0000 1234567890 3.14159 1e-308 ١٢٣ １２３ ⅷ ½",
    "chinese": "敏捷的棕色狐狸跳过了懒狗。我能吞下玻璃而不伤身体。㐀𠀀𪚥",
    "japanese": "いろはにほへと チリヌルヲ、ﾊﾝｶｸ　全角スペース",
    "korean": "키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다. 가나다",
    "right to left": "שלום עולם مرحبا بالعالم \u202eabc\u202c \u200f",
    "indic and thai": "नमस्ते दुनिया தமிழ் ภาษาไทยไม่มีช่องว่าง ကမ္ဘာ",
    "emoji": "😀👍🏽❤️🇩🇪🇺🇳1️⃣🫠🪿",
    "zero-width joiner sequences": "👩‍👩‍👧‍👦🏳️‍🌈👨🏿‍🚀🧑‍⚖️‍",
    "combining marks": "e\u0301 n\u0303 a\u030a\u0323 Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘",
    "precomposed and compatibility": "é ñ ǻ Å \u212b ﬁ ﷺ Ⅷ ① ｱ \u1e9b\u0323",
    "ascii controls": "".join(map(chr, range(32))) + "\x7f",
    "c1 controls": "".join(map(chr, range(0x80, 0xA1))),
    "line and paragraph separators": "a\u2028b\u2029c\x0bd\x0ce\x85f\u00a0g\u3000h\ufeff",
    "replacement characters": "\ufffd\ufffd a\ufffd�b",
    "byte order mark": "\ufeffabc\ufeff",
    "looks like mojibake": "Ã©Ã¨â‚¬ Â\u00a0ï»¿ Ġ Ċ ĉ ĠĠ Äł",
    "looks like escapes of bytes": "\\xff\\xfe \\udc80\\udcff <0x0A><0xFF> %FF&#x0;  \\u0000",
    "edges of utf-8": "\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff\ufdd0\U0001fffe",
    "private and unassigned": "\ue000\uf8ff\U000f0000\U00100000\u0378\U000e0fff",
    "variation selectors and tags": "\ufe0f\U000e0100 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "long run of spaces": "x" + " " * 1000 + "y",
    "long runs of other white space": "\n" * 257 + "\t" * 130 + "\r\n" * 50 + " \n" * 40 + "\u00a0" * 30,
    "leading and trailing space": "   a   ",
    "long word": "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 5,
    "long repetition": "=" * 300 + "-" * 300 + "a" * 300,
}


@dataclass(frozen=True)
class Case:
    """A vocabulary, its tokenizer in another library, and the bytes that are left of a text in that tokenizer."""

    vocabulary: Vocabulary
    tokenizer: Any
    written: Callable[[str], bytes]

    def bytes_of(self, text: str) -> bytes:
        ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        return b"".join(self.vocabulary.tokens[i] or pytest.fail(f"token {i} of {text!r} has no bytes") for i in ids)


def gguf_tokenizer(path: Path) -> Any:
    """The tokenizer of a SmolLM GGUF, put together with Hugging Face's library."""
    metadata, _ = read_gguf_metadata(path, lambda key: key.startswith("tokenizer."))
    pieces = [piece.decode() for piece in metadata["tokenizer.ggml.tokens"]]
    merges = [tuple(merge.decode().split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [
            AddedToken(piece, special=True)
            for piece, kind in zip(pieces, metadata["tokenizer.ggml.token_type"], strict=True)
            if kind == 3
        ]
    )
    assert tokenizer.get_vocab_size() == len(pieces)
    return tokenizer


@pytest.fixture(scope="session")
def case_of(
    tokenizer_file: Callable[[str], Path],
    vocabulary_of: Callable[[str], Vocabulary],
    request: pytest.FixtureRequest,
) -> Callable[[str], Case]:
    @cache
    def case(name: str) -> Case:
        if name == "default model":
            path = request.getfixturevalue("default_model_file")
            vocabulary = request.getfixturevalue("default_vocabulary")
            # Its training text lacked some control characters, so no token has them and the tokenizer drops them.
            missing = bytes(sorted(vocabulary.missing_bytes))
            return Case(vocabulary, gguf_tokenizer(path), lambda text: text.encode().translate(None, missing))
        tokenizer = Tokenizer.from_file(str(tokenizer_file(name)))
        written: dict[str, Callable[[str], bytes]] = {
            # SentencePiece has one character for a space and for U+2581, and llama2 puts a space in front.
            "llama2": lambda text: (" " + text if text else "").replace("\u2581", " ").encode(),
            "gemma3": lambda text: text.replace("\u2581", " ").encode(),
            "qwen3": lambda text: tokenizer.normalizer.normalize_str(text).encode(),  # to NFC
        }
        return Case(vocabulary_of(name), tokenizer, written.get(name, str.encode))

    return case


@pytest.mark.parametrize("name", NAMES)
def test_joined_token_bytes_are_the_bytes_of_the_text(name: str, case_of: Callable[[str], Case]) -> None:
    case = case_of(name)
    for label, text in CORPUS.items():
        assert case.bytes_of(text) == case.written(text), label


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text() | st.text(alphabet=" \n\t\r.a1é中\u0301\u200d👩\ufffd", max_size=60))
def test_joined_token_bytes_are_the_bytes_of_any_text(name: str, case_of: Callable[[str], Case], text: str) -> None:
    case = case_of(name)
    assume(not any(special in text for special in case.vocabulary.special_tokens))
    assert case.bytes_of(text) == case.written(text)


@pytest.mark.parametrize("name", NAMES)
def test_every_token_alone_decodes_to_its_bytes(name: str, case_of: Callable[[str], Case]) -> None:
    case = case_of(name)
    ids = [i for i, data in enumerate(case.vocabulary.tokens) if data is not None]
    decoded = case.tokenizer.decode_batch([[i] for i in ids], skip_special_tokens=False)
    for i, text in zip(ids, decoded, strict=True):
        expected = (case.vocabulary.tokens[i] or b"").decode(errors="replace")
        if name == "llama2":
            expected = expected.removeprefix(" ")  # its decoder takes the dummy space off
        assert text == expected, i


@pytest.mark.parametrize("name", NAMES)
def test_ids_without_bytes_are_the_special_tokens(name: str, case_of: Callable[[str], Case]) -> None:
    vocabulary, tokenizer = case_of(name).vocabulary, case_of(name).tokenizer
    special = {i for i, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    assert {i for i, data in enumerate(vocabulary.tokens) if data is None} == special
    assert set(vocabulary.special_tokens.values()) == special
    for text, i in vocabulary.special_tokens.items():
        assert tokenizer.token_to_id(text) == i


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("llama3", {"<|end_of_text|>", "<|eot_id|>"}),
        ("llama2", {"</s>"}),
        ("qwen3", {"<|endoftext|>", "<|im_end|>"}),
        ("gptoss", {"<|endoftext|>", "<|return|>", "<|call|>"}),
        ("gemma3", {"<eos>", "<end_of_turn>"}),
        ("default model", {"<|im_end|>", "<|endoftext|>"}),
    ],
)
def test_the_end_tokens_of_known_models_are_found(name: str, ends: set[str], case_of: Callable[[str], Case]) -> None:
    vocabulary = case_of(name).vocabulary
    assert {text for text, i in vocabulary.special_tokens.items() if i in vocabulary.eos_token_ids} == ends


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200))
def test_any_bytes_can_be_written(name: str, case_of: Callable[[str], Case], data: bytes) -> None:
    vocabulary = case_of(name).vocabulary
    data = data.translate(None, bytes(sorted(vocabulary.missing_bytes)))
    tokens = vocabulary.shortest_tokenization(data)
    assert tokens is not None
    assert b"".join(vocabulary.tokens[i] or b"" for i in tokens) == data


@pytest.mark.parametrize("name", NAMES)
def test_only_the_default_model_lacks_bytes(name: str, case_of: Callable[[str], Case]) -> None:
    never_in_utf8 = {0xC0, 0xC1, *range(0xF5, 0x100)}
    planes_unassigned = {0xF1, 0xF2}
    controls = {0x04, 0x06, 0x13, 0x14, 0x16, 0x1D}
    lacking = never_in_utf8 | planes_unassigned | controls if name == "default model" else set()
    assert case_of(name).vocabulary.missing_bytes == lacking


@pytest.mark.parametrize("name", NAMES)
def test_canonical_tokenisation_is_the_tokenizers_own(name: str, case_of: Callable[[str], Case]) -> None:
    case = case_of(name)
    vocabulary = case.vocabulary
    if name == "default model":
        vocabulary = vocabulary.with_encoder(lambda text: case.tokenizer.encode(text).ids)
    for text in ['{"name": "Ada"}', '", "age": 36}', "x = [1, 2]\n", "naïve 中文 👩‍👩‍👧"]:
        expected = case.tokenizer.encode(text, add_special_tokens=False).ids
        if name == "llama2":  # what follows a line break has no dummy space
            expected = case.tokenizer.encode("\n" + text, add_special_tokens=False).ids[2:]
        assert vocabulary.canonical(text) == expected
        assert vocabulary.canonical(text.encode()) == expected
