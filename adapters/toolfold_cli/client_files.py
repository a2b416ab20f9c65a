"""The configuration files of MCP clients on this machine, and how to make one start Toolfold instead of its servers.

The servers of a file that Toolfold can serve go, as they are written, into a file beside it, which the client then has
Toolfold serve. So nothing is translated, `--undo` puts them back, and all else in the client's file stays unchanged.
Each change leaves a backup.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from codecs import BOM_UTF8
from collections.abc import Mapping, Set
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from toolfold import ConfigError
from toolfold_adapters.data import original_text, read_table, table_in
from toolfold_adapters.gateway import UpstreamConfig
from toolfold_adapters.gateway.config.clients import (
    entry_for,
    given_by,
    is_disabled,
    not_kept,
    program_of,
    projects_in,
    section_of_project,
    servers_at,
    servers_in,
)
from toolfold_adapters.gateway.config.read import parse_config
from toolfold_adapters.gateway.stored import patiently, write_whole
from toolfold_adapters.gateway.upstream.life import not_installed
from toolfold_adapters.hosts import Host, files_of, host_of
from toolfold_adapters.names import server_name

from .editing import JsonFile, edited

NAME = "toolfold"
"""What a client's entry for Toolfold is called."""


@frozen
class ClientFile:
    """The configuration file of a client.

    `project` is the folder whose servers are read, for a file that has servers for each folder, as Claude Code's has.
    """

    client: str
    path: Path
    project: str = ""

    @property
    def served(self) -> Path:
        """The file beside it that has its servers, once Toolfold serves them."""
        number = hashlib.sha256(self.project.encode()).hexdigest()[:8]
        project = f".{Path(self.project).name}-{number}" if self.project else ""
        return self.path.with_name(f"{self.path.stem}{project}.{NAME}{self.path.suffix}")


@frozen(kw_only=True)
class FileChange:
    """A change of a client's file that is planned: what is in it and in the file that is served afterwards.

    Attributes:
        file: The client's file.
        servers: The names of the servers that move: none if there is nothing to change.
        staying: The names of those that Toolfold can't serve, or that are switched off.
        notes: What there is to know about it, a sentence each.
        text: The text of the client's file afterwards.
        served: The text of the file that is served afterwards; `None` to remove it.
        passed_on: The variables that the client gives Toolfold.
    """

    file: ClientFile
    servers: tuple[str, ...]
    staying: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    text: str = ""
    served: str | None = None
    passed_on: tuple[str, ...] = ()


def client_files(
    home: Path, folder: Path, environ: Mapping[str, str], platform: str = sys.platform
) -> tuple[ClientFile, ...]:
    """Return the files of known clients that exist: those of a user, and of the project in `folder`."""
    found: dict[tuple[Path, str], ClientFile] = {}
    for host, path, of_project in files_of(home, folder, environ, platform):
        if path.is_file() and (path, "") not in found:
            found[path, ""] = ClientFile(f"{host.name}, this project" if of_project else host.name, path)
            for project in _projects(path):
                found[path, project] = ClientFile(f"{host.name}, in {project}", path, project)
    return tuple(found.values())


def _projects(path: Path) -> list[str]:
    """Return the folders that a file of Claude Code has servers for, which `claude mcp add` adds."""
    with suppress(ConfigError):  # it is reported where the file is read
        return projects_in(read_table(path)) if path.name == ".claude.json" else []
    return []


# -- planning ---------------------------------------------------------------------------------------------------------


@frozen
class _Read:
    """A client's file as it is: its data, where its servers are, and those beside Toolfold's own entry."""

    file: ClientFile
    text: str
    data: Mapping[str, Any]
    section: tuple[str, ...]
    servers: Mapping[str, Any]
    host: Host | None

    @property
    def ours(self) -> str | None:
        """The name of the entry that starts Toolfold, if there is one."""
        words = ["serve", str(self.file.served)]
        return next((name for name, entry in self.servers.items() if program_of(entry)[-2:] == words), None)

    @property
    def others(self) -> dict[str, Any]:
        """The servers beside Toolfold."""
        return {name: entry for name, entry in self.servers.items() if name != self.ours}

    @property
    def beside(self) -> tuple[str, ...]:
        """Where the servers are in the file that is served."""
        return self.section[-1:] if self.file.project else self.section


def plan_change(file: ClientFile, command: tuple[str, ...]) -> FileChange | None:
    """Return the change after which a client starts Toolfold instead of its servers; `None` if it does already.

    Args:
        file: The client's file.
        command: What starts Toolfold.

    Raises:
        ConfigError: The file can't be read, or not be changed so that all else stays; or a server of it and one that is
            served already have the same name.
    """
    read = _read(file)
    if repeated := getattr(read.servers, "repeated", None):
        raise ConfigError(f"{file.path}: there are two servers named {min(repeated)!r}; rename one of them.")
    if not read.others:
        return None
    moving, problems = _servable(read)
    staying = tuple(name for name in read.others if name not in moving)
    change = FileChange(file=file, servers=tuple(moving), staying=staying, notes=problems)
    if not moving:
        return change if problems else None
    moved = _moved(read, original_text(file.served) if file.served.is_file() else None, moving, command)
    return evolve(moved, staying=staying, notes=(*problems, *moved.notes))


def plan_undo(file: ClientFile) -> FileChange | None:
    """Return the change that puts the servers of a client back; `None` if it does not start Toolfold.

    Where the file is as Toolfold left it, that is its backup, to the letter.

    Raises:
        ConfigError: A file can't be read.
    """
    read = _read(file)
    if read.ours is None:
        return None
    text = original_text(file.served)
    served = _servers_in(file.served, text, read.beside)
    _refuse_both(file, served.keys(), read.others.keys())
    if (before := _backup_of(read, tuple(served))) is None:
        client = edited(file.path.suffix, read.text, read.section)
        beside = edited(file.path.suffix, text, read.beside)
        client.take(read.ours)
        for name in served:
            client.put(name, beside.take(name))
        before = _ended_as(read.text, client.text)
    return FileChange(file=file, servers=tuple(served), text=before)


def _backup_of(read: _Read, names: tuple[str, ...]) -> str | None:
    """Return the text of the backup from which Toolfold made the file as it is, if there is one."""
    command = tuple(program_of(read.servers[read.ours or ""])[:-2])
    for backup in _backups(read.file.path):
        with suppress(ConfigError):
            before = _read(read.file, original_text(backup))
            if before.ours is None and {*names} <= before.servers.keys():
                moving = {name: before.servers[name] for name in names}
                if _moved(before, None, moving, command).text == read.text:
                    return before.text
    return None


def _read(file: ClientFile, text: str | None = None) -> _Read:
    text = original_text(file.path) if text is None else text
    data = table_in(file.path, text)
    section = section_of_project(file.project) if file.project else ()
    try:
        if not section and (found := servers_in(data)):
            section = found.section
        servers = servers_at(data, section)
    except ConfigError as error:
        raise ConfigError(f"{file.path}, {error}") from error
    return _Read(file, text, data, section, servers, host_of(file.path, section[-1] if section else ""))


def _servers_in(path: Path, text: str | None, section: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the servers at the end of some keys, if there are any."""
    return {} if text is None else servers_at(table_in(path, text), section)


def _servable(read: _Read) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the servers that Toolfold can serve, and what is wrong with the others."""
    if all(is_disabled(entry) for entry in read.others.values()):
        return {}, ()
    data: dict[str, Any] = {read.section[-1]: read.others, "inputs": read.data.get("inputs")}
    environ = {**dict.fromkeys(given_by(read.host, read.others), ""), **os.environ}
    try:
        config = parse_config(read.file.path, data, environ)
    except ConfigError as error:
        return {}, tuple(str(error).splitlines())
    servable = {name: config.upstreams[server_name(name)] for name in read.others if name not in config.left_out}
    failing = {name: not_installed(one) for name, one in servable.items() if not _is_installed(one, environ)}
    problems = (f"{read.file.path}, {'.'.join(read.section)}.{name}, command: {why}" for name, why in failing.items())
    moving = {name: read.others[name] for name in servable if name not in failing}
    return moving, (*config.problems, *(f"{problem} It stays where it is." for problem in problems))


def _is_installed(config: UpstreamConfig, environ: Mapping[str, str]) -> bool:
    """Return whether there is the program of a command, if it is one."""
    if config.command is None:
        return True
    program = config.command[0]
    if os.path.dirname(program):  # noqa: PTH120 (a Path would drop the "./" that counts)
        return (Path(config.cwd or ".") / program).is_file() or shutil.which(program) is not None
    return shutil.which(program, path=config.env.get("PATH") or environ.get("PATH") or os.defpath) is not None


def _moved(read: _Read, served: str | None, moving: Mapping[str, Any], command: tuple[str, ...]) -> FileChange:
    """Return the change that moves servers to the file that is served, whose text is `served` if it is there."""
    file = read.file
    before = _servers_in(file.served, served, read.beside)
    _refuse_both(file, before.keys(), moving.keys())
    behind = {**before, **moving}
    entry = entry_for(read.host, behind, (*command, "serve", str(file.served)))
    client = edited(file.path.suffix, read.text, read.section)
    beside = edited(file.path.suffix, served if before else None, read.beside)
    if "inputs" in read.data and isinstance(client, JsonFile) and isinstance(beside, JsonFile):
        beside.copy("inputs", client)
    for name in moving:
        beside.put(name, client.take(name))
    if read.ours is not None:
        client.take(read.ours)
    client.add(NAME, entry)
    after, moved = _ended_as(read.text, client.text), _ended_as(served or read.text, beside.text)
    left = {**{name: one for name, one in read.others.items() if name not in moving}, NAME: entry}
    if _servers_in(file.path, after, read.section) != left or _servers_in(file.served, moved, read.beside) != behind:
        raise ConfigError(f"{file.path} is written in a way that can't be changed here; move its servers by hand.")
    return FileChange(
        file=file,
        servers=tuple(moving),
        notes=not_kept(read.host, moving),
        text=after,
        served=moved,
        passed_on=given_by(read.host, behind),
    )


def _ended_as(other: str, text: str) -> str:
    """Return a text with its lines ended as on Windows, if all lines of another are."""
    if "\n" not in other or other.count("\n") > other.count("\r\n"):
        return text
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _refuse_both(file: ClientFile, served: Set[str], others: Set[str]) -> None:
    if both := served & others:
        raise ConfigError(f"{file.path} and {file.served} both have a server named {min(both)!r}; rename one of them.")


# -- files ------------------------------------------------------------------------------------------------------------


def apply(change: FileChange) -> Path:
    """Make a change, the file that is served first, and return the backup of the client's file.

    Raises:
        ConfigError: The client's file can't be written; nothing is changed then.
        OSError: Another file can't be written.
    """
    path, served = change.file.path, change.file.served
    backup = path.with_name(f"{path.name}.backup{f'-{len(_backups(path)) + 1}' if _backups(path) else ''}")
    shutil.copy2(path, backup)
    mark = "\ufeff" if path.read_bytes().startswith(BOM_UTF8) else ""
    before = served.read_bytes() if served.is_file() else None
    if change.served is not None:
        write_whole(served, change.served.encode())
    try:
        write_whole(path, (mark + change.text).encode(), path.stat().st_mode & 0o777)
    except OSError as error:
        _put(served, before)  # or the next attempt would find each server in both
        with suppress(OSError):  # of a file that can only be read
            backup.unlink()
        why = f"{path} can't be written: {error.strerror}."
        raise ConfigError(f"{why} Nothing was changed; close the client if it is running, and try again.") from error
    if change.served is None:
        _put(served, None)
    return backup


def _put(path: Path, data: bytes | None) -> None:
    """Have a file with these bytes, or none."""
    if data is None:
        patiently(partial(path.unlink, missing_ok=True))
    else:
        write_whole(path, data)


def _backups(path: Path) -> list[Path]:
    """Return the backups of a file, the newest one first."""
    found: list[Path] = []
    backup = path.with_name(f"{path.name}.backup")
    while backup.exists():
        found.insert(0, backup)
        backup = path.with_name(f"{path.name}.backup-{len(found) + 1}")
    return found
