"""Whether the model of a host can read all of a long result, and its middle at once, whatever the host cuts.

The results have 60 kB: a text, structured content that a text says too, and structured content alone.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.external.support import serving

from .hosts import Host
from .model import Call, Request
from .running import HERE, Run, run
from .upstream import LONGER_LINES

ARCHIVE = "acmearchive"
KINDS = {"text": "export_text", "structured, and as text": "export_rows", "structured alone": "export_only_rows"}
"""What is measured, and the tool that returns it."""
MIDDLE = f"{LONGER_LINES // 2:05}"
PAGES = 40
"""How many calls the model makes at most."""


def reached(host: Host) -> Sequence[str]:
    """Return, for each kind of result, what the model reads of it at once and by how many calls it has read all."""
    return [_figure(_read(host, tool)) for tool in KINDS.values()]


def _figure(ran: Run) -> str:
    """Return how much of a result is read at once, in how many more calls its middle, and in how many all of it."""
    results = ran.results[1:]
    first, found = _lines(results[:1]), _lines(results[:2])
    seen, calls = (found, 1) if len(found) >= LONGER_LINES else (first, 0)
    for number, result in enumerate(results[2:], start=1):
        if new := _lines([result]) - seen:
            seen, calls = seen | new, number
    middle = "0" if int(MIDDLE) in first else "1" if int(MIDDLE) in found else "none"
    return f"{len(first) / LONGER_LINES:.0%}; {middle}; {len(seen) / LONGER_LINES:.1%} in {calls}"


def _read(host: Host, tool: str) -> Run:
    """Run a host whose model calls a tool, searches its result for the middle, and then reads on to the end."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = {"command": sys.executable, "args": ["-S", "-E", str(HERE / "upstream.py"), ARCHIVE]}
        file = Path(folder, "servers.json")
        file.write_text(json.dumps({"mcpServers": {ARCHIVE: server}}), encoding="utf-8")
        search, page = BY_ITSELF.get(host.name, (_SEARCH, _PAGE))
        turns = [
            (Call("open_group", {"group": ARCHIVE}),),
            (Call("call_tool", {"name": f"{ARCHIVE}__{tool}", "arguments": {}}),),
            (search,),
            *[(page,)] * PAGES,
        ]
        return run(host, turns, Path(folder), gateway=serving(str(file)))


def _reference(request: Request) -> str:
    return next((found[1] for one in request.results if (found := re.search(r'result=\\*"([\w-]+)', one))), "none")


def _next(request: Request) -> dict[str, Any] | None:
    """Return how the result is read on: from where the last part of it ended; `None` at its end."""
    last = request.results[-1]
    if "that is its end" in last:
        return None
    found = re.search(r"offset=(\d+) reads on", last)
    if found is None:  # the answer to the search: it is read on from where its beginning ended
        found = re.search(r"\[This result .*?offset=(\d+)", request.results[1])
    return None if found is None else {"result": _reference(request), "offset": int(found[1])}


def _file(request: Request) -> str:
    """Return the file in which a host has put the result, as it names it."""
    found = re.search(r"saved to: (\S+)", request.results[1])
    return found[1] if found else "none"


def _by_shell(request: Request) -> dict[str, Any] | None:
    """Return a command that reads the next part of the file."""
    begun = SHELL_BYTES * (len(request.results) - 3)
    done = _lines(request.results[1:2] + request.results[3:])
    if len(done) >= LONGER_LINES - len(request.results):  # a part may begin within a line
        return None
    return {"command": f"tail -c +{begun + 1} {_file(request)} | head -c {SHELL_BYTES}", "description": "Read on"}


_SEARCH = Call("read_result", lambda request: {"result": _reference(request), "search": MIDDLE})
_PAGE = Call("read_result", _next)
SHELL_BYTES = 40_000
"""How much of a file is printed at a time: less than the host cuts."""
BY_ITSELF = {
    "Claude Code": (Call("Read", lambda request: {"file_path": _file(request)}), Call("Read", lambda _: None)),
    "opencode": (
        Call("bash", lambda request: {"command": f"grep -o '.\\{{0,99\\}}{MIDDLE}.\\{{0,99\\}}' {_file(request)}"}),
        Call("bash", _by_shell),
    ),
}
"""The hosts that put a long result in a file, and how their models read that: what has the middle, and what is next."""


def _lines(texts: Sequence[str]) -> set[int]:
    return {int(one) for text in texts for one in re.findall(r"(\d{5}) in the export", text)}
