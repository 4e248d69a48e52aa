"""`constrained bench decode` on tiny models."""

from __future__ import annotations

import json

import pytest

from constrained.bench.decode import DecodeBench, Figure
from constrained.cli import main
from constrained.llm import LLM
from engine.loading import random_weights


def test_every_batch_size_gets_its_figure(random_llm: LLM) -> None:
    bench = DecodeBench(random_llm.model, random_llm.vocabulary, prompt=5, tokens=4)
    figures = list(bench.measure([1, 3]))
    assert [figure.batch for figure in figures] == [1, 3]
    for figure in figures:
        assert min(figure.free_ms, figure.constrained_ms, figure.floor_ms) > 0
    assert bench.bandwidth > 0
    config = random_llm.model.config
    more = bench._bytes(3) - bench._bytes(1)
    assert more == 2 * (5 + 2) * config.kv_values_per_token * random_llm.model.dtype.itemsize


def test_rates_follow_from_times() -> None:
    figure = Figure(batch=4, free_ms=10.0, constrained_ms=12.5, floor_ms=5.0)
    found = figure.as_dict()
    assert found["free_tokens_per_s"] == 400.0 and found["constrained_tokens_per_s"] == 320.0
    assert found["constrained_to_free"] == 0.8 and found["floor_to_free"] == 0.5


def test_the_command_measures_a_shape_without_files(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = {
        "model_type": "llama", "vocab_size": 300, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
    }  # fmt: skip
    monkeypatch.setitem(random_weights.SHAPES, "tiny", tiny)
    arguments = ["bench", "decode", "--shape", "tiny", "--device", "cpu", "--batch", "2", "--prompt", "6"]
    assert main([*arguments, "--tokens", "5", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["device"] == "cpu" and [figure["batch"] for figure in report["figures"]] == [2]
    assert main([*arguments, "--tokens", "5"]) == 0
    assert "constrained tok/s" in capsys.readouterr().out
    pytest.importorskip("transformers")
    assert main([*arguments, "--tokens", "5", "--transformers"]) == 0
    assert "of Transformers" in capsys.readouterr().out
    assert main([*arguments, "--tokens", "5", "--transformers", "--json"]) == 0
    (figure,) = json.loads(capsys.readouterr().out)["figures"]
    assert figure["free_to_transformers"] == figure["transformers_ms"] / figure["free_ms"]
    assert main([*arguments, "--tokens", "60"]) == 2
    assert "do not fit into the model's context of 64" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shape", "gpt-17"], "no such shape; choose smollm2-135m"),
        (["--shape", "llama-3-8b", "--model", "x"], "give one of them"),
        (["--device", "cuda:99"], "device 'cuda:99'"),
    ],
)
def test_what_cannot_be_measured_is_said(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "decode", *arguments]) == 2
    assert message in capsys.readouterr().err
