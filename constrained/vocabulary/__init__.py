"""Token bytes, trie and fingerprint of a tokenizer, and the loaders that make them.

A `Vocabulary` is all that the mask core knows of a model; it comes from any of the usual tokenizer formats.
"""

from __future__ import annotations

from constrained.vocabulary.errors import VocabularyError
from constrained.vocabulary.trie import Trie
from constrained.vocabulary.vocabulary import Vocabulary

__all__ = ["Trie", "Vocabulary", "VocabularyError"]
