"""Languages as values: JSON Schema, regular expressions, choices.  Knows no tokens and no tensors."""
