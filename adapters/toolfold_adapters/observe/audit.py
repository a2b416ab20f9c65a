"""Who did what at a gateway: a line of JSON for each call, in the log and, if it has one, in a file (SPEC GWY-19).

A listener to the stream of events. A line has no arguments and no results, unless the configuration asks for arguments.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio

from toolfold import ToolSet, events

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
        if self.file is None and not log.isEnabledFor(logging.INFO):
            return
        ctx = self._current()
        asked: Mapping[str, Any] = (None if ctx is None else ctx.params) or {}
        entry = self._by(self._local if ctx is None else principal_of(ctx))
        if isinstance(event, events.Called):
            tool, result = event.component.name, event.result
            entry |= {"server": self._server_of(tool), "tool": tool, "outcome": _outcome(result)}
            entry["seconds"] = round(event.seconds, 6)
        else:
            tool = str(asked.get("name", ""))[:MAX_NAME]
            entry |= {"server": "", "tool": tool, "outcome": "refused", "why": event.why}
        if self.arguments:
            entry["arguments"] = asked.get("arguments")
        self._write(json.dumps(entry, ensure_ascii=False, default=str))

    @contextmanager
    def noted(self, server: str, what: str) -> Generator[None]:
        """Write a line for a request that is passed on to a server and is no call of a tool, once it is answered."""
        began, outcome = perf_counter(), "error"
        try:
            yield
            outcome = "done"
        except anyio.get_cancelled_exc_class():
            outcome = "cancelled"
            raise
        finally:
            self._note(server, what, outcome, seconds=round(perf_counter() - began, 6))

    def refused(self, server: str, what: str, why: str) -> None:
        """Write a line for such a request that is refused."""
        self._note(server, what, "refused", why=why)

    def _note(self, server: str, what: str, outcome: str, **more: Any) -> None:
        ctx = self._current()
        entry = self._by(self._local if ctx is None else principal_of(ctx))
        entry |= {"server": server, "tool": what[:MAX_NAME], "outcome": outcome, **more}
        self._write(json.dumps(entry, ensure_ascii=False))

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


def _outcome(result: Any) -> str:
    if result is None:
        return "cancelled"
    return "error" if result.is_error else "asked" if result.needs is not None else "done"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
