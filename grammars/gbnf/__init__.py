"""GBNF, llama.cpp's notation for grammars, and the EBNF of XGrammar, which is nearly the same."""

from __future__ import annotations

from grammars.gbnf.loading import load, rules, without_text

__all__ = ["load", "rules", "without_text"]
