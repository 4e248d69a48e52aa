from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra `server` is not installed")

from constrained.cli import main, serve
from constrained.cli.errors import UsageError


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    serve.add_options(parser)
    return parser.parse_args(arguments)


def test_without_options_the_default_model_is_served_on_the_loopback_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONSTRAINED_API_KEYS", raising=False)
    settings = serve._settings(options())
    assert (settings.host, settings.api_keys, settings.cors_origins) == ("127.0.0.1", frozenset(), ())
    assert settings.model_names == ("SmolLM2-135M-Instruct", "default")


def test_options_become_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSTRAINED_API_KEYS", "b, c")
    settings = serve._settings(
        options(
            "--api-key", "a", "--max-body", "1KiB", "--no-playground", "--served-model-name", "x", "--host", "0.0.0.0"
        )
    )
    assert settings.api_keys == {"a", "b", "c"}
    assert (settings.max_body_bytes, settings.playground, settings.model_names) == (1024, False, ("x",))
    assert settings.host == "0.0.0.0"


def test_a_model_is_served_under_its_own_name(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.touch()
    assert serve._settings(options("--model", str(path))).model_names == ("tiny", "default")
    assert serve._settings(options("--model", "owner/name")).model_names == ("owner/name", "default")


@pytest.mark.parametrize("arguments", [["--max-body", "much"], ["--max-requests-per-key", "0"]])
def test_settings_that_cannot_be_are_bad_usage(arguments: list[str]) -> None:
    with pytest.raises(UsageError):
        serve._settings(options(*arguments))


def test_a_model_that_is_not_there_ends_the_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", "0", "--model", str(tmp_path / "no.gguf")]) == 2
    assert "no.gguf" in capfd.readouterr().err


def test_a_batch_is_answered_on_the_command_line(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = {"messages": [{"role": "user", "content": "x"}], "guided_choice": ["a", "b"]}
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_text(json.dumps(body) + "\n" + json.dumps({**body, "n": 0}) + "\n")
    arguments = ["batch", str(source), str(target), "--model", str(model_folder), "--concurrency", "2"]
    assert main(arguments) == 0
    assert "1 of 2 were refused or failed" in capsys.readouterr().err
    assert main(arguments) == 0
    assert "2 of 2 are answered already" in capsys.readouterr().err
    assert len(target.read_text().splitlines()) == 2
    assert main(["batch", str(tmp_path / "none"), str(target)]) == 2
    assert main([*arguments[:-1], "0"]) == 2


@pytest.mark.parametrize("command", [["serve"], ["batch", "in", "out"]])
def test_without_the_extra_the_command_says_what_to_install(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("constrained.server")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("uvicorn", "fastapi", "starlette", "starlette.requests", "starlette.responses"):
        monkeypatch.setitem(sys.modules, name, None)
    assert main(command) == 2
    assert "pip install 'constrained[server]'" in capfd.readouterr().err
