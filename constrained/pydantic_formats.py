"""Formats that Pydantic writes and JSON Schema does not define, put as what the type in fact takes.

Some are mere annotations (`path`, `password`, `binary`): every string will do.  Behind the others stands a syntax, and a
pattern holds it; each pattern is narrower than the type, never wider.
"""

from __future__ import annotations

from typing import Any, Final

_OCTET: Final = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4: Final = f"{_OCTET}([.]{_OCTET}){{3}}"
# A network has no bits set past its prefix; those that end at a dot are written, and single addresses.
_IPV4_NETWORK: Final = (
    f"{_OCTET}[.]0[.]0[.]0/8|{_OCTET}[.]{_OCTET}[.]0[.]0/16|{_OCTET}([.]{_OCTET}){{2}}[.]0/24|{_IPV4}(/32)?"
)
_HOST: Final = "[a-z][a-z0-9]{0,20}([.][a-z][a-z0-9]{0,20})?"

ANNOTATIONS: Final = frozenset({
    "binary", "password", "path", "file-path", "directory-path", "uuid1", "uuid3", "uuid4", "uuid5", "uuid6", "uuid7",
    "uuid8",
})  # fmt: skip
"""They say nothing; the versions of UUID come with their pattern."""

SYNTAXES: Final[dict[str, dict[str, Any]]] = {
    "base64": {"pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"},
    "base64url": {"pattern": "^([A-Za-z0-9_-]{4})*([A-Za-z0-9_-]{2}==|[A-Za-z0-9_-]{3}=)?$"},
    "fraction": {"pattern": "^-?[0-9]{1,9}(/[1-9][0-9]{0,8})?$"},
    "ipv4network": {"pattern": f"^({_IPV4_NETWORK})$"},
    "ipv4interface": {"pattern": f"^{_IPV4}(/(3[0-2]|[12]?[0-9]))?$"},
    "ipv6network": {"format": "ipv6"},
    "ipv6interface": {"format": "ipv6"},
    "ipvanyaddress": {"format": "ipv4"},
    "ipvanynetwork": {"pattern": f"^({_IPV4_NETWORK})$"},
    "ipvanyinterface": {"pattern": f"^{_IPV4}(/(3[0-2]|[12]?[0-9]))?$"},
    "name-email": {"format": "email"},
}

COMPLEX: Final = "^-?[0-9]{1,9}([.][0-9]{1,9})?[+-][0-9]{1,9}([.][0-9]{1,9})?j$"
_VALUES: Final = frozenset({"const", "default", "enum", "examples"})
_BY_NAME: Final = frozenset({"$defs", "properties"})


def multi_host_pattern(schemes: list[str]) -> str:
    """URLs with one host or several, such as those of database servers, under one of `schemes`."""
    port = "(:[1-9][0-9]{1,3})?"
    return f"^({'|'.join(schemes)})://([a-z]{{1,20}}@)?{_HOST}{port}(,{_HOST}{port})*/[a-z]{{1,20}}$"


def with_known_formats(schema: Any) -> Any:
    """A copy of a schema that Pydantic wrote, in which every such format is put as what it means."""
    if isinstance(schema, list):
        return [with_known_formats(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    written = {}
    for key, value in schema.items():
        if key in _BY_NAME and isinstance(value, dict):
            value = {name: with_known_formats(member) for name, member in value.items()}
        elif key not in _VALUES:
            value = with_known_formats(value)
        written[key] = value
    name = written.get("format")
    if written.get("type") != "string" or not isinstance(name, str):
        return written
    if name in ANNOTATIONS:
        del written["format"]
    elif name in SYNTAXES:
        del written["format"]
        # A pattern of the user's own holds beside the type's.
        written = written | SYNTAXES[name] if "pattern" not in written else {"allOf": [written, SYNTAXES[name]]}
    return written
