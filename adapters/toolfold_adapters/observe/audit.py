"""Who did what at a gateway: a line of JSON for each call, in the log and, if it has one, in a file (SPEC GWY-19).

A listener to the stream of events. A line has no arguments and no results, unless the configuration asks for arguments.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio

from toolfold import ToolError, ToolSet, events
from toolfold.spi import Full

from ..mcp.principal import Principal, principal_of

log = logging.getLogger("toolfold.audit")

Entry = dict[str, Any]


class Audit:
    """Writes a line for each call.

    Args:
        current: Returns the request that is being answered, with what the SDK knows of it; `None` for a program's.
        server_of: Returns the server of a tool, by its name in the configuration; `""` for a tool of the gateway's.
        local: Who makes the calls of programs.
    """

    def __init__(self, current: Callable[[], Any], server_of: Callable[[str], str], local: Principal) -> None:
        self.file: Path | None = None
        self.arguments = False
        self._current = current
        self._server_of = server_of
        self._local = local
        self._failing = False

    def listen(self, tools: ToolSet) -> Callable[[], None]:
        """Write the calls of a tool set from now on; return what ends that."""
        return tools.observers.add(self._observe, (events.Called, events.Refused))

    def _observe(self, event: Any) -> None:
        limited = _limited.get()
        _limited.set(False)
        if not self._is_on:
            return
        ctx = self._current()
        asked: Mapping[str, Any] = (None if ctx is None else ctx.params) or {}
        entry = self._by(self._local if ctx is None else principal_of(ctx))
        if isinstance(event, events.Called):
            tool, result = event.component.name, event.result
            entry |= {"server": self._server_of(tool), "tool": tool, "outcome": _outcome(result)}
            entry |= LIMIT if limited else {}
            entry["seconds"] = round(event.seconds, 6)
        else:
            tool = str(asked.get("name", ""))[:MAX_NAME]
            entry |= {"server": "", "tool": tool, "outcome": "refused", "why": event.why}
        if self.arguments:
            entry["arguments"] = asked.get("arguments")
        self._write(json.dumps(entry, ensure_ascii=False, default=str))

    @contextmanager
    def noted(self, server: str, what: str, about: str = "") -> Generator[Entry]:
        """Write a line for a request that is no call of a tool of a tool set, once it is answered.

        Yields what the line says of how it ended, which can be changed until then.

        Args:
            server: The server that it is passed on to; `""` if the gateway answers it.
            what: What is asked: a method, or the name of a tool of the adapter's own.
            about: What it is about, by its name or URI.
        """
        began, done = perf_counter(), dict[str, Any](outcome="done")
        ended: Mapping[str, Any] = done
        try:
            yield done
        except anyio.get_cancelled_exc_class():
            ended = {"outcome": "cancelled"}
            raise
        except BaseException as error:
            ended = LIMIT if _is_of_limit(error) else {"outcome": "error"}
            raise
        finally:
            named = {"about": about[:MAX_NAME]} if about else {}
            self._note(server, what, **ended, **named, seconds=round(perf_counter() - began, 6))

    @contextmanager
    def calling(self) -> Generator[None]:
        """Have the line of a call of a tool say that it was refused, if a limit is why the block fails."""
        try:
            yield
        except ToolError as error:
            _limited.set(_is_of_limit(error))
            raise

    def refused(self, server: str, what: str, why: str) -> None:
        """Write a line for such a request that is refused."""
        self._note(server, what, outcome="refused", why=why)

    @property
    def _is_on(self) -> bool:
        return self.file is not None or log.isEnabledFor(logging.INFO)

    def _note(self, server: str, what: str, **more: Any) -> None:
        if not self._is_on:
            return
        ctx = self._current()
        entry = self._by(self._local if ctx is None else principal_of(ctx))
        entry |= {"server": server, "tool": what[:MAX_NAME], **more}
        if self.arguments and ctx is not None and ctx.params and "arguments" in ctx.params:
            entry["arguments"] = ctx.params["arguments"]
        self._write(json.dumps(entry, ensure_ascii=False, default=str))

    def _by(self, principal: Principal) -> Entry:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        return {"time": now, "principal": str(principal), "issuer": principal.issuer, "client": principal.client}

    def _write(self, line: str) -> None:
        log.info("%s", line)
        if self.file is None:
            return
        try:
            with open(self.file, "a", encoding="utf-8", opener=_private) as file:
                file.write(f"{line}\n")
            self._failing = False
        except OSError as error:
            if not self._failing:
                log.error("calls can't be written to %s: %s", self.file, error)
            self._failing = True


MAX_NAME = 200
"""How much of the name of a tool that does not exist is written."""
LIMIT: Mapping[str, Any] = {"outcome": "refused", "why": "limit"}

_limited: ContextVar[bool] = ContextVar("toolfold_audit_limited", default=False)
"""Whether the call that a task makes was refused because a limit is reached; its result says so in words alone."""


def _is_of_limit(error: BaseException) -> bool:
    return isinstance(error.__cause__, Full)


def _outcome(result: Any) -> str:
    if result is None:
        return "cancelled"
    return "error" if result.is_error else "asked" if result.needs is not None else "done"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
