"""Arguments, subcommands and exit codes of the `constrained` command.

Exit codes: 0 when it worked, 2 for bad usage or a bad grammar, 1 for a failure while generating.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from constrained import __version__


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="constrained", description="Text from a language model that cannot come out invalid."
    )
    parser.add_argument("--version", action="version", version=f"constrained {__version__}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    build_parser().parse_args(argv)
    return 0
