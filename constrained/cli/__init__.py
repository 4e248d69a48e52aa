"""The `constrained` command: `main` reads the arguments and hands over to one module per subcommand.

Text that was generated goes to standard output alone; everything else goes to standard error.
"""

from __future__ import annotations

from constrained.cli.main import main

__all__ = ["main"]
