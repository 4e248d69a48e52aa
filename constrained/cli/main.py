"""Arguments, subcommands and exit codes of the `constrained` command.

Exit codes: 0 when it worked; 2 for bad usage or a bad grammar; 1 for a failure while generating (model, network,
context, generation).  Each subcommand's module is imported only when it is called.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from constrained import __version__
from constrained.cli.errors import FAILED, report, show_log_as_lines, show_warnings_as_lines

SUBCOMMANDS = {
    "generate": "generate text under a grammar",
    "check": "say what of a grammar is supported, and what is not and where",
    "explain": "say which tokens may come next, and why not the others",
    "serve": "serve a model to OpenAI's clients",
    "batch": "answer a file of requests, one a line",
    "bench": "measure masks on your own schemas, documents and tokenizer",
    "models": "list the models at hand, fetch one",
    "kv-plan": "the memory that a KV cache takes",
}


def build_parser(chosen: str | None = None) -> argparse.ArgumentParser:
    """The parser; only the chosen subcommand's options are filled in, since reading them imports its module."""
    parser = argparse.ArgumentParser(
        prog="constrained", description="Text from a language model that cannot come out invalid."
    )
    parser.add_argument("--version", action="version", version=f"constrained {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in SUBCOMMANDS.items():
        command = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if name == chosen:
            module = importlib.import_module(f"constrained.cli.{name.replace('-', '_')}")
            module.add_options(command)
            command.set_defaults(run=module.run)
    return parser


def yield_idle_cores() -> None:
    """Threads of torch that wait for work sleep, unless the user's own settings say how they wait.

    By default they spin, which on a machine where others compute as well keeps the cores from the very threads that are
    waited for: with four processes on two cores, decoding was ten times as slow.  Read when torch is imported.
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        os.environ["OMP_WAIT_POLICY"] = "passive"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
        argv: the arguments after the program's name; `None` takes them from the process.

    Returns:
        The exit code; bad usage leaves by `SystemExit(2)`, as `argparse` does.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    chosen = next((argument for argument in arguments if not argument.startswith("-")), None)
    yield_idle_cores()
    show_log_as_lines()
    show_warnings_as_lines()
    options = build_parser(chosen).parse_args(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has gone; there is nobody to tell, and Python's own flush at exit must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        print("constrained: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        return report(error)
    return code
