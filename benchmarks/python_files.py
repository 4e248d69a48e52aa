"""Files of the standard library through lark's `python.lark` with its indenter: taken iff Lark parses them, whole and damaged.

    python benchmarks/python_files.py --tokenizer llama3.json --tokenizer qwen3.json -n 500
    python benchmarks/python_files.py --tokenizer llama3.json -n 300 --damage

Files are drawn at random.  `--damage` takes a character out of each, puts one in, cuts it off, or leaves a line out.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import warnings
from pathlib import Path
from time import thread_time

import lark
from lark.indenter import PythonIndenter

from constrained import Vocabulary, compile
from grammars import Lark
from grammars.errors import GrammarError

_LARGEST = 30_000
"""Bytes of a file."""


def damaged(text: str, chance: random.Random) -> str:
    """The text with one fault, which may leave it valid."""
    at = chance.randrange(len(text))
    lines = text.splitlines(keepends=True)
    without = chance.randrange(len(lines))
    return chance.choice(
        [
            text[:at] + text[at + 1 :],
            text[:at] + chance.choice("()[]:\n \t'\"#\\x") + text[at:],
            text[:at],
            "".join(lines[:without] + lines[without + 1 :]),
        ]
    )


def main() -> int:
    """Compare and print; 1 if a file is told apart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--tokenizer", type=Path, action="append", required=True, help="tokenizer.json; may be repeated"
    )
    parser.add_argument("-n", type=int, default=500, help="files (500)")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--damage", action="store_true", help="put a fault into each file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    text = (Path(lark.__file__).parent / "grammars" / "python.lark").read_text(encoding="utf-8")
    reference = lark.Lark(text, parser="lalr", postlex=PythonIndenter(), start="file_input")
    grammar = Lark(text, start="file_input", lexer="contextual", indenter=PythonIndenter())
    vocabularies = {path.name: Vocabulary.from_tokenizer_json(path) for path in options.tokenizer}
    constraints = {name: compile(grammar, vocabulary) for name, vocabulary in vocabularies.items()}
    root = Path(os.__file__).parent
    files = [
        path
        for path in sorted(root.rglob("*.py"))
        if "site-packages" not in path.parts and 2 < path.stat().st_size < _LARGEST
    ]
    chance = random.Random(options.seed)
    chance.shuffle(files)
    count = parsed = different = tokens = 0
    seconds = 0.0
    for path in files:
        try:
            source = path.read_bytes().decode()
        except UnicodeDecodeError:
            continue
        if count == options.n:
            break
        if options.damage:
            source = damaged(source, chance)
        count += 1
        try:
            reference.parse(source)
            expected = True
        except (lark.exceptions.LarkError, IndexError, AssertionError):  # the last two are the indenter's
            expected = False
        parsed += expected
        for name, vocabulary in vocabularies.items():
            ids = vocabulary.canonical(source)
            started = thread_time()
            matcher = constraints[name].matcher()
            try:
                taken: object = matcher.accept_many(ids) == len(ids) and matcher.is_accepting()
            except GrammarError as error:
                taken = f"{type(error).__name__}: {error}"
            seconds += thread_time() - started
            tokens += len(ids)
            if taken is not expected:
                different += 1
                print(f"{path}, {name}: Lark says {expected}, the masks {taken}")
    print(
        f"{count} files, of which Lark parses {parsed}; {different} told apart; {tokens:,} tokens in {seconds:.1f} s of CPU"
    )
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
