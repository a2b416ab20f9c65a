"""The configuration files of MCP clients on this machine, and how to make one start Toolfold instead of its servers.

The servers of a file go, as they are written, into a file beside it, which the client then has Toolfold serve. So
nothing is translated, `--undo` puts them back, and all else in the client's file stays unchanged. Each change leaves a
backup.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from attrs import frozen

from toolfold import ConfigError
from toolfold.spi import table

from .editing import JsonFile, edited

NAME = "toolfold"
"""What a client's entry for Toolfold is called."""
CLINE = "saoudrizwan.claude-dev"


@frozen
class ClientFile:
    """The configuration file of a client."""

    client: str
    path: Path

    @property
    def served(self) -> Path:
        """The file beside it that has its servers, once Toolfold serves them."""
        return self.path.with_name(f"{self.path.stem}.toolfold{self.path.suffix}")


@frozen(kw_only=True)
class Change:
    """A change of a client's file that is planned: what is in it and in the file that is served afterwards.

    Attributes:
        file: The client's file.
        servers: The names of the servers that move.
        text: The text of the client's file afterwards.
        served: The text of the file that is served afterwards; `None` to remove it.
        passed_on: The variables that the client gives Toolfold.
    """

    file: ClientFile
    servers: tuple[str, ...]
    text: str
    served: str | None
    passed_on: tuple[str, ...] = ()


def client_files(
    home: Path, folder: Path, environ: Mapping[str, str], platform: str = sys.platform
) -> tuple[ClientFile, ...]:
    """Return the files of known clients that exist: those of a user, and of the project in `folder`."""
    settings = _settings_folder(home, environ, platform)
    places = [
        ("Claude Desktop", settings / "Claude" / "claude_desktop_config.json"),
        ("Claude Code", Path(environ.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json"),
        ("Claude Code, this project", folder / ".mcp.json"),
        ("Cursor", home / ".cursor" / "mcp.json"),
        ("Cursor, this project", folder / ".cursor" / "mcp.json"),
        ("VS Code", settings / "Code" / "User" / "mcp.json"),
        ("VS Code, this project", folder / ".vscode" / "mcp.json"),
        ("Codex", Path(environ.get("CODEX_HOME") or home / ".codex") / "config.toml"),
        ("Codex, this project", folder / ".codex" / "config.toml"),
        ("Copilot CLI", Path(environ.get("COPILOT_HOME") or home / ".copilot") / "mcp-config.json"),
        ("Windsurf", home / ".codeium" / "windsurf" / "mcp_config.json"),
        ("Cline", settings / "Code" / "User" / "globalStorage" / CLINE / "settings" / "cline_mcp_settings.json"),
    ]
    found = {path: ClientFile(client, path) for client, path in reversed(places) if path.is_file()}
    return tuple(reversed(found.values()))


def _settings_folder(home: Path, environ: Mapping[str, str], platform: str) -> Path:
    """Return where programs store the settings of their user."""
    if platform == "darwin":
        return home / "Library" / "Application Support"
    if platform == "win32":
        return Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config")


# -- planning ---------------------------------------------------------------------------------------------------------


def plan_change(file: ClientFile, command: tuple[str, ...]) -> Change | None:
    """Return the change after which a client starts Toolfold instead of its servers; `None` if it does already.

    Args:
        file: The client's file.
        command: What starts Toolfold.

    Raises:
        ConfigError: The file can't be read, or a server of it and one that is served already have the same name.
    """
    from toolfold_adapters.gateway.files import data_in, read_file, read_text

    text = read_text(file.path)
    data = data_in(file.path, text)
    section = _section(file, data)
    servers = _servers(data, section)
    if repeated := getattr(servers, "repeated", None):
        raise ConfigError(f"{file.path}: there are two servers named {min(repeated)!r}; rename one of them.")
    moving = {name: entry for name, entry in servers.items() if not _is_ours(entry, file)}
    if not moving:
        return None
    served: Mapping[str, Any] = _servers(read_file(file.served) if file.served.is_file() else {}, section)
    _refuse_both(file, served.keys(), moving.keys())
    entry = _entry(section, {**served, **moving}, (*command, "serve", str(file.served)))
    client = edited(file.path.suffix, text, section)
    beside = edited(file.path.suffix, read_text(file.served) if served else None, section)
    if "inputs" in data and isinstance(client, JsonFile) and isinstance(beside, JsonFile):
        beside.copy("inputs", client)
    for name in servers:
        if name in moving:
            beside.put(name, client.take(name))
        else:
            client.take(name)
    client.add(NAME, entry)
    return Change(
        file=file,
        servers=tuple(moving),
        text=client.text,
        served=beside.text,
        passed_on=(*entry.get("env_vars", ()), *entry.get("env", {})),
    )


def plan_undo(file: ClientFile) -> Change | None:
    """Return the change that puts the servers of a client back; `None` if it does not start Toolfold.

    Raises:
        ConfigError: A file can't be read.
    """
    from toolfold_adapters.gateway.files import data_in, read_text

    text = read_text(file.path)
    data = data_in(file.path, text)
    section = _section(file, data)
    servers = _servers(data, section)
    ours = [name for name, entry in servers.items() if _is_ours(entry, file)]
    if not ours:
        return None
    moved = read_text(file.served)
    served = _servers(data_in(file.served, moved), section)
    _refuse_both(file, served.keys(), servers.keys() - ours)
    client = edited(file.path.suffix, text, section)
    beside = edited(file.path.suffix, moved, section)
    for name in ours:
        client.take(name)
    for name in served:
        client.put(name, beside.take(name))
    return Change(file=file, servers=tuple(served), text=client.text, served=None)


def _refuse_both(file: ClientFile, served: Set[str], others: Set[str]) -> None:
    if both := served & others:
        raise ConfigError(f"{file.path} and {file.served} both have a server named {min(both)!r}; rename one of them.")


def _section(file: ClientFile, data: Mapping[str, Any]) -> tuple[str, ...]:
    from toolfold_adapters.gateway.clients import servers_in

    try:
        found = servers_in(data)
    except ConfigError as error:
        raise ConfigError(f"{file.path}, {error}") from error
    return tuple(found.section.split(".")) if found else ()


def _servers(data: Mapping[str, Any], section: tuple[str, ...]) -> Mapping[str, Any]:
    inner: Mapping[str, Any] = data if section else {}
    for key in section:
        inner = table(inner.get(key)) or {}
    return inner


def _is_ours(entry: Any, file: ClientFile) -> bool:
    arguments = (table(entry) or {}).get("args")
    return isinstance(arguments, list) and arguments[-2:] == ["serve", str(file.served)]


def _entry(section: tuple[str, ...], servers: Mapping[str, Any], command: tuple[str, ...]) -> dict[str, Any]:
    """Return a client's entry for Toolfold, with what only the client has: inputs, and variables that it passes on."""
    from toolfold_adapters.gateway.variables import input_variable

    entry: dict[str, Any] = {"command": command[0], "args": list(command[1:])}
    if section == ("mcp_servers",):
        names = {name for server in servers.values() for name in _passed_on(table(server) or {})}
        return {**entry, "env_vars": sorted(names)} if names else entry
    if section[-1] == "servers":
        asked = sorted(set(re.findall(r"\$\{input:([^{}]+)\}", json.dumps(servers))))
        environment = {input_variable(name): f"${{input:{name}}}" for name in asked}
        return {"type": "stdio", **entry, **({"env": environment} if environment else {})}
    if any(isinstance((table(server) or {}).get("tools"), list) for server in servers.values()):  # as Copilot CLI wants
        return {"type": "local", **entry, "tools": ["*"]}
    return entry


def _passed_on(server: Mapping[str, Any]) -> set[str]:
    """Return the variables of the environment that Codex passes on to a server, or takes for it."""
    listed = server.get("env_vars")
    variables = cast("Iterable[Any]", listed) if isinstance(listed, list) else ()
    names: list[Any] = [(table(one) or {}).get("name", one) for one in variables]
    names += [server.get("bearer_token_env_var"), *(table(server.get("env_http_headers")) or {}).values()]
    return {name for name in names if isinstance(name, str)}


# -- files ------------------------------------------------------------------------------------------------------------


def apply(change: Change) -> Path:
    """Make a change, the file that is served first, and return the backup of the client's file."""
    path, served = change.file.path, change.file.served
    backup = _free(path.with_name(f"{path.name}.backup"))
    shutil.copy2(path, backup)
    if change.served is not None:
        _write(served, change.served, 0o600)
    _write(path, change.text, path.stat().st_mode & 0o777)
    if change.served is None:
        served.unlink()
    return backup


def _free(path: Path) -> Path:
    number, candidate = 1, path
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate


def _write(path: Path, text: str, mode: int) -> None:
    """Write all of a file or nothing, through links to it."""
    target = path.resolve()
    descriptor, name = tempfile.mkstemp(dir=target.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        Path(name).chmod(mode)
        Path(name).replace(target)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
