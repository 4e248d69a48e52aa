"""The playground: one page at `/` to try a grammar on the model, and what it asks of the server."""

from __future__ import annotations

from importlib.resources import files

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from constrained.server.state import ServerState

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


def add_playground(app: FastAPI, state: ServerState) -> None:
    """Adds the page; it calls the routes that everybody calls."""
    page = files("constrained.server").joinpath("playground.html").read_text(encoding="utf-8")

    @app.get("/", include_in_schema=False)
    async def playground() -> HTMLResponse:
        return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"})
