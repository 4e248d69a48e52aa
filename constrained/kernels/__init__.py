"""Array kernels of the mask engine: machine steps, trie walks, rows.

They take and return arrays and numbers and know no objects; `docs/design.md` describes the tables that they share.
"""
