"""Lazy recognisers: languages as states of one byte-level pushdown machine, made when they are first reached."""
