"""jsonschema, imported without what it loads for the formats `iri` and `iri-reference` alone.

Their checker, `rfc3987_syntax`, builds a parser of its whole grammar when it is imported, which takes longer than
everything else that checks a result; here it is imported when an IRI is there to be checked.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

_CHECKER = "rfc3987_syntax"


def _is_valid_syntax(term: str, value: str) -> bool:
    valid: bool = import_module(_CHECKER).is_valid_syntax(term, value)
    return valid


def _import_jsonschema() -> ModuleType:
    if {"jsonschema", _CHECKER} & sys.modules.keys() or find_spec(_CHECKER) is None:
        return import_module("jsonschema")
    stand_in = ModuleType(_CHECKER)
    stand_in.is_valid_syntax = _is_valid_syntax  # type: ignore[attr-defined]
    sys.modules[_CHECKER] = stand_in
    try:
        return import_module("jsonschema")
    finally:
        del sys.modules[_CHECKER]


_import_jsonschema()
