"""The configuration files of MCP clients on this machine: where they are, what is in them, and how they are replaced.

Files are replaced whole, after a backup, and only while they are as they were read. Nothing is written through a link
that leads out of a project: whoever wrote the project would choose what is overwritten.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from attrs import field, frozen

from toolfold import ConfigError
from toolfold_adapters.files import original_text, read_table, table_in
from toolfold_adapters.gateway.config.clients import (
    program_of,
    projects_in,
    section_of_project,
    servers_at,
    servers_in,
)
from toolfold_adapters.gateway.stored import patiently, write_whole
from toolfold_adapters.hosts import Host, Scope, files_of, host_of

NAME = "toolfold"
COMMANDS = frozenset({"connect", "serve"})
"""What the entry of a client has Toolfold do: `connect`, or `serve` where an earlier version wrote it."""
"""What a client's entry for Toolfold is called, where it is that of the user; those of a folder name it too."""
_LETTERS = 16
"""How much of a folder's name is in that of an entry: names of tools begin with it, and clients cut long ones."""


@frozen
class ClientFile:
    """Servers of a client: those of a file, or of one folder in a file that has some for each, as Claude Code's has.

    Attributes:
        client: Its name for people.
        path: The file.
        project: The folder whose servers are meant, in a file with some for each folder.
        host: The client, if it is a known one.
        scope: Where the servers are in force.
        folder: The folder that they are in force in; `None` if that is everywhere.
    """

    client: str
    path: Path
    project: str = ""
    host: Host | None = field(default=None, eq=False)
    scope: Scope = "user"
    folder: Path | None = None

    @property
    def place(self) -> tuple[Path, str]:
        """The file that it is in, whatever leads there, and the project: what two have that are one."""
        return self.path.resolve(), self.project

    @property
    def served(self) -> Path:
        """The file beside it that has its servers, once Toolfold serves them."""
        number = hashlib.sha256(self.project.encode()).hexdigest()[:8]
        project = f".{Path(self.project).name}-{number}" if self.project else ""
        return self.path.with_name(f"{self.path.stem}{project}.{NAME}{self.path.suffix}")

    @property
    def entry(self) -> str:
        """What its entry for Toolfold is called, unless that is taken: clients use one entry for each name."""
        if self.folder is None:
            return NAME
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", self.folder.name)[:_LETTERS].strip("-") or "project"
        above = sum(parent.name == self.folder.name for parent in self.folder.parents)
        return "-".join([NAME, name, *(["local"] if self.project else []), *([str(above + 1)] if above else [])])


def client_files(
    home: Path, folder: Path, environ: Mapping[str, str], platform: str = sys.platform
) -> tuple[ClientFile, ...]:
    """Return the files of known clients that exist: those of a user, and of the project in `folder`."""
    found: dict[tuple[Path, str], ClientFile] = {}
    for host, path, scope in files_of(home, folder, environ, platform):
        if _may_be_there(path) and (path, "") not in found:
            of_project = scope == "project"
            client = f"{host.name}, this project" if of_project else host.name
            found[path, ""] = ClientFile(client, path, "", host, scope, folder if of_project else None)
            for project in _projects(path):
                client = f"{host.name}, in {project}"
                found[path, project] = ClientFile(client, path, project, host, "local", Path(project))
    return tuple(found.values())


def client_file(path: Path, known: tuple[ClientFile, ...]) -> ClientFile:
    """Return what a file is that somebody named: one of those that are known, or one of the same name elsewhere."""
    if (same := next((one for one in known if one.path == path and not one.project), None)) is not None:
        return ClientFile("", path, "", same.host, same.scope, same.folder)
    host = host_of(path)
    of_project = host is not None and any(
        file.startswith("./") and path.parts[-file.count("/") :] == Path(file).parts for file in host.files
    )
    folder = path.parent.parent if path.parent.name.startswith(".") else path.parent
    return ClientFile("", path, "", host, "project" if of_project else "user", folder if of_project else None)


def of_other_projects(known: tuple[ClientFile, ...]) -> Iterator[ClientFile]:
    """Yield the files in the folders that a known file has servers for, beside the project that is open."""
    for file in known:
        for place in file.host.files if file.project and file.host is not None else ():
            path = Path(file.project) / place
            if place.startswith("./") and _may_be_there(path):
                yield ClientFile(file.client, path, "", file.host, "project", file.folder)


def _may_be_there(path: Path) -> bool:
    """Return whether there is a file, or a folder that does not say so: then it is reported where the file is read."""
    try:
        return path.is_file()
    except OSError:
        return True


def _projects(path: Path) -> list[str]:
    """Return the folders that a file of Claude Code has servers for, which `claude mcp add` adds."""
    with suppress(ConfigError):  # it is reported where the file is read
        return projects_in(read_table(path)) if path.name == ".claude.json" else []
    return []


# -- reading ----------------------------------------------------------------------------------------------------------


@frozen
class Section:
    """Servers of a client as they are: all data of their file, where they are in it, and those beside Toolfold's entry.

    `text` is that of the file.
    """

    file: ClientFile
    text: str
    data: Mapping[str, Any]
    keys: tuple[str, ...]
    servers: Mapping[str, Any]
    host: Host | None

    @property
    def ours(self) -> str | None:
        """The name of the entry that starts Toolfold, if there is one."""
        served = str(self.file.served)
        programs = {name: program_of(entry) for name, entry in self.servers.items()}
        return next((name for name, words in programs.items() if COMMANDS & {*words} and words[-1] == served), None)

    @property
    def others(self) -> dict[str, Any]:
        """The servers beside Toolfold."""
        return {name: entry for name, entry in self.servers.items() if name != self.ours}

    @property
    def beside(self) -> tuple[str, ...]:
        """Where the servers are in the file that is served."""
        return self.keys[-1:] if self.file.project else self.keys

    @property
    def served(self) -> Mapping[str, Any]:
        """The servers in the file that Toolfold serves."""
        return servers_of(self.file.served, served_text(self.file), self.beside)


def read_section(file: ClientFile, text: str | None = None) -> Section:
    """Return what a file has, or would have with this text; raises `ConfigError`."""
    text = original_text(file.path) if text is None else text
    data = table_in(file.path, text)
    keys = section_of_project(file.project) if file.project else ()
    try:
        if not keys and (found := servers_in(data)):
            keys = found.section
        servers = servers_at(data, keys)
    except ConfigError as error:
        raise ConfigError(f"{file.path}, {error}") from error
    return Section(file, text, data, keys, servers, file.host or host_of(file.path, keys[-1] if keys else ""))


def servers_of(path: Path, text: str | None, keys: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the servers at the end of some keys, if there are any; raises `ConfigError`."""
    return {} if text is None else servers_at(table_in(path, text), keys)


def served_text(file: ClientFile) -> str | None:
    """Return the text of the file that Toolfold serves, if there is one; raises `ConfigError`."""
    if file.served.is_symlink():
        raise ConfigError(f"{file.served} is a link; remove it, since it would be written through.")
    return _text_of(file.served)


def _text_of(path: Path) -> str | None:
    """Return the text of a file, or `None` where there is nothing; raises `ConfigError` if it can't be read."""
    return original_text(path) if path.exists() else None


def check_place(file: ClientFile) -> None:
    """Raise `ConfigError` if the file of a project leads out of it."""
    folder = file.folder
    if file.scope == "project" and folder is not None and not file.path.resolve().is_relative_to(folder.resolve()):
        place = file.path.resolve()
        raise ConfigError(f"{file.path} leads out of the project, to {place}; name that with --config if you mean it.")


# -- replacing --------------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class FileChange:
    """A change of a client's file that is planned.

    Attributes:
        path: The client's file.
        before: Its text when that was read.
        text: Its text afterwards.
        served: The text of each file that is served, when that was read and afterwards; `None` if it is not there.
        backup: The backup that it goes back to, if it goes back to one.
    """

    path: Path
    before: str
    text: str
    served: Mapping[Path, tuple[str | None, str | None]]
    backup: Path | None = None


def apply(change: FileChange) -> Path:
    """Make a change, the files that are served first, and return the backup of the client's file.

    Raises:
        ConfigError: A file was changed since it was read, or can't be written; nothing is changed then.
        OSError: Another file can't be written.
    """
    path = change.path
    _check_unchanged(change)
    backup, is_new = (change.backup, False) if change.backup else _backed_up(path)
    mark = "\ufeff" if path.read_bytes().startswith(BOM_UTF8) else ""
    before = {served: served.read_bytes() if served.is_file() else None for served in change.served}
    try:
        for served, (_, text) in change.served.items():
            if text is not None:
                write_whole(served, text.encode())
        check = partial(_check_text, path, change.before)
        write_whole(path, (mark + change.text).encode(), path.stat().st_mode & 0o777, check)
    except (OSError, ConfigError) as error:
        for served, data in before.items():
            _put(served, data)  # or the next attempt would find each server in both
        if is_new:
            with suppress(OSError):  # of a file that can only be read
                backup.unlink()
        if isinstance(error, ConfigError):
            raise
        why = f"{path} can't be written: {error.strerror}."
        raise ConfigError(f"{why} Nothing was changed; close the client if it is running, and try again.") from error
    for served, (_, text) in change.served.items():
        if text is None:
            _put(served, None)
    return backup


def _check_unchanged(change: FileChange) -> None:
    for path, text in {change.path: change.before, **{path: text for path, (text, _) in change.served.items()}}.items():
        _check_text(path, text)


def _check_text(path: Path, text: str | None) -> None:
    if _text_of(path) != text:
        raise ConfigError(f"{path} was changed by another program meanwhile. Nothing was changed; try again.")


def _put(path: Path, data: bytes | None) -> None:
    """Have a file with these bytes, or none."""
    if data is None:
        patiently(partial(path.unlink, missing_ok=True))
    else:
        write_whole(path, data)


def backups(path: Path) -> list[Path]:
    """Return the backups of a file, the newest one first."""
    return [backup for backup in reversed([*_numbered(path)]) if not backup.is_symlink() and backup.is_file()]


def _backed_up(path: Path) -> tuple[Path, bool]:
    """Return a backup that has what a file has, and whether it is a new one."""
    data = path.read_bytes()
    if (same := next((one for one in backups(path) if one.read_bytes() == data), None)) is not None:
        return same, False
    backup = _backup(path, len([*_numbered(path)]))
    backup.touch(0o600, exist_ok=False)  # never through a link
    backup.write_bytes(data)
    shutil.copystat(path, backup)
    return backup, True


def _numbered(path: Path) -> Iterator[Path]:
    """Yield the places of backups that are taken, whatever has taken them."""
    number = 0
    while (backup := _backup(path, number)).is_symlink() or backup.exists():
        yield backup
        number += 1


def _backup(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.backup{f'-{number + 1}' if number else ''}")
