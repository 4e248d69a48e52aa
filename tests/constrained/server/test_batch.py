from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from constrained import LLM
from constrained.server.batch import BatchFileError, answer_file, open_answers, read_requests

BODY = {"messages": [{"role": "user", "content": "go"}], "guided_choice": ["left", "right"], "seed": 1}


def written(path: Path, *lines: Any) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def answered(llm: LLM, source: Path, target: Path) -> tuple[int, dict[str, Any]]:
    """Runs what is left of a batch; how many it asked for, and all answers by their ids."""
    requests = read_requests(source)
    asked: list[int] = []
    with open_answers(target) as answers:
        left = [one for one in requests if one.custom_id not in answers.done]
        if left:
            answer_file(lambda: LLM(llm.model), left, answers, 4, asked.append)
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    found = {line["custom_id"]: line for line in lines}
    assert len(found) == len(lines), "no answer comes twice"
    return len(asked), found


def test_every_line_has_an_answer_under_its_id(random_llm: LLM, tmp_path: Path) -> None:
    source = written(
        tmp_path / "in.jsonl",
        {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {**BODY, "model": "gpt-4o"}},
        BODY,
        {"prompt": "go", "guided_regex": "x"},
        {"input": "go", "max_output_tokens": 2},
        "",
        "{",
        {"custom_id": "bad", "url": "/v1/embeddings", "body": {}},
        {"messages": [], "custom_id": "empty"},
        {**BODY, "guided_choice": [], "custom_id": "nothing"},
        {**BODY, "stream": True, "custom_id": "streamed"},
    )
    count, found = answered(random_llm, source, tmp_path / "out.jsonl")
    assert count == 9
    good = {name for name, line in found.items() if line["error"] is None}
    assert good == {"a", "line-2", "line-3", "line-4"}
    assert found["a"]["response"]["body"]["choices"][0]["message"]["content"] in ("left", "right")
    assert found["a"]["response"]["body"]["model"] == "gpt-4o"
    assert found["line-3"]["response"]["body"]["choices"][0]["text"] == "x"
    assert found["line-4"]["response"]["body"]["output"]
    statuses = {name: line["response"]["status_code"] for name, line in found.items() if line["error"] is not None}
    assert statuses == {"line-6": 400, "bad": 404, "empty": 400, "nothing": 400, "streamed": 400}
    assert found["nothing"]["error"]["param"] == "guided_choice"


@pytest.mark.parametrize("cut", [0, 1, 30])
def test_a_run_that_was_killed_goes_on_without_loss_or_repeats(random_llm: LLM, tmp_path: Path, cut: int) -> None:
    source = written(tmp_path / "in.jsonl", *[{**BODY, "custom_id": str(number)} for number in range(5)])
    target = tmp_path / "out.jsonl"
    count, whole = answered(random_llm, source, target)
    assert count == 5
    lines = target.read_bytes().splitlines(keepends=True)
    target.write_bytes(b"".join(lines[:2]) + lines[2][:cut])  # killed while it wrote the third
    count, again = answered(random_llm, source, target)
    assert count == 3
    assert set(again) == set(whole)
    assert answered(random_llm, source, target)[0] == 0


def test_files_that_cannot_be_are_named(tmp_path: Path) -> None:
    with pytest.raises(BatchFileError, match="check the path"):
        read_requests(tmp_path / "no")
    with pytest.raises(BatchFileError, match="lines 1 and 2 have the custom_id 'a'"):
        read_requests(written(tmp_path / "twice", {**BODY, "custom_id": "a"}, {**BODY, "custom_id": "a"}))
    with pytest.raises(BatchFileError, match="line 1 is no answer of a batch"):
        open_answers(written(tmp_path / "other", {"x": 1}))
    with pytest.raises(BatchFileError, match="check the path"):
        open_answers(tmp_path / "no" / "file")


def test_a_file_has_one_writer(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    with open_answers(tmp_path / "out"), pytest.raises(BatchFileError, match="another batch"):
        open_answers(tmp_path / "out")
