"""A driver in a process of its own, in any language: the driver protocol over stdio (specs/DRIVER-PROTOCOL.md).

A request is a line on its stdin, the response to it a line on its stdout; what it writes to stderr is its own.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import IO, Any, cast

from toolfold_specs import children
from toolfold_specs.driver import DriverFault, TargetFailed

from .messages import SHORT
from .remote import RemoteDriver
from .replies import START_TIMEOUT, TIMEOUT, TargetNotStarted, last_words

END_TIMEOUT = 2.0
CHUNK = 1 << 16


class PipedDriver(RemoteDriver):
    """Drives an implementation through a command that speaks the driver protocol over stdio.

    Args:
        command: The words of the command.
        timeout: Seconds within which each request is to be answered.
        start_timeout: Seconds within which the first is.

    Raises:
        TargetNotStarted: It can't be started, or ended or was silent before it answered the first request.
        DriverFault: It does not speak the protocol, or another version of it.
    """

    name = "driver over stdio"

    def __init__(
        self, command: Sequence[str], *, timeout: float = TIMEOUT, start_timeout: float = START_TIMEOUT
    ) -> None:
        super().__init__(_Pipe(command, timeout, start_timeout))


class _Pipe:
    """The process, in a group of its own so that whatever it starts ends with it."""

    def __init__(self, command: Sequence[str], timeout: float, start_timeout: float) -> None:
        self._timeout = timeout
        self._next_timeout = start_timeout
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._unread = b""
        self._numbers = count(1)
        self._asked = ""
        try:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._errors}
            self._process = children.start(command, **pipes)
        except OSError as error:
            self._errors.close()
            raise TargetNotStarted(f"It can't be started: {error.strerror}: {error.filename}") from None

    def ask(self, request: Mapping[str, Any]) -> object:
        """Return the response to a request as JSON data; raises `TargetFailed` or `DriverFault`."""
        verb, timeout, self._next_timeout = request["verb"], self._next_timeout, self._timeout
        number, before = next(self._numbers), self._asked
        self._asked = verb
        assert self._process.stdin is not None
        if before and self._is_unread():
            raise DriverFault(f"It answered {before} with more than one line.")
        try:
            self._process.stdin.write(json.dumps({**request, "id": number}, separators=(",", ":")).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise TargetFailed(self._ended(verb)) from None
        line = self._line(verb, timeout)
        try:
            response: object = json.loads(line)
        except ValueError:
            shown = line.decode(errors="replace").strip()[:SHORT]
            raise DriverFault(f"It answered {verb} with a line that is not JSON: {shown!r}.") from None
        answered: object = number
        if isinstance(response, dict):
            answered = (response := cast("dict[str, object]", response)).pop("id", number)
        if answered != number:
            raise DriverFault(f"It answered {verb}, the request {number}, with a response to {answered!r}.")
        return response

    def _is_unread(self) -> bool:
        """Return whether there is output that belongs to no request."""
        assert self._process.stdout is not None
        file = self._process.stdout.fileno()
        if not self._unread and select.select([file], [], [], 0)[0]:
            self._unread = os.read(file, CHUNK)
        return bool(self._unread)

    def _line(self, verb: str, timeout: float) -> bytes:
        """Return the next line of its stdout."""
        assert self._process.stdout is not None
        limit, file = time.monotonic() + timeout, self._process.stdout.fileno()
        parts = [self._unread]
        while b"\n" not in parts[-1]:
            if not select.select([file], [], [], max(0, limit - time.monotonic()))[0]:
                raise TargetFailed(f"It did not answer {verb} within {timeout:g} seconds.{last_words(self._errors)}")
            parts.append(os.read(file, CHUNK))
            if not parts[-1]:
                raise TargetFailed(self._ended(verb))
        line, _, self._unread = b"".join(parts).partition(b"\n")
        return line

    def _ended(self, verb: str) -> str:
        self._wait()
        status = self._process.returncode
        how = "It closed its stdout" if status is None else f"It ended with status {status}"
        return f"{how} before it answered {verb}.{last_words(self._errors)}"

    def close(self) -> None:
        """End it, and everything in its group."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._wait()
        children.end(self._process, END_TIMEOUT)
        self._process.stdout.close()
        self._errors.close()

    def _wait(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_TIMEOUT)
