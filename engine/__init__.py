"""A decoder-only language model decodes: weights, attention, KV caches, sampling, generation.

Knows a constraint only through the protocol in `engine.constraint`; knows no grammar.
"""
