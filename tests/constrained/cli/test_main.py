"""What the command does before any subcommand runs."""

from __future__ import annotations

import os

import pytest

from constrained.cli.main import yield_idle_cores


def test_waiting_threads_sleep_unless_the_user_has_said_how_they_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GOMP_SPINCOUNT", "100")
    yield_idle_cores()
    assert "OMP_WAIT_POLICY" not in os.environ
    monkeypatch.delenv("GOMP_SPINCOUNT")
    yield_idle_cores()
    assert os.environ["OMP_WAIT_POLICY"] == "passive"
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    yield_idle_cores()
    assert os.environ["OMP_WAIT_POLICY"] == "active"
