"""What servers have recorded of their use, read from a store (SPEC EXP-3)."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from toolfold import Calls, Usage
from toolfold_adapters.observe.stored_usage import DAYS, stored_usage
from toolfold_adapters.stores.url import file_of, is_store, open_store
from toolfold_adapters.tokens import plural

from .failures import run
from .kinds import FILES

DATABASES = (".db", ".sqlite", ".sqlite3")
"""What the names of files end with that are databases."""


async def usage_in(source: str, days: int) -> Usage:
    """Return what was used in the last days, as a store has it, or an SQLite file.

    Raises:
        click.UsageError: There is no such file: none is made to be read.
        ConfigError: It is not the URL of a store, or the file is no store.
        StoreError: It can't be read.
    """
    url = _url(source)
    if (file := file_of(url)) is not None and not file.is_file():
        if file.exists():
            raise click.UsageError(f"{file} is no file that can be read: it is a folder, a pipe or a device.")
        raise click.UsageError(f"There is no file {file}: a server writes it with `toolfold serve --usage {url}`.")
    store = open_store(url)
    try:
        return await stored_usage(store, days)
    finally:
        await store.aclose()


def is_record(text: str) -> bool:
    """Return whether a text stands for a record, and not for a TARGET: the URL of a store, or a file that is none.

    One that is called as databases are need not be there.
    """
    name = text.lower()
    return is_store(text) or name.endswith(DATABASES) or (not name.endswith((".py", *FILES)) and Path(text).is_file())


def lines_of(source: str) -> list[dict[str, Any]]:
    """Return a line on a record, and one on each group in it that is in no other: a server's is such (SPEC EXP-4)."""
    file = file_of(_url(source))
    written = _written(file) if file is not None else None  # before it is read, since that can touch it
    usage: Usage = run(partial(usage_in, source, DAYS))
    tools, control = calls_of_tools(usage)
    used = {_outermost(group): Calls() for group in usage.tools.values() if group}
    total, ungrouped = Calls(), Calls()
    for (_, group), calls in tools.items():
        total.add(calls)
        (used.setdefault(_outermost(group), Calls()) if group else ungrouped).add(calls)
    name = source if file is not None else f"{source.partition(':')[0]}:…"  # it may have a password
    about = _line("record", name, total)
    if not total.calls and not control.calls:
        about["text"] = f"no calls in {DAYS} days"
    else:
        about["state"] = "used"
        about["text"] += f" in {DAYS} days"
        if used and ungrouped.calls:
            about["text"] += f", {ungrouped.calls:,} of them of tools in no group"
        if control.calls:
            about["text"] += f", beside {control.calls:,} that opened, closed or found tools"
        if written is not None:
            about["text"] += f", the last {max(0.0, time.time() - written) / 60:,.0f} min ago"
    return [about, *(_line("group", name, calls) for name, calls in sorted(used.items()))]


def calls_of_tools(usage: Usage) -> tuple[dict[tuple[str, str], Calls], Calls]:
    """Return the calls of tools by name and group, and those of what opens, closes and finds tools, all together."""
    tools: dict[tuple[str, str], Calls] = {}
    control = Calls()
    for (name, group), calls in usage.by(0, 1).items():
        (tools.setdefault((name, group), Calls()) if group or name in usage.tools else control).add(calls)
    return tools, control


def _url(source: str) -> str:
    return source if is_store(source) else f"sqlite:///{quote(Path(source).as_posix())}"


def _written(file: Path) -> float | None:
    """Return when a database was last written, which is first seen in the log beside it; `None` if there is none."""
    times = [one.stat().st_mtime for one in (file, file.with_name(f"{file.name}-wal")) if one.exists()]
    return max(times, default=None)


def _line(what: str, name: str, calls: Calls) -> dict[str, Any]:
    text = f"{plural(calls.calls, 'call')}, {calls.errors:,} of them with an error"
    return {"what": what, "name": name, "state": "used" if calls.calls else "unused", "text": text}


def _outermost(group: str) -> str:
    return group.partition(".")[0]
