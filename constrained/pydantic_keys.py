"""Keys of mappings: JSON has texts for keys only, and Pydantic reads other types from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

_INTEGER: Final = "(0|[1-9][0-9]{0,17})"
_FRACTION: Final = "(0|[1-9][0-9]{0,15})([.][0-9]{1,15})?"
_MOST_LISTED: Final = 10_000

Definitions = Callable[[Any], dict[str, Any] | None]


def key_names(held: dict[str, Any], definitions: Definitions) -> dict[str, Any] | None:
    """The schema of the texts that stand for keys which satisfy `held`, a schema as Pydantic writes it; None: any text.

    Bounds that no list of texts and no sign can say are left to the type's own validation.
    """
    reference = held.get("$ref")
    resolved = definitions(reference) if reference is not None else held
    if not resolved:
        return None
    if "enum" in resolved or "const" in resolved:
        listed = resolved["enum"] if "enum" in resolved else [resolved["const"]]
        return {"enum": [_text(value) for value in listed]}
    kind = resolved.get("type")
    if kind == "string":
        return held if reference is not None or len(resolved) > 1 else None
    if kind == "boolean":
        return {"enum": ["true", "false"]}
    if kind == "integer":
        return _integers(resolved)
    if kind == "number":
        return {"pattern": f"^{_sign(resolved)}{_FRACTION}$"}
    if "anyOf" in resolved:
        members = [key_names(member, definitions) for member in resolved["anyOf"]]
        return None if None in members else {"anyOf": members}
    return None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _sign(held: dict[str, Any]) -> str:
    if held.get("minimum", -1) >= 0 or held.get("exclusiveMinimum", -1) >= 0:
        return ""
    return "-?"


def _integers(held: dict[str, Any]) -> dict[str, Any]:
    least, most = held.get("minimum"), held.get("maximum")
    if "exclusiveMinimum" in held:
        least = held["exclusiveMinimum"] + 1
    if "exclusiveMaximum" in held:
        most = held["exclusiveMaximum"] - 1
    if least is not None and most is not None and most - least < _MOST_LISTED:
        step = held.get("multipleOf", 1)
        return {"enum": [str(number) for number in range(int(least), int(most) + 1) if number % step == 0]}
    return {"pattern": f"^{_sign(held)}{_INTEGER}$"}
