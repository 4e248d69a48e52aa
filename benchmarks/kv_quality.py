"""What quantized caches cost: perplexity and greedy agreement on fixed texts, against the cache as it is.

python benchmarks/kv_quality.py [--model M] [--dtype bfloat16]
"""

from __future__ import annotations

import argparse
import shlex
import sys

from engine.loading import load_model
from engine.quality import cache_report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--dtype", default="bfloat16")
    options = parser.parse_args()
    model = load_model(options.model, dtype=options.dtype)
    print(f"`{shlex.join(['python', *sys.argv])}`\n")
    print("| cache | perplexity | worse by | greedy agreement |\n|---|---:|---:|---:|")
    for name, quality in cache_report(model).items():
        print(f"| {name} | {quality.perplexity:.4f} | {quality.worse:+.3%} | {quality.agreement:.1%} |")
    print(f"| as it is | {quality.reference:.4f} | | |")


if __name__ == "__main__":
    main()
