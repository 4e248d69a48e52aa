"""Mask rows: computed by walks of the token trie, memoised for a vocabulary, shared by every constraint on it."""
