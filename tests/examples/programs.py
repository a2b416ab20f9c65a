"""Programs for tests to run: small scripts of this Python."""

import sys
from pathlib import Path

PRINT_INPUT = """
import json, os, sys
program, *argv = sys.argv
received = {"program": os.path.basename(program), "argv": argv, "stdin": sys.stdin.read(), "cwd": os.getcwd()}
print(json.dumps(received | {"environment": dict(os.environ)}))
"""


def fake(path: Path, script: str = PRINT_INPUT) -> None:
    """Write a program that runs a script; by default one that prints its input as JSON."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!{sys.executable} -IS\n{script}", encoding="utf-8")
    path.chmod(0o755)
