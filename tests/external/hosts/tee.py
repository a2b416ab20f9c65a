"""Runs a server and records what it and its client say: `tee.py FILE COMMAND…`, a JSON object on each line."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO


def copy(source: IO[bytes], target: IO[bytes], sender: str, record: IO[str]) -> None:
    """Copy lines until there are none."""
    for line in source:
        record.write(json.dumps({"from": sender, "message": json.loads(line)}) + "\n")
        record.flush()
        try:
            target.write(line)
            target.flush()
        except (BrokenPipeError, ValueError):
            return
    target.close()


def main(file: str, *command: str) -> None:
    """Run the server until it ends."""
    with Path(file).open("a", encoding="utf-8") as record:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        arguments = (sys.stdin.buffer, process.stdin, "host", record)
        threading.Thread(target=copy, args=arguments, daemon=True).start()
        copy(process.stdout, sys.stdout.buffer, "server", record)
        process.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
