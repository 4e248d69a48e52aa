"""What a server is started with."""

from __future__ import annotations

from dataclasses import dataclass

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class ServerSettings:
    """Names, keys and limits of one server.

    Attributes:
        model_names: the names by which requests may ask for the model; the first is the one that answers carry.
        api_keys: keys of which each request must bear one; none: no request needs any.
        host: where the server listens; on a loopback address only requests for such a host are answered.
        cors_origins: origins whose pages may call the server from a browser.
        max_body_bytes: of a request.
        body_seconds: that a request's body may take to arrive.
        max_grammar_bytes: of all schemas and grammars in a request together.
        max_tools, max_choices: tools that one request may name, and answers that it may ask for.
        max_requests_per_key: requests at a time for each key (for each address where there are no keys).
        default_max_tokens: of a chat answer whose request sets no limit.
        playground: whether `/` shows the playground.
        short_collections: whether Python's garbage collector is kept from looking at all that is alive again and again, see
            `constrained.server.garbage`; for processes that do nothing but serve.
    """

    model_names: tuple[str, ...] = ("default",)
    api_keys: frozenset[str] = frozenset()
    host: str = "127.0.0.1"
    cors_origins: tuple[str, ...] = ()
    max_body_bytes: int = 4 * 2**20
    body_seconds: float = 60.0
    max_grammar_bytes: int = 2**20
    max_tools: int = 128
    max_choices: int = 16
    max_requests_per_key: int = 256
    default_max_tokens: int = 1024
    playground: bool = True
    short_collections: bool = False

    def __post_init__(self) -> None:
        if not self.model_names:
            raise ValueError("model_names is empty; give the name that answers are to carry")
        if not self.body_seconds > 0:
            raise ValueError(f"body_seconds={self.body_seconds!r} is not accepted; pass seconds above 0")
        for name in ("max_body_bytes", "max_grammar_bytes", "max_tools", "max_choices", "max_requests_per_key",
                     "default_max_tokens"):  # fmt: skip
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name}={value!r} is not accepted; pass an integer of at least 1")
