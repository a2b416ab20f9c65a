"""The worker's other end, and what tool sets over a benchmark share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attrs import define

from tests.external.support import ROOT

PYTHON = "TESTS_BENCHMARKS"
"""Names the Python of an environment with `inspect_evals[agentdojo]`."""


@define
class Worker:
    """A worker for one benchmark, which is asked by the names of its methods."""

    process: subprocess.Popen[str]
    name: str

    def ask(self, method: str, **given: Any) -> Any:
        """Return the answer of a method; raises `EOFError` if the worker has ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([self.name, method, given]), file=self.process.stdin, flush=True)
        if not (line := self.process.stdout.readline()):
            raise EOFError(f"the worker of {self.name} has ended, in {method}")
        return json.loads(line)

    def call(self, tool: str, arguments: Mapping[str, Any], by: str = "assistant") -> tuple[str, bool]:
        """Return what a call answered, and whether that is an error."""
        answer = self.ask("call", tool=tool, arguments=arguments, by=by)
        return answer["text"], answer["error"]


@contextmanager
def worker(name: str) -> Iterator[Worker]:
    """Yield a worker for a benchmark: `tau2`, or the name of a suite of AgentDojo."""
    command = [os.environ[PYTHON], "-m", f"{__package__}.worker"]
    quiet = None if os.environ.get("TESTS_LOUD") else subprocess.DEVNULL
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=quiet, text=True, encoding="utf-8"
    ) as process:
        yield Worker(process, name)
        assert process.stdin is not None
        process.stdin.close()


def progress(text: str) -> None:
    """Say on standard error how far a run is."""
    print(text, file=sys.stderr, flush=True)
