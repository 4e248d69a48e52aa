"""An OpenAI-compatible server: requests read, planned, generated in the batch engine, and written back as they come."""

from __future__ import annotations

from constrained.server.app import make_app
from constrained.server.settings import ServerSettings

__all__ = ["ServerSettings", "make_app"]
