"""`python -m benchmarks`: every benchmark of this folder in turn; what they print goes into RESULTS.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def main() -> int:
    """Run each script with its defaults; the exit status of the first that fails, or 0."""
    for script in (
        "decode.py",
        "constrained_step.py",
        "batch.py",
        "speculate.py",
        "masks_ahead.py",
        "regex_patterns.py",
    ):
        print(f"== benchmarks/{script}", flush=True)
        status = subprocess.run([sys.executable, str(FOLDER / script)], check=False).returncode
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
