"""`toolfold status`: how each server and store is doing (SPEC EXP-4)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import click

from toolfold import ConfigError, Usage
from toolfold_adapters.observe.status import status_of
from toolfold_adapters.observe.stored_usage import usage_file
from toolfold_adapters.runtime.place import folder_of
from toolfold_adapters.runtime.relay import asked as asked_runtime
from toolfold_adapters.tokens import plural

from .failures import failing, run
from .kinds import is_url
from .options import examples
from .printing import show, show_json, table
from .records import is_record, lines_of
from .saved import line_of, line_of_week
from .targets import GatewayOptions, open_target, parse_target

DEFAULT = "http://127.0.0.1:8000"
TOKEN = "TOOLFOLD_OPERATOR_TOKEN"
_SECONDS = 10
MOST_NAMES = 5
"""How many relays of a server are named."""


@click.command(
    "status",
    epilog=examples(
        "toolfold status                           of the server on this machine, and of what `toolfold init` wrote",
        "toolfold status http://localhost:8000     of that at a URL",
        "toolfold status usage.db                  of the servers that recorded there, by `toolfold serve --usage`",
        "toolfold status gateway.toml              of the servers of a configuration, which are started for it",
    ),
)
@click.argument("source", required=False, metavar="[URL|FILE]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def status_command(ctx: click.Context, source: str | None, as_json: bool) -> None:
    """Say what was used and saved this week, how each server and store is doing, and how many sessions are open.

    What is saved are the definitions of tools that lists did not have, in approximate tokens, without those in the
    answers that opened groups. Of a server at a URL it is what was used since it started.

    The server at a URL was started with --live; its operator's token is read from TOOLFOLD_OPERATOR_TOKEN. A FILE is a
    configuration, or a record: an SQLite file that `toolfold serve --usage` writes to, or the URL of a store of such.
    Without a URL or FILE it is the server on this machine, and what was used of servers that clients start by
    `toolfold init`.
    The status is 1 if something has failed.
    """
    lines: list[Any]
    with failing():
        if source is None:
            lines = _of_machine()
        elif is_url(source):
            lines = [*_used(source), *asked(source, "status")]
        elif is_record(source):
            lines = _of_record(source)
        else:
            lines = run(partial(_of_configuration, source))
    if as_json:
        show_json(lines)
    else:
        for line in lines:
            if line["what"] == "use":
                show(f"{line['name'].capitalize()}: {line['text']}.")
        rows = table("", "NAME", "STATE", "")
        for line in lines:
            if line["what"] != "use":
                rows.add_row(line["what"], line["name"], line["state"], line["text"])
        show(rows)
    if any(line["state"] == "failed" for line in lines):
        ctx.exit(1)


def _of_machine() -> list[Any]:
    """Return how the server on this machine is doing, and what was used of those that clients start.

    These can't be asked, since each speaks with its client alone: what they have recorded is what is known of them.
    """
    runtime = [*_of_runtime(), *_of_approvals()]
    if not usage_file().is_file():
        if runtime:
            return runtime
        found: list[Any] = asked_without_record("status")
        return [*_used(DEFAULT), *found]
    try:
        live: list[Any] = [*_used(DEFAULT), *asked(DEFAULT, "status")]
    except ConfigError:
        live = []
    first, *others = _of_record(str(usage_file()))
    return [first, *runtime, *live, *others]


def _of_runtime() -> list[Any]:
    """Return how the runtime is doing that the relays of this user share, and a line on each relay."""
    try:
        said = asked_runtime(folder_of(os.environ), "status")
    except OSError:
        return []
    text = (
        f"version {said['version']}, process {said['process']}, {plural(len(said['relays']), 'relay')}{_spared(said)}"
    )
    relays, servers = map(_of_relay, said["relays"]), map(_of_shared, said["servers"])
    return [_line("runtime", "toolfold", text), *relays, *servers]


def _of_approvals() -> list[Any]:
    """Return a line on what is approved, if that can't be stored: then changed tools are used, or withheld for ever."""
    from toolfold_adapters.gateway.stored import Approvals, stored_folder

    folder = stored_folder("approved")
    why = Approvals(folder).trouble()
    text = f"what is approved can't be stored ({why})"
    return [{"what": "approvals", "name": str(folder), "state": "failed", "text": text}] if why else []


def _of_relay(said: Mapping[str, Any]) -> Any:
    chosen = [f"{what} {said[what]}" for what in ("profile",) if said[what]]
    return _line("relay", said["agent"] or Path(said["folder"]).name, ", ".join([said["target"], *chosen]))


def _spared(said: Mapping[str, Any]) -> str:
    """Return what the relays save by what they share; empty where that is nothing, or what is said is older."""
    saved = said.get("saved", {"processes": 0})
    if not saved["processes"]:
        return ""
    memory = f" and {_size(saved['memory'])}" if saved["memory"] else ""
    return f"; {_processes(saved['processes'])}{memory} less than with one of each server for each"


def _of_shared(said: Mapping[str, Any]) -> Any:
    """Return which relays have a server, over how many processes or connections, whether they share it, and why."""
    by_process = said.get("command", False)
    count = _processes(said["processes"]) if by_process else plural(said["connections"], "connection")
    names = said.get("of", [])
    more = f", and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    of = f" ({', '.join(names[:MOST_NAMES])}{more})" if names else ""
    memory = f", {_size(said['memory'])}" if said.get("memory") else ""
    how = f"; {'shared' if said['shared'] else 'not shared'}: {said['why']}" if "why" in said else ""
    text = f"{count} for {plural(said['relays'], 'relay')}{of}{memory}{how}"
    return _line("server", said["name"], text, "running" if said["state"] == "ready" else said["state"])


def _processes(number: int) -> str:
    return f"{number:,} process{'' if number == 1 else 'es'}"


def _size(number: int) -> str:
    return f"{number / 1e6:,.0f} MB"


def _line(what: str, name: str, text: str, state: str = "running") -> Any:
    return {"what": what, "name": name, "state": state, "text": text}


def _of_record(source: str) -> list[Any]:
    """Return what a record says: what was used this week, and then of all of it."""
    return [line_of_week(source), *lines_of(source)]


def _used(url: str) -> list[Any]:
    """Return a line on what was used of a server at a URL."""
    return [line_of(answered(asked(url, "usage")), "since it started")]


async def _of_configuration(source: str) -> list[Any]:
    async with open_target(parse_target(source), GatewayOptions()) as opened:
        return await status_of(opened.tools, opened.status)


def answered(data: Any) -> Usage:
    """Return what was used, as a server answers it."""
    usage = Usage(data["name"])
    usage.add(data)
    return usage


# -- asking a server that runs ----------------------------------------------------------------------------------------


def asked_without_record(what: str) -> Any:
    """Return what the server on this machine answers, while nothing is recorded yet; raises as `asked` does."""
    try:
        return asked(DEFAULT, what)
    except ConfigError as error:
        raise ConfigError(
            "Nothing is recorded on this machine yet. Servers that `toolfold init` has clients start record their use "
            f"in {usage_file()}, and those of `toolfold serve --usage sqlite:///usage.db` in a file to be named here.\n"
            f"No server that could be asked answers either: {error}"
        ) from error


def asked(url: str, what: str) -> Any:
    """Return what a server with a live page answers to a question of its operator.

    Raises:
        ConfigError: It does not answer, has no such page, or wants another token.
    """
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc}/live/{what}"
    token = os.environ.get(TOKEN)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urlopen(Request(place, headers=headers), timeout=_SECONDS) as answer:
            return json.load(answer)
    except HTTPError as error:
        if error.code in (401, 403):
            raise ConfigError(f"{place} is for the operator: set {TOKEN} to the token of one.") from error
        raise ConfigError(f"{place} answered {error.code}: start the server with --live.") from error
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise ConfigError(f"{place} can't be asked: {reason}. Is the server running, with --http --live?") from error
