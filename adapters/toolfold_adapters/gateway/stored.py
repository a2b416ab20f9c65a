"""What a gateway stores of its servers on this machine, readable only for its owner (SPEC GWY-4, GWY-8, GWY-11).

The definitions that a server had when it was last asked are there for the next start. What a server says to models can
change after somebody looked at it: so each definition, and each text of the server's own, is stored as it was approved,
when the server is first seen. One that is another now, or that was not there, has changed, until `toolfold approve`,
which shows the difference. Where that can't be stored or read, nothing is approved that is to be withheld (SPEC ISO-3).
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import stat
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from difflib import unified_diff
from pathlib import Path
from types import GenericAlias
from typing import Any, Generic, Literal, TypeVar, cast, get_type_hints

from attrs import asdict, evolve, field, fields_dict
from pydantic import BaseModel, TypeAdapter
from typing_extensions import TypedDict

from toolfold.spi import KINDS, Kind, frozen, table

from ..mcp.extensions.offered_groups import OfferedGroup
from .config.settings import Entry, UpstreamConfig
from .upstream.definitions import HINTS, Definitions, Known, Table, Usable
from .upstream.handshake import Outcome, Probed

log = logging.getLogger("toolfold.gateway")

T = TypeVar("T")
CHANGED = "dev.toolfold/changed"
"""Marks a definition that changed since it was approved (SPEC GWY-11)."""
TEXT = "server text"
"""The kind of the introduction of a server."""
TEXTS = ("name", "title", "instructions")
GROUP = "group"
"""The kind of what a server says of its groups."""
GROUP_TEXTS = ("title", "description", "instructions")
FORMAT = 1
"""The latest format of files that is read here; one that says none has the first."""
PAUSES = (0.01, 0.02, 0.04, 0.08)
"""Seconds between two attempts to use a file that another process uses."""
WAITING = "waiting"
"""The folder in that of what is approved which has what callers are listed alone and nobody has approved."""
_MARK = "(changed since it was approved)"

Item = tuple[str, str]
"""Something that a server says: its kind, and what the server calls it."""


class _LaterFormat(ValueError):
    """A file has the format of a later version."""


class Files(Generic[T]):
    """Values in files of JSON, each named by a hash of its key, which may have secrets.

    Args:
        folder: Where they are; without one nothing is stored.
        what: What messages call the values.
        form: What a value must be; a file that has anything else is damaged.
    """

    def __init__(self, folder: Path | None, what: str, form: TypeAdapter[T]) -> None:
        self._folder = folder
        self._what = what
        self._form = form

    def read(self, key: str, damaged: T | None = None) -> T | None:
        """Return what is stored, `None` if nothing is, and `damaged` if it can't be read, which is logged."""
        if self._folder is None:
            return None
        path = self._path(self._folder, key)
        try:
            return self._form.validate_python(self._own(json.loads(patiently(lambda: _bytes_in(path)))))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, RecursionError) as error:
            why = str(error) if isinstance(error, _LaterFormat) else type(error).__name__
            log.warning("the %s in %s can't be read: %s", self._what, path, why)
            return damaged

    def stamp(self, key: str) -> tuple[int, int] | None:
        """Return what is another after each change of what is stored; `None` if nothing is."""
        with suppress(OSError):
            found = None if self._folder is None else self._path(self._folder, key).stat()
            return None if found is None else (found.st_ino, found.st_mtime_ns)
        return None

    def _own(self, value: Any) -> Any:
        """Return a value of a file of this version; raises `_LaterFormat` for one that a later version wrote."""
        form = (table(value) or {}).get("format", FORMAT)
        if isinstance(form, int) and form > FORMAT:
            raise _LaterFormat(
                f"a later version of Toolfold wrote it (format {form}, and this one reads {FORMAT}); upgrade"
            )
        return value

    def all(self) -> list[tuple[Path, T]]:
        """Return all values that can be read, each with its file."""
        found: list[tuple[Path, T]] = []
        for path in sorted(self._folder.glob("*.json")) if self._folder is not None else ():
            with suppress(OSError, ValueError, RecursionError):
                found.append((path, self._form.validate_python(self._own(json.loads(_bytes_in(path))))))
        return found

    def write(self, key: str, value: T) -> str:
        """Store a value: all of it, or nothing where that fails, which is logged; return why it failed, if it did."""
        if self._folder is None:
            return ""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _replace(self._path(self._folder, key), _as_json(value).encode(), 0o600)
        except OSError as error:
            log.warning("the %s can't be stored in %s: %s", self._what, self._folder, error)
            return error.strerror or type(error).__name__
        return ""

    def trouble(self) -> str:
        """Return why nothing can be stored, without trying to; empty if it may well be."""
        if self._folder is None:
            return ""
        places = (self._folder, *self._folder.absolute().parents)
        place = next(path for path in places if path.exists() or path.is_symlink())  # also one that leads nowhere
        if not place.is_dir():
            return os.strerror(errno.EEXIST if place == self._folder else errno.ENOTDIR)
        return "" if os.access(place, os.W_OK | os.X_OK) else os.strerror(errno.EACCES)

    def remove(self, key: str) -> None:
        """Store nothing any more; where that fails, it is logged."""
        if self._folder is None:
            return
        path = self._path(self._folder, key)
        try:
            patiently(lambda: path.unlink(missing_ok=True))
        except NotADirectoryError:
            pass
        except OSError as error:
            log.warning("the %s can't be removed from %s: %s", self._what, self._folder, error)

    def take_over(self, older: str, key: str) -> None:
        """Have what is stored under an older key be under another one, unless something is already."""
        if self._folder is None:
            return
        before, now = (self._path(self._folder, one) for one in (older, key))
        if now.exists():
            return
        try:
            patiently(lambda: before.rename(now))
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            log.warning("the %s of an earlier version in %s can't be used: %s", self._what, self._folder, error)

    def _path(self, folder: Path, key: str) -> Path:
        return folder / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


DEPTH = 3
"""How deep the definitions are in what is stored: each is encoded by itself, since no other thread runs meanwhile."""


def as_stored(value: Any, depth: int = DEPTH) -> Any:
    """Return a value as it is once it is read from a file."""
    if depth and isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return {str(name): as_stored(one, depth - 1) for name, one in items}
    return json.loads(json.dumps(value, default=_plain))


def _as_json(value: Any, depth: int = DEPTH) -> str:
    if depth and isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return f"{{{', '.join(f'{json.dumps(str(name))}: {_as_json(one, depth - 1)}' for name, one in items)}}}"
    if depth and isinstance(value, list | tuple):
        return f"[{', '.join(_as_json(one, depth - 1) for one in cast('list[Any]', value))}]"
    return json.dumps(value, default=_plain)


def _bytes_in(path: Path) -> bytes:
    """Return what is in a file; raises `OSError`, also for a pipe, which would be waited for."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(f"{path} is not a regular file")
    return path.read_bytes()


def write_whole(path: Path, data: bytes, mode: int = 0o600, check: Callable[[], object] = lambda: None) -> None:
    """Write all of a file or nothing, through links to it; raises `OSError`.

    `check` is called when there is nothing left to do but to replace the file, and what it raises prevents that.
    """
    try:
        target = path.resolve()
    except RuntimeError as error:  # Python up to 3.12 has no other for a loop of links
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from error
    _replace(target, data, mode, check)


def _replace(target: Path, data: bytes, mode: int, check: Callable[[], object] = lambda: None) -> None:
    """Write all of a file or nothing, in the place of what is there, be it a link; raises `OSError`."""
    descriptor, name = tempfile.mkstemp(dir=target.parent)  # with the mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(name).chmod(mode)
        check()
        patiently(lambda: Path(name).replace(target))
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def patiently(use: Callable[[], T]) -> T:
    """Return what the use of a file returns; raises `OSError`.

    On Windows, a file can't be replaced or removed while another process reads it, nor read while it is replaced. That
    is over within milliseconds, so what is not permitted is tried again.
    """
    for pause in PAUSES:
        with suppress(PermissionError):
            return use()
        time.sleep(pause)
    return use()


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else repr(value)


def stored_folder(what: Literal["definitions", "approved", "tokens"]) -> Path:
    """Return where something is stored on this machine, by its conventions."""
    from platformdirs import user_cache_path, user_data_path

    return (user_cache_path if what == "definitions" else user_data_path)("toolfold") / what


# -- for the next start ------------------------------------------------------------------------------------------------


def _form(made: type, *without: str, **others: Any) -> Any:
    """Return the type of the data that a value of attrs is stored as, some of its fields as `others` say."""
    make: Any = TypedDict
    hints = get_type_hints(made)
    stored = {name: hints[name] for name in fields_dict(made) if name not in without}
    return make(made.__name__, {**stored, **others})


_NOT_STORED = ("whole", "public", "by_caller")
_FILE = _form(
    Known,
    *_NOT_STORED,
    format=Literal[1],
    definitions=_form(Definitions, *_NOT_STORED, groups=GenericAlias(tuple, (_form(OfferedGroup), ...))),
)


class DefinitionCache:
    """What upstreams offered when they were last asked; where that can't be read, they are asked instead.

    It is stored by all that decides on what answers: the command or URL, the folder, the environment and headers that
    an upstream is given, whose values are not stored, and the client that logs in. What may not be all that there is,
    such as a list without tools, is not kept for the next start.

    Args:
        folder: Where the files are; without one nothing is stored.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._files = Files(folder, "cached definitions", TypeAdapter[Any](_FILE))

    def read(self, config: UpstreamConfig) -> Known | None:
        """Return what is stored of an upstream, or `None`."""
        if (stored := self._files.read(_cache_key(config))) is None:
            return None
        known: dict[str, Any] = {name: value for name, value in stored.items() if name != "format"}
        given = known.pop("definitions")
        groups = tuple(OfferedGroup(**one) for one in given.pop("groups"))
        found = Known(definitions=Definitions(groups=groups, **given), **known)
        return found if found.complete else None

    def write(self, config: UpstreamConfig, known: Known) -> None:
        """Store what is known of an upstream; nothing if it may not be all that there is."""
        if known.complete:
            stored: Any = {"format": 1, **asdict(known, filter=lambda one, _: one.name not in _NOT_STORED)}
            self._files.write(_cache_key(config), stored)
        else:
            self._files.remove(_cache_key(config))


PROBED_SECONDS = 7 * 24 * 3600.0
"""For how long a server is not asked again for an era that it did not answer for: its version may stay the same."""


class ProbeMemory:
    """Which upstreams did not answer when they were asked for the newest era (SPEC GWY-18), until they are another one.

    It is stored as the definitions are, and by the same.

    Args:
        folder: Where the files are; without one nothing is stored.
        now: Returns the time, in seconds of the Unix epoch.
    """

    def __init__(self, folder: Path | None = None, now: Callable[[], float] = time.time) -> None:
        self._files = Files(folder, "what is known of eras", TypeAdapter[Any](_form(Probed, format=Literal[1])))
        self._now = now
        self._noted: dict[str, Probed | None] = {}

    def read(self, config: UpstreamConfig) -> Probed | None:
        """Return what is stored of an upstream, or `None`."""
        key = _probe_key(config)
        if key not in self._noted:
            stored: dict[str, Any] | None = self._files.read(key)
            self._noted[key] = None if stored is None else Probed(**{one: stored[one] for one in fields_dict(Probed)})
        found = self._noted[key]
        return found if found is not None and 0 <= self._now() - found.at < PROBED_SECONDS else None

    def note(self, config: UpstreamConfig, outcome: Outcome | None, server: tuple[str, str] | None) -> None:
        """Take note of how an upstream was reached that calls itself so.

        Args:
            config: How it is reached.
            outcome: What it did when it was asked for the newest era; `None` if it was not asked, or answered.
            server: Its name and version; `None` if it did not start.
        """
        key, before = _probe_key(config), self.read(config)
        if before is not None and before.server is None and server is not None:
            outcome = outcome or before.outcome  # it has started now that it was not asked
        if outcome is not None:
            self._noted[key] = probed = Probed(outcome=outcome, server=server, at=self._now())
            self._files.write(key, {"format": 1, **asdict(probed)})
        elif before is not None and before.server != (server or before.server):
            self.forget(config)

    def forget(self, config: UpstreamConfig) -> None:
        """Have an upstream be asked again."""
        self._noted[_probe_key(config)] = None
        self._files.remove(_probe_key(config))


def _probe_key(config: UpstreamConfig) -> str:
    return f"era of {_cache_key(config)}"


def _cache_key(config: UpstreamConfig) -> str:
    """Return all that decides on what answers."""
    given = config.model_dump(include={"command", "url", "cwd", "env", "headers", "mode"})
    later = {"environment": config.environment, "client": config.oauth.client_id, "auth": config.auth}
    given |= {name: value for name, value in later.items() if value is not None}  # so that older files are found
    return json.dumps(given, sort_keys=True)


# -- what was approved -------------------------------------------------------------------------------------------------


_DAMAGED: dict[str, Any] = {}
"""Stands for approvals that can't be read: nothing is approved by them."""


@frozen(kw_only=True)
class Review:
    """What of a server's definitions is not as it was approved.

    `named` has, by their kind, the names that were approved: what they are called here does not depend on what a server
    adds later.
    """

    changed: frozenset[Item] = frozenset()
    named: Mapping[str, tuple[str, ...]] = field(factory=dict[str, tuple[str, ...]])


class Approvals:
    """The approved definitions, one file for each entry of a configuration (see `Entry`).

    What a server lists to one caller alone can't be asked for by anybody else, so that what has changed of it is stored
    as it is now, for whoever approves it.

    Args:
        folder: Where the files are; see `stored_folder`.
        serving: Whether a server that is seen first is approved: where somebody only looks, nothing is stored.
    """

    def __init__(self, folder: Path, *, serving: bool = True) -> None:
        self._files = Files(folder, "approved definitions", TypeAdapter(dict[str, Any]))
        self._waiting = Files(folder / WAITING, "changed definitions", TypeAdapter(dict[str, Any]))
        self._serving = serving
        self._unstored: dict[str, dict[str, Any]] = {}
        self._problems: dict[str, str] = {}

    def changed(self, entry: Entry, definitions: Definitions, *, quarantine: bool = False) -> frozenset[Item]:
        """Return what changed since it was approved; see `review`."""
        return self.review(entry, definitions, quarantine=quarantine).changed

    def review(self, entry: Entry, definitions: Definitions, *, quarantine: bool = False) -> Review:
        """Return what changed since it was approved: nothing of a server that is seen first.

        Where that can't be stored, all of it under `quarantine` (SPEC ISO-3): the next look would be the first one
        again. Otherwise it is remembered until the process ends.
        """
        now, key = _said(definitions), _approval_key(entry)
        approved = self._read(entry, now)
        if approved is None and self._serving:
            first = self._unstored.setdefault(key, as_stored(now))  # what is seen now may be later than the first look
            stored = not self._store(entry, first)
            approved = _DAMAGED if quarantine and not stored else first
        elif approved is None:
            why = self._files.trouble()
            self._note(entry, why and f"can't be stored ({why})")
            approved = _DAMAGED if quarantine and why else None
        if approved is None or approved == now:
            return Review(named=_named(approved or now))  # as nearly always, without the time that the next line takes
        now = as_stored(now)
        changed = _changed(approved, now)
        if changed and entry.whose and self._serving:
            self._have_wait(entry, now)
        return Review(changed=changed, named=_named(approved))

    # -- of what is listed to one caller alone ------------------------------------------------------------------------

    def _have_wait(self, entry: Entry, now: Mapping[str, Any]) -> None:
        """Store what a caller is listed now, until somebody has approved it."""
        waiting = {"entry": _named_entry(entry), "whose": entry.whose, "said": now}
        key = _approval_key(entry)
        if self._waiting.read(key) != waiting:
            self._waiting.write(key, waiting)

    def waiting(self, entry: Entry) -> dict[str, dict[Item, list[str]]]:
        """Return what changed of what an entry's callers are listed, each his own, by whose it is; see `difference`."""
        found: dict[str, dict[Item, list[str]]] = {}
        for _, one in self._waiting.all():
            if one.get("entry") == _named_entry(entry):
                own, now = entry.of(str(one["whose"])), table(one["said"]) or {}
                approved = self._read(own, now) or {}
                if changed := sorted(_changed(approved, now)):
                    found[own.whose] = {item: _difference(_at(approved, item), _at(now, item)) for item in changed}
        return found

    def approve_waiting(self, entry: Entry) -> str:
        """Approve what the callers of an entry are listed, as it was stored; return why that can't be, if it can't."""
        for _, one in self._waiting.all():
            if one.get("entry") == _named_entry(entry):
                own = entry.of(str(one["whose"]))
                if why := self._store(own, one["said"]):
                    return why
                self._waiting.remove(_approval_key(own))
        return ""

    def trouble(self) -> str:
        """Return why nothing that is approved can be stored; empty if it may well be."""
        return self._files.trouble()

    def problem(self, entry: Entry) -> str:
        """Return why what is approved of a server can't be stored or read: a clause, empty if it can."""
        return self._problems.get(_approval_key(entry), "")

    def difference(self, entry: Entry, definitions: Definitions) -> dict[Item, list[str]]:
        """Return the lines of all that changed since it was approved.

        Those that it had begin with `-`, those that it has now with `+`, as in a unified diff.
        """
        now = as_stored(_said(definitions))
        approved = self._read(entry, now) or {}
        changed = sorted(self.changed(entry, definitions))
        return {item: _difference(_at(approved, item), _at(now, item)) for item in changed}

    def approve(self, entry: Entry, definitions: Definitions) -> str:
        """Approve all that a server says as it is now; return why it can't be stored, if it can't."""
        return self._store(entry, as_stored(_said(definitions)))

    def _store(self, entry: Entry, said: dict[str, Any]) -> str:
        why = self._files.write(_approval_key(entry), said)
        self._note(entry, why and f"can't be stored ({why})")
        if not why:
            self._unstored.pop(_approval_key(entry), None)
        return why

    def _read(self, entry: Entry, now: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the approved definitions, none of them if they can't be read, or `None` if there is no file.

        What was approved by its command or URL alone, before entries were told apart, counts for each of them, but for
        the server's name, which was not among it.
        """
        approved = self._files.read(_approval_key(entry), damaged=_DAMAGED)
        if approved is None and not entry.whose:
            approved = self._files.read(_older_key(entry), damaged=_DAMAGED)
            if approved:
                name = {key: one for key, one in now[TEXT].items() if key == "name"}
                approved = {**approved, TEXT: {**(table(approved.get(TEXT)) or {}), **name}}
        if approved is _DAMAGED:
            self._note(entry, "can't be read")
        elif approved is not None:
            self._note(entry, "")
        return approved

    def _note(self, entry: Entry, problem: str) -> None:
        self._problems[_approval_key(entry)] = problem


def _named(said: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {kind: tuple(table(said.get(kind)) or {}) for kind in KINDS}


def reviewed(offered: Usable, changed: frozenset[Item], *, quarantine: bool) -> Usable:
    """Return what of an upstream's definitions is served, with a sentence for each that changed since it was approved.

    Under quarantine what changed is left out, otherwise it is marked.
    """
    if not changed:
        return offered
    by_kind: dict[Kind, dict[str, Table]] = {
        kind: {
            name: _marked(kind, definition) if (kind, name) in changed else definition
            for name, definition in offered.by_kind[kind].items()
            if not quarantine or (kind, name) not in changed
        }
        for kind in KINDS
    }
    texts: dict[str, Any] = {
        name: ("" if name == "name" else None) if quarantine else f"{_MARK} {getattr(offered.said, name)}"
        for name in TEXTS
        if (TEXT, name) in changed
    }
    groups = [
        _reviewed_group(one, quarantine=quarantine) if (GROUP, one.name) in changed else one
        for one in offered.said.groups
    ]
    served = [
        *((kind, name) for kind in KINDS for name in offered.by_kind[kind]),
        *((TEXT, name) for name in texts),
        *((GROUP, one.name) for one in groups),
    ]
    treated = "withheld" if quarantine else "marked"
    warnings = [
        f"The {words_for(item)} has not been approved as it is now, and is {treated} until `toolfold approve`."
        for item in served
        if item in changed
    ]
    said = evolve(offered.said, groups=tuple(groups), **texts)
    return evolve(offered, said=said, by_kind=by_kind, warnings=(*offered.warnings, *warnings))


def _reviewed_group(group: OfferedGroup, *, quarantine: bool) -> OfferedGroup:
    if quarantine:
        return OfferedGroup(name=group.name, parent=group.parent, tools=group.tools)
    marked: dict[str, Any] = {name: f"{_MARK} {text}" for name in GROUP_TEXTS if (text := getattr(group, name))}
    return evolve(group, **marked)


def words_for(item: Item) -> str:
    """Return what to call something that a server says: its kind and its name."""
    kind, name = item
    return f"{kind.replace('_', ' ')} {name!r}"


def _marked(kind: Kind, definition: Table) -> Table:
    """Return a definition that says that it has changed; a tool's has no hints, by which it could count as reading."""
    marked: dict[str, Any] = {**definition, "_meta": {**(table(definition.get("_meta")) or {}), CHANGED: True}}
    if kind == "tool" and (annotations := table(definition.get("annotations"))) is not None:
        marked["annotations"] = {key: one for key, one in annotations.items() if key not in HINTS}
    return marked


def _said(definitions: Definitions) -> dict[str, dict[str, Any]]:
    """Return all that a server says, by its kind and name."""
    texts = {name: text for name in TEXTS if (text := getattr(definitions, name))}
    groups = {one.name: {name: getattr(one, name) for name in GROUP_TEXTS} for one in definitions.groups}
    said: dict[str, Any] = {TEXT: texts, GROUP: groups, **{kind: definitions.by_name(kind) for kind in KINDS}}
    for uri, resource in said["resource"].items():  # how many bytes it has, which is a number, says nothing to a model
        said["resource"][uri] = {key: value for key, value in resource.items() if key != "size"}
    return said


def _approval_key(entry: Entry) -> str:
    """Return what approvals are stored under: what was approved of one entry does not pass for another."""
    return json.dumps([*_named_entry(entry), *([entry.whose] if entry.whose else [])])


def _named_entry(entry: Entry) -> list[Any]:
    upstream = entry.upstream
    command = None if upstream.command is None else list(upstream.command)
    return [entry.place, entry.name, command, upstream.url, upstream.cwd]


def _changed(approved: Mapping[str, Any], now: Mapping[str, Any]) -> frozenset[Item]:
    items = ((kind, name) for kind, named in now.items() for name in table(named) or {})
    return frozenset(item for item in items if _at(approved, item) != _at(now, item))


def _older_key(entry: Entry) -> str:
    """Return what they were stored under before entries were told apart."""
    return json.dumps([entry.upstream.command, entry.upstream.url, entry.upstream.cwd])


def _at(said: Mapping[str, Any], item: Item) -> Any:
    return (table(said.get(item[0])) or {}).get(item[1])


def _difference(before: Any, now: Any) -> list[str]:
    old, new = ([] if one is None else _visible(one).split("\n") for one in (before, now))
    return list(unified_diff(old, new, n=1, lineterm=""))[2:]


def _visible(definition: Any) -> str:
    """Return a definition or a text as lines, with escapes for characters that a reader would not see."""
    plain = isinstance(definition, str)
    text = definition if plain else json.dumps(definition, indent=2, sort_keys=True, ensure_ascii=False)
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)
