"""How clients are made to start Toolfold instead of their servers, and to start these again.

The servers of a file that Toolfold can serve go, as they are written, into a file beside it, which the client then has
Toolfold serve. So nothing is translated, `--undo` puts them back, and all else in the client's file stays unchanged.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attrs import Factory, define, evolve, field, frozen

from toolfold import ConfigError
from toolfold.spi import table
from toolfold_adapters.files import original_text
from toolfold_adapters.gateway import UpstreamConfig
from toolfold_adapters.gateway.config.clients import (
    entry_for,
    given_by,
    is_disabled,
    not_kept,
    permissions_in,
    program_of,
)
from toolfold_adapters.gateway.config.read import parse_config
from toolfold_adapters.gateway.upstream.life import not_installed
from toolfold_adapters.hosts import Host
from toolfold_adapters.names import server_name
from toolfold_adapters.observe.stored_usage import usage_url
from toolfold_adapters.runtime.relay import NOT_RECORDED

from .client_files import (
    ClientFile,
    FileChange,
    Section,
    backups,
    check_place,
    read_section,
    served_text,
    servers_of,
)
from .editing import JsonFile, edited
from .permissions import dangling, rules_of, switched_off
from .precedence import Place, place_of, reached, with_toolfold


@frozen(kw_only=True)
class Moved:
    """What is planned for the servers of one section.

    Attributes:
        section: The section as it is.
        servers: The names of the servers that move: none if there is nothing to change.
        staying: The names of those that stay, with the reason.
        notes: What there is to know about it, a sentence each.
        name: What the entry for Toolfold is called.
        text: The text of the client's file afterwards.
        served: The text of the file that is served before and afterwards; `None` if it is not there.
        passed_on: The variables that the client gives Toolfold.
    """

    section: Section
    servers: tuple[str, ...] = ()
    staying: Mapping[str, str] = field(factory=dict[str, str])
    notes: tuple[str, ...] = ()
    name: str = ""
    text: str = ""
    served: tuple[str | None, str | None] = (None, None)
    passed_on: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether the client's file changes, at least in its entry for Toolfold."""
        return bool(self.text)

    @property
    def file(self) -> ClientFile:
        """The file whose servers they are."""
        return self.section.file


@frozen
class Plan:
    """What is planned.

    Attributes:
        sections: What is planned for each section; `None` if there is nothing to say of it, or why nothing can be done.
        files: How each file changes.
    """

    sections: Sequence[tuple[ClientFile, Moved | ConfigError | None]]
    files: tuple[FileChange, ...]


def plan_change(files: Sequence[ClientFile], beside: Iterable[ClientFile], command: tuple[str, ...]) -> Plan:
    """Return the change after which clients start Toolfold instead of their servers.

    A client has then no fewer servers in any folder: where its own rules of precedence would hide some, its files are
    left as they are.

    Args:
        files: The files to change.
        beside: Others that the same clients read.
        command: What starts Toolfold, but for the file that it serves.
    """
    planning = _Planning(files, beside)
    for file in files:
        planning.plan(file, lambda section: _planned(section, planning, command))
    for host in {id(file.host): file.host for file in files if file.host}.values():
        planning.check(host)
    return planning.result()


def plan_undo(files: Sequence[ClientFile]) -> Plan:
    """Return the change that puts the servers of clients back.

    Where a file is as Toolfold left it, that is its backup, to the letter.
    """
    planning = _Planning(files, ())
    for file in files:
        planning.plan(file, _put_back)
    return planning.result(backup_of=_backup_of)


# -- several sections -------------------------------------------------------------------------------------------------


@define
class _Planning:
    """What was planned so far: several sections can be in one file, and a client reads several files."""

    files: Sequence[ClientFile]
    beside: Iterable[ClientFile]
    before: dict[Path, str] = Factory(dict[Path, str])
    texts: dict[Path, str] = Factory(dict[Path, str])
    plans: dict[ClientFile, Moved | ConfigError | None] = Factory(dict[ClientFile, "Moved | ConfigError | None"])
    read: dict[ClientFile, Section] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.read = {}
        for file in (*self.files, *self.beside):
            with suppress(ConfigError), _of_this_file(file.path):  # it is reported where the file is planned
                self.read[file] = read_section(file)

    def plan(self, file: ClientFile, plan: Callable[[Section], Moved | None]) -> None:
        """Plan a section."""
        try:
            with _of_this_file(file.path):
                check_place(file)
                section = read_section(file, self.texts.get(file.path))
                self.before.setdefault(file.path, section.text)
                self.plans[file] = found = plan(section)
        except ConfigError as error:
            self.plans[file] = error
            return
        if found is not None and found.changes:
            self.texts[file.path] = found.text

    def others(self, file: ClientFile) -> Mapping[str, Path]:
        """Return the names of the entries in other sections that a client reads with this, and the files they are in.

        Files of one scope belong to different programs, unless the client merges all.
        """
        host = file.host
        others = [(one, section) for one, section in self.read.items() if host and one.host == host and one != file]
        others = [
            (one, section)
            for one, section in others
            if host is not None and (host.merged or (one.scope, one.folder) != (file.scope, file.folder))
        ]
        names = {name: one.path for one, section in others for name in section.servers}
        planned = [(one, self.plans.get(one)) for one, _ in others]
        return names | {moved.name: one.path for one, moved in planned if isinstance(moved, Moved) and moved.name}

    def check(self, host: Host) -> None:
        """Leave the files of a client as they are if it would reach fewer servers in any folder."""
        sections = {file: section for file, section in self.read.items() if file.host == host}
        before: dict[ClientFile, Place] = {}
        for file, section in sections.items():
            try:
                before[file] = place_of(section)
            except ConfigError as error:  # for this client alone it is unknown who reaches what
                self._refuse(host, str(error))
                if file in self.plans:
                    self.plans[file] = error
                return
        after = {file: self._after(file, place) for file, place in before.items()}
        for folder in {file.folder for file in sections} | {None}:
            was, now = (reached(host, places.values(), folder) for places in (before, after))
            if lost := sorted(f"{name} ({of})" for of, name in was - now):
                where = f"in {folder}" if folder else "in other folders"
                self._refuse(host, f"{host.name} would no longer reach {', '.join(lost)} {where}; nothing is changed.")
                return
            self._note(host, folder, now - was)

    def _after(self, file: ClientFile, place: Place) -> Place:
        moved = self.plans.get(file)
        if not isinstance(moved, Moved) or not moved.servers:
            return place
        return with_toolfold(place, self.read[file], moved.servers, moved.name)

    def _refuse(self, host: Host, why: str) -> None:
        for file, moved in self.plans.items():
            if file.host == host and isinstance(moved, Moved) and moved.changes:
                self.plans[file] = ConfigError(why)
                self.texts.pop(file.path, None)

    def _note(self, host: Host, folder: Path | None, more: Iterable[tuple[str, str]]) -> None:
        """Say which servers a client reaches in a folder that it did not reach there, as another had their name."""
        names = ", ".join(sorted({name for _, name in more}))
        for file, moved in self.plans.items() if names else ():
            if isinstance(moved, Moved) and moved.servers and file.host == host and file.folder == folder:
                note = f"More than one entry is called {names}: {host.name} used one of them here; now it has each."
                self.plans[file] = evolve(moved, notes=(*moved.notes, note))

    def result(self, backup_of: Callable[[str, Sequence[Moved]], tuple[Path, str] | None] | None = None) -> Plan:
        """Return what was planned; `backup_of` returns the backup that a file with these sections goes back to."""
        changes: list[FileChange] = []
        for path, text in self.texts.items():
            moved = [one for one in self.plans.values() if isinstance(one, Moved) and one.changes]
            moved = [one for one in moved if one.file.path == path]
            before = self.before[path]
            backup, text = (backup_of(before, moved) if backup_of else None) or (None, text)
            served = {one.file.served: one.served for one in moved}
            changes.append(FileChange(path=path, before=before, text=text, served=served, backup=backup))
        return Plan([(file, self.plans.get(file)) for file in self.files], tuple(changes))


@contextmanager
def _of_this_file(path: Path) -> Generator[None]:
    """Have all that goes wrong with a file be a `ConfigError` about it: the files of other clients can be changed.

    What edits a format may fail, in ways of its own, at what its reader takes.
    """
    try:
        yield
    except (ConfigError, ImportError):
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error}".rstrip(".: ")
        raise ConfigError(f"{path} can't be changed here ({why}); change it by hand.") from error


# -- one section ------------------------------------------------------------------------------------------------------


def _planned(section: Section, planning: _Planning, command: tuple[str, ...]) -> Moved | None:
    """Return what is planned for a section; raises `ConfigError`."""
    file = section.file
    if repeated := getattr(section.servers, "repeated", None):
        raise ConfigError(f"{file.path}: there are two servers named {min(repeated)!r}; rename one of them.")
    if not section.others:
        return _renewed(section, command)
    elsewhere = planning.others(file)
    rules = rules_of(file)
    reasons = {name: f"switched off in {path}" for name, path in switched_off(file, rules).items()}
    if section.host and section.host.merged:
        reasons |= {name: f"merged with that in {path}" for name, path in elsewhere.items()}
    moving, staying, problems = _servable(section, reasons)
    if not moving:
        renewed = _renewed(section, command) or Moved(section=section)
        return evolve(renewed, staying=staying, notes=problems)
    name = section.ours or _free_name(file, {*elsewhere, *staying})
    moved = _moved(section, served_text(file), moving, command, name)
    return evolve(moved, staying=staying, notes=(*problems, *moved.notes, *dangling(rules, moved.servers)))


def _renewed(section: Section, command: tuple[str, ...]) -> Moved | None:
    """Return the change of an entry as an earlier version wrote it, for `serve`; `None` if there is none."""
    if section.ours is None or _of_serve(section) not in ([], ["--usage", usage_url()]):
        return None  # or its user has given it options
    moved = _moved(section, served_text(section.file), {}, command, section.ours)
    return evolve(moved, notes=(*moved.notes, f"The entry {moved.name} now shares one runtime with all sessions."))


def _of_serve(section: Section) -> list[Any] | None:
    """Return the options in an entry for Toolfold that starts `serve`; `None` if there is no such entry."""
    words = program_of(section.servers.get(section.ours)) if section.ours is not None else []
    return words[words.index("serve") + 1 : -1] if "serve" in words else None


def _is_recorded(section: Section) -> bool:
    """Return whether use is recorded, which the user of an entry may have taken out of it."""
    ours = program_of(section.servers.get(section.ours)) if section.ours is not None else []
    return NOT_RECORDED not in ours and _of_serve(section) != []


def _free_name(file: ClientFile, taken: Set[str]) -> str:
    """Return a name for a client's entry that no other of its entries has, in whichever file."""
    number, name = 1, file.entry
    while name in taken:
        number += 1
        name = f"{file.entry}-{number}"
    return name


def _servable(section: Section, reasons: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str], tuple[str, ...]]:
    """Return the servers that Toolfold can serve, why others stay, and what is wrong with those.

    `reasons` are why servers of these names stay, beside what their entries say.
    """
    staying = {name: "switched off" for name, entry in section.others.items() if is_disabled(entry)}
    staying |= {name: reasons[name] for name in section.others if name in reasons}
    given = {name: entry for name, entry in section.others.items() if name not in staying}
    if not given:
        return {}, staying, ()
    path = section.file.path
    entries = {name: _without_permissions(entry) for name, entry in given.items()}
    data: dict[str, Any] = {section.keys[-1]: entries, "inputs": section.data.get("inputs")}
    environ = {**dict.fromkeys(given_by(section.host, given), ""), **os.environ}
    try:
        config = parse_config(path, data, environ)
    except ConfigError as error:
        return {}, {**staying, **dict.fromkeys(given, "see below")}, tuple(str(error).splitlines())
    servable = {name: config.upstreams[server_name(name)] for name in given if name not in config.left_out}
    failing = {name: not_installed(one) for name, one in servable.items() if not _is_installed(one, environ)}
    problems = (f"{path}, {'.'.join(section.keys)}.{name}, command: {why}" for name, why in failing.items())
    moving = {name: given[name] for name in servable if name not in failing}
    staying |= {name: "see below" for name in given if name not in moving}
    return moving, staying, (*config.problems, *(f"{problem} It stays where it is." for problem in problems))


def _without_permissions(entry: Any) -> Any:
    """Return an entry without what its user allows: that is said of those that move."""
    permissions = permissions_in(entry)
    return {key: value for key, value in entry.items() if key not in permissions} if permissions else entry


def _is_installed(config: UpstreamConfig, environ: Mapping[str, str]) -> bool:
    """Return whether there is the program of a command, if it is one."""
    if config.command is None:
        return True
    program = config.command[0]
    if os.path.dirname(program):  # noqa: PTH120 (a Path would drop the "./" that counts)
        return (Path(config.cwd or ".") / program).is_file() or shutil.which(program) is not None
    return shutil.which(program, path=config.env.get("PATH") or environ.get("PATH") or os.defpath) is not None


def _moved(
    section: Section, served: str | None, moving: Mapping[str, Any], command: tuple[str, ...], name: str
) -> Moved:
    """Return the change that moves servers to the file that is served, whose text is `served` if it is there."""
    file = section.file
    before = servers_of(file.served, served, section.beside)
    _refuse_both(file, before.keys(), moving.keys())
    behind = {**before, **moving}
    options = () if _is_recorded(section) else (NOT_RECORDED,)
    entry = entry_for(section.host, behind, (*command, *options, str(file.served)))
    if not moving and section.ours is not None:
        entry = {**(table(section.servers[section.ours]) or {}), **entry}
    if "name" in entry:
        entry["name"] = name
    client = edited(file.path.suffix, section.text, section.keys)
    beside = edited(file.path.suffix, served if before else None, section.beside)
    if "inputs" in section.data and isinstance(client, JsonFile) and isinstance(beside, JsonFile):
        beside.copy("inputs", client)
    for one in moving:
        beside.put(one, client.take(one))
    if section.ours is not None:
        client.take(section.ours)
    client.add(name, entry)
    text, after = _ended_as(section.text, client.text), _ended_as(served or section.text, beside.text)
    left = {**{one: entry for one, entry in section.others.items() if one not in moving}, name: entry}
    if servers_of(file.path, text, section.keys) != left or servers_of(file.served, after, section.beside) != behind:
        raise ConfigError(f"{file.path} is written in a way that can't be changed here; move its servers by hand.")
    return Moved(
        section=section,
        servers=tuple(moving),
        notes=(*not_kept(section.host, moving), *_then(section)),
        name=name,
        text=text,
        served=(served, after),
        passed_on=given_by(section.host, behind),
    )


def _then(section: Section) -> list[str]:
    """Return the notes for users of a client whose servers have moved."""
    said = section.host.then.get(section.file.scope) if section.host else None
    return [said] if said else []


def _put_back(section: Section) -> Moved | None:
    """Return the change that puts the servers of a section back; `None` if it does not start Toolfold."""
    file = section.file
    if section.ours is None:
        return None
    if (text := served_text(file)) is None:
        known = f" See {found[0]}." if (found := backups(file.path)) else ""
        raise ConfigError(f"{file.served} is not there, so that its servers can't be put back.{known}")
    served = servers_of(file.served, text, section.beside)
    _refuse_both(file, served.keys(), section.others.keys())
    client = edited(file.path.suffix, section.text, section.keys)
    beside = edited(file.path.suffix, text, section.beside)
    client.take(section.ours)
    for name in served:
        client.put(name, beside.take(name))
    return Moved(section=section, servers=tuple(served), text=_ended_as(section.text, client.text), served=(text, None))


def _backup_of(now: str, sections: Sequence[Moved]) -> tuple[Path, str] | None:
    """Return the backup from which Toolfold made a file with these sections as it is, and its text, if there is one."""
    for backup in backups(sections[0].file.path):
        with suppress(ConfigError), _of_this_file(backup):
            text = before = original_text(backup)
            for moved in sections:
                text = _moved_again(read_section(moved.file, text), moved.section)
            if text == now:
                return backup, before
    return None


def _moved_again(before: Section, after: Section) -> str:
    """Return the text of a file once the servers that a section has behind Toolfold moved there."""
    name = after.ours or ""
    moving = {one: before.servers[one] for one in after.served}
    if before.ours is not None or moving != after.served:
        raise ConfigError("It is the backup of something else.")
    return _moved(before, None, moving, tuple(program_of(after.servers[name])[:-1]), name).text


def _ended_as(other: str, text: str) -> str:
    """Return a text with its lines ended as on Windows, if all lines of another are."""
    if "\n" not in other or other.count("\n") > other.count("\r\n"):
        return text
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _refuse_both(file: ClientFile, served: Set[str], others: Set[str]) -> None:
    if both := served & others:
        raise ConfigError(f"{file.path} and {file.served} both have a server named {min(both)!r}; rename one of them.")
