"""`python -m constrained` is the `constrained` command."""

from __future__ import annotations

import sys

from constrained.cli import main

if __name__ == "__main__":
    sys.exit(main())
