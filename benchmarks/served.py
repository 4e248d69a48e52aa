"""`constrained serve` in a process of its own, for benchmarks."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil


@contextmanager
def served(options: Sequence[str]) -> Iterator[tuple[str, psutil.Process]]:
    """The address of a server that is ready, and its process; it is ended by SIGTERM behind the block.

    Raises:
        RuntimeError: it ended by itself; the message is what it wrote last.
    """
    command = [sys.executable, "-m", "constrained", "serve", "--port", "0", *options]
    with tempfile.NamedTemporaryFile("w+") as log, subprocess.Popen(command, stderr=log) as server:
        try:
            address = None
            while address is None or not _is_ready(address):
                time.sleep(1)
                said = Path(log.name).read_text()
                found = re.search(r"listening on (http://\S+)", said)
                address = found and found[1]
                if server.poll() is not None:
                    raise RuntimeError(f"the server has ended: {said[-2000:]}")
            yield address, psutil.Process(server.pid)
        finally:
            server.terminate()
            server.wait(60)


def _is_ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/ready").status_code == 200
    except httpx.HTTPError:
        return False
