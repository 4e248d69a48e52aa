"""The formats by name."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module

from grammars.regular import Rx

# Grammars are imported when they are first asked for, or all at once (`prepare_formats`).
_BUILDERS: dict[str, tuple[str, str]] = {
    "date": ("times", "date_rx"),
    "date-time": ("times", "date_time_rx"),
    "duration": ("times", "duration_rx"),
    "email": ("mail", "email_rx"),
    "hostname": ("hostnames", "hostname_rx"),
    "idn-email": ("mail", "idn_email_rx"),
    "idn-hostname": ("idn_hostnames", "idn_hostname_rx"),
    "ipv4": ("addresses", "ipv4_rx"),
    "ipv6": ("addresses", "ipv6_rx"),
    "iri": ("uris", "iri_rx"),
    "iri-reference": ("uris", "iri_reference_rx"),
    "json-pointer": ("names", "json_pointer_rx"),
    "regex": ("patterns", "regex_rx"),
    "relative-json-pointer": ("names", "relative_json_pointer_rx"),
    "time": ("times", "time_rx"),
    "uri": ("uris", "uri_rx"),
    "uri-reference": ("uris", "uri_reference_rx"),
    "uri-template": ("uris", "uri_template_rx"),
    "uuid": ("names", "uuid_rx"),
}

FORMATS = frozenset(_BUILDERS)
"""The names that `format_rx` knows."""


def format_rx(name: str, draft: str = "2020-12") -> Rx | None:
    """The strings (decoded code points) of a format, `None` for a name without a grammar.

    Args:
        name: value of the `format` keyword; names are case-sensitive.
        draft: `"4"`, `"6"`, `"7"`, `"2019-09"`, `"2020-12"`.  Formats that a later draft introduced mean the same in
            the earlier ones, which leave further formats to implementations.
    """
    return _language(name)


@lru_cache(maxsize=64)
def _language(name: str) -> Rx | None:
    found = _BUILDERS.get(name)
    if found is None:
        return None
    module, function = found
    language: Rx = getattr(import_module(f"grammars.json_schema.formats.{module}"), function)()
    return language


def prepare_formats() -> None:
    """Make the grammars of all formats now, some 30 ms, so that no schema waits for one."""
    for name in _BUILDERS:
        _language(name)
