"""Progress is drawn on standard error, and only for people."""

from __future__ import annotations

import io
import sys

import pytest

from constrained.progress import progress_bars


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_nothing_is_drawn_where_standard_error_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bars() as show:
        show("fetching the model", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_each_thing_has_its_bar_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress_bars() as show:
        show("loading the model", 0, 0)
        show("fetching the model", 1, 2)
        show("fetching the model", 2, 2)
    assert "loading the model" in terminal.getvalue()
    assert "fetching the model" in terminal.getvalue()
    assert "100%" in terminal.getvalue()
    assert capsys.readouterr().out == ""
