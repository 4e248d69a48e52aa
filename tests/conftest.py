"""Fixtures shared by all tests: real tokenizers where the data is there, and small vocabularies made by hand."""

from __future__ import annotations

import lzma
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from constrained.cache_folder import cache_folder
from constrained.vocabulary import Vocabulary

# Time limits per example would test the machine: the first call of a kernel compiles it.  The examples are the same at
# every run, so that a change is judged by what it changed; `make fuzz` looks at new ones.
settings.register_profile("constrained", deadline=None, derandomize=True)
settings.register_profile("fuzz", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("CONSTRAINED_EXAMPLES", "constrained"))

# Rows and grammars that earlier runs have left on disk must not stand in for those under test.
os.environ["CONSTRAINED_KEEP_ROWS"] = "0"
os.environ["CONSTRAINED_KEEP_GRAMMARS"] = "0"

DEFAULT_MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="session")
def shared_folder() -> Path:
    """The folder of optional test data: `$CONSTRAINED_SHARED`, else `shared` beside the repository."""
    repository = Path(__file__).resolve().parents[1]
    folder = Path(os.environ.get("CONSTRAINED_SHARED") or repository.parent / "shared")
    if not folder.is_dir():
        pytest.skip(f"no shared data in {folder}")
    return folder


@pytest.fixture(scope="session")
def tokenizer_file(shared_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """By name ("llama3", "llama2", "qwen3", "gptoss", "gemma3"): the path of that tokenizer.json, unpacked."""
    folder = tmp_path_factory.mktemp("tokenizers")

    def unpacked(name: str) -> Path:
        packed = shared_folder / "data" / "tokenizers" / f"{name}.json.xz"
        if not packed.is_file():
            pytest.skip(f"no {packed}")
        path = folder / name / "tokenizer.json"
        if not path.exists():
            path.parent.mkdir()
            path.write_bytes(lzma.decompress(packed.read_bytes()))
        return path

    return unpacked


@pytest.fixture(scope="session")
def vocabulary_of(tokenizer_file: Callable[[str], Path], _empty_cache: Path) -> Callable[[str], Vocabulary]:
    """By name: the vocabulary of that tokenizer, built from the file once a session."""
    made: dict[str, Vocabulary] = {}

    def vocabulary(name: str) -> Vocabulary:
        if name not in made:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("CONSTRAINED_CACHE", str(_empty_cache))
                made[name] = Vocabulary.from_tokenizer_json(tokenizer_file(name))
        return made[name]

    return vocabulary


@pytest.fixture(scope="session")
def _empty_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keeps vocabularies that other versions of the loaders left in the user's cache out of the tests."""
    return tmp_path_factory.mktemp("vocabulary-cache")


@pytest.fixture(scope="session")
def llama3_vocabulary(vocabulary_of: Callable[[str], Vocabulary]) -> Vocabulary:
    return vocabulary_of("llama3")


@pytest.fixture(scope="session")
def llama2_vocabulary(vocabulary_of: Callable[[str], Vocabulary]) -> Vocabulary:
    return vocabulary_of("llama2")


@pytest.fixture(scope="session")
def qwen3_vocabulary(vocabulary_of: Callable[[str], Vocabulary]) -> Vocabulary:
    return vocabulary_of("qwen3")


@pytest.fixture(scope="session")
def gptoss_vocabulary(vocabulary_of: Callable[[str], Vocabulary]) -> Vocabulary:
    return vocabulary_of("gptoss")


@pytest.fixture(scope="session")
def gemma3_vocabulary(vocabulary_of: Callable[[str], Vocabulary]) -> Vocabulary:
    return vocabulary_of("gemma3")


@pytest.fixture(scope="session")
def default_model_file() -> Path:
    """The default model's GGUF, if it has been fetched; tests do not fetch it."""
    found = next(iter(sorted(cache_folder().rglob(DEFAULT_MODEL_FILE))), None)
    if found is None:
        pytest.skip(f"no {DEFAULT_MODEL_FILE} in {cache_folder()}; `constrained models fetch` gets it")
    return found


@pytest.fixture(scope="session")
def default_vocabulary(default_model_file: Path, _empty_cache: Path) -> Vocabulary:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONSTRAINED_CACHE", str(_empty_cache))
        return Vocabulary.from_gguf(default_model_file)


@pytest.fixture(scope="session")
def make_vocabulary() -> Callable[..., Vocabulary]:
    """A small vocabulary: every single byte (ids 0 to 255), then the given words, then one end token.

    `make_vocabulary("ab", b"\\xf0\\x9f", "ab", padding=3)` has ids 256 to 258 for the words (equal words get an id
    each), id 259 for the end token, named `<end>`, and three logits past it.
    """

    def make(*words: str | bytes, padding: int = 0) -> Vocabulary:
        tokens: list[bytes | None] = [bytes((byte,)) for byte in range(256)]
        tokens += [word.encode() if isinstance(word, str) else word for word in words]
        end = len(tokens)
        return Vocabulary.from_token_bytes(
            [*tokens, None], eos_token_ids=[end], logits_size=end + 1 + padding, special_tokens={"<end>": end}
        )

    return make


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder for one test."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("CONSTRAINED_CACHE", str(folder))
    yield folder
