"""Programs for tests to run: small scripts of this Python."""

import sys
from pathlib import Path

TELL = """
import json, os, sys
program, *argv = sys.argv
told = {"program": os.path.basename(program), "argv": argv, "stdin": sys.stdin.read(), "cwd": os.getcwd()}
print(json.dumps(told | {"environment": dict(os.environ)}))
"""


def fake(path: Path, script: str = TELL) -> None:
    """Write a program that runs a script; by default one that prints as JSON what it was given."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!{sys.executable} -IS\n{script}", encoding="utf-8")
    path.chmod(0o755)
