"""A client's entry for Toolfold, in the client's own words, and what it keeps of the servers that it replaces."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from toolfold.spi import table

if TYPE_CHECKING:
    from toolfold_adapters.gateway.config.hosts import Host


def entry_for(host: Host | None, servers: Mapping[str, Any], command: tuple[str, ...]) -> dict[str, Any]:
    """Return a client's entry for Toolfold.

    It has what makes the client wait for Toolfold and show its tools, the limits that its servers need, and what only
    the client has: inputs, and variables that it passes on.

    Args:
        host: The client, if it is a known one.
        servers: The entries of the servers that Toolfold serves.
        command: What starts Toolfold.
    """
    program, *rest = host.program if host else ("command", "args")
    words = {program: command[0], rest[0]: list(command[1:])} if rest else {program: list(command)}
    if host is None:
        return words
    entries = [table(server) or {} for server in servers.values()]
    entry = {**host.entry, **words}
    for key, default in host.most.items():
        numbers = [one[key] for one in entries if isinstance(one.get(key), int | float)]
        if numbers and (default is not None or len(numbers) == len(entries)):
            entry[key] = max([*numbers, *([] if default is None or len(numbers) == len(entries) else [default])])
    entry.update({key: True for key in host.every if all(one.get(key) is True for one in entries)})
    if names := _passed_on(host, entries):
        entry["env_vars"] = names
    if asked := _inputs(host, servers):
        entry["env"] = {variable: f"${{input:{name}}}" for name, variable in asked.items()}
    return entry


def given_by(host: Host | None, servers: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the variables that a client gives its servers, as it then gives them to Toolfold."""
    if host is None:
        return ()
    return (*_passed_on(host, [table(server) or {} for server in servers.values()]), *_inputs(host, servers).values())


def not_kept(host: Host | None, servers: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a sentence on each setting of a server that the client does not apply to it any more."""
    entries = {name: table(server) or {} for name, server in servers.items()}
    permissions = host.permissions if host else ()
    switches = [
        key for key in (host.every if host else ()) if not all(one.get(key) is True for one in entries.values())
    ]
    reasons = dict.fromkeys(
        permissions, "it is about tools by names that they do not have behind Toolfold. Set it anew"
    )
    reasons |= dict.fromkeys(switches, "not all of the servers have it")
    return tuple(
        f"{name}: {key} is not kept: {reason}."
        for name, entry in entries.items()
        for key, reason in reasons.items()
        if entry.get(key)
    )


def program_of(entry: Any) -> list[Any]:
    """Return the program with its arguments that an entry starts, in whichever words."""
    given = table(entry) or {}
    program, arguments = given.get("command", given.get("cmd")), given.get("args")
    words = [*cast("Iterable[Any]", program)] if isinstance(program, list) else [program]
    return [*words, *(cast("Iterable[Any]", arguments) if isinstance(arguments, list) else ())]


def _inputs(host: Host, servers: Mapping[str, Any]) -> dict[str, str]:
    """Return what VS Code asks its user for, with the variable that Toolfold takes it from."""
    from toolfold_adapters.gateway.config.data import input_variable

    if host.section != "servers":
        return {}
    asked = sorted(set(re.findall(r"\$\{input:([^{}]+)\}", json.dumps(servers))))
    return {name: input_variable(name) for name in asked}


def _passed_on(host: Host, servers: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the variables of the environment that Codex passes on to its servers, or takes for them."""
    names: set[Any] = set()
    for server in servers if host.section == "mcp_servers" else ():
        listed = server.get("env_vars")
        variables = cast("Iterable[Any]", listed) if isinstance(listed, list) else ()
        names |= {(table(one) or {}).get("name", one) for one in variables}
        names |= {server.get("bearer_token_env_var"), *(table(server.get("env_http_headers")) or {}).values()}
    return sorted(name for name in names if isinstance(name, str))
