"""Phrases that a text must or must not hold, whatever its grammar: its machine and an automaton of phrases side by side."""
