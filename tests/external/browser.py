"""A browser that opens files and does what a reader would do with them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from attrs import frozen

from tests.external.support import FOLDER


@frozen
class Browser:
    """A browser, and the script that drives it."""

    process: subprocess.Popen[str]

    def do(self, *jobs: dict[str, Any]) -> list[dict[str, Any]]:
        """Return what each job gave: `results` of its steps, `requests`, `complaints`, and `opened` in milliseconds.

        A job opens a `url`, or goes on in the page that is open, and takes `steps`, which begin with a verb of
        `browser.mjs`. It may say how wide and high the window is, and the scheme of colours.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(jobs) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the browser has ended"
        said: list[dict[str, Any]] = json.loads(line)
        assert [each["error"] for each in said if "error" in each] == []
        return said


@contextmanager
def started(path: str) -> Iterator[Browser]:
    """Yield the browser at a path, for any number of jobs."""
    command: Sequence[str] = ("node", str(FOLDER / "browser.mjs"), path)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Browser(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30) == 0
