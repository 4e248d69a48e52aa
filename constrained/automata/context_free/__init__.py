"""Context-free grammars as states of the byte machine: scans of terminals on top of a parser's stacks."""
