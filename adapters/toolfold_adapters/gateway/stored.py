"""What a gateway stores of its servers on this machine, readable only for its owner (SPEC GWY-4, GWY-8, GWY-11).

The definitions that a server had when it was last asked are there for the next start. What a server says to models can
change after somebody looked at it: so each definition, and each text of the server's own, is stored as it was approved,
when the server is first seen. One that is another now, or that was not there, has changed, until `toolfold approve`,
which shows the difference.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from difflib import unified_diff
from pathlib import Path
from types import GenericAlias
from typing import Any, Generic, Literal, TypeVar, cast, get_type_hints

from attrs import asdict, evolve
from pydantic import BaseModel, TypeAdapter
from typing_extensions import TypedDict

from toolfold.spi import KINDS, Kind, table

from ..mcp.offered_groups import OfferedGroup
from .config.settings import UpstreamConfig
from .upstream.definitions import Definitions, Known, Table, Usable

log = logging.getLogger("toolfold.gateway")

T = TypeVar("T")
CHANGED = "dev.toolfold/changed"
"""Marks a definition that changed since it was approved (SPEC GWY-11)."""
TEXT = "server text"
"""The kind of the introduction of a server."""
TEXTS = ("title", "instructions")
GROUP = "group"
"""The kind of what a server says of its groups."""
GROUP_TEXTS = ("title", "description", "instructions")
PAUSES = (0.01, 0.02, 0.04, 0.08)
"""Seconds between two attempts to use a file that another process uses."""
_MARK = "(changed since it was approved)"

Item = tuple[str, str]
"""Something that a server says: its kind, and what the server calls it."""


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
            return self._form.validate_python(json.loads(patiently(path.read_bytes)))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, RecursionError) as error:
            log.warning("the %s in %s can't be read: %s", self._what, path, type(error).__name__)
            return damaged

    def write(self, key: str, value: T) -> None:
        """Store a value: all of it, or nothing where that fails, which is logged."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(self._path(self._folder, key), json.dumps(value, default=_plain).encode())
        except OSError as error:
            log.warning("the %s can't be stored in %s: %s", self._what, self._folder, error)

    def _path(self, folder: Path, key: str) -> Path:
        return folder / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def as_stored(value: Any) -> Any:
    """Return a value as it is once it is read from a file."""
    return json.loads(json.dumps(value, default=_plain))


def write_whole(path: Path, data: bytes, mode: int = 0o600, check: Callable[[], object] = lambda: None) -> None:
    """Write all of a file or nothing, through links to it; raises `OSError`.

    `check` is called when there is nothing left to do but to replace the file, and what it raises prevents that.
    """
    target = path.resolve()
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


def _form(made: type, **others: Any) -> Any:
    """Return the type of the data that a value of attrs is stored as, some of its fields as `others` say."""
    make: Any = TypedDict
    return make(made.__name__, {**get_type_hints(made), **others})


_FILE = _form(
    Known, format=Literal[1], definitions=_form(Definitions, groups=GenericAlias(tuple, (_form(OfferedGroup), ...)))
)


class DefinitionCache:
    """What upstreams offered when they were last asked; where that can't be read, they are asked instead.

    It is stored by all that decides on what answers: the command or URL, the folder, and the environment and headers
    that an upstream is given, whose values are not stored.

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
        return Known(definitions=Definitions(groups=groups, **given), **known)

    def write(self, config: UpstreamConfig, known: Known) -> None:
        """Store what is known of an upstream."""
        stored: Any = {"format": 1, **asdict(known)}
        self._files.write(_cache_key(config), stored)


def _cache_key(config: UpstreamConfig) -> str:
    """Return all that decides on what answers."""
    given = config.model_dump(include={"command", "url", "cwd", "env", "headers", "mode"})
    return json.dumps(given, sort_keys=True)


# -- what was approved -------------------------------------------------------------------------------------------------


class Approvals:
    """The approved definitions, one file for each server.

    Args:
        folder: Where the files are; see `stored_folder`.
        serving: Whether a server that is seen first is approved: where somebody only looks, nothing is stored.
    """

    def __init__(self, folder: Path, *, serving: bool = True) -> None:
        self._files = Files(folder, "approved definitions", TypeAdapter(dict[str, Any]))
        self._serving = serving

    def changed(self, upstream: UpstreamConfig, definitions: Definitions) -> frozenset[Item]:
        """Return what changed since it was approved: nothing of a server that is seen first."""
        approved = self._read(upstream)
        if approved is None:
            if self._serving:
                self.approve(upstream, definitions)
            return frozenset()
        now = _said(definitions)
        if approved == now:
            return frozenset()  # as nearly always, without the time that the next line takes
        now = as_stored(now)
        items = ((kind, name) for kind, named in now.items() for name in named)
        return frozenset(item for item in items if _at(approved, item) != _at(now, item))

    def difference(self, upstream: UpstreamConfig, definitions: Definitions) -> dict[Item, list[str]]:
        """Return the lines of all that changed since it was approved.

        Those that it had begin with `-`, those that it has now with `+`, as in a unified diff.
        """
        approved, now = self._read(upstream) or {}, as_stored(_said(definitions))
        changed = sorted(self.changed(upstream, definitions))
        return {item: _difference(_at(approved, item), _at(now, item)) for item in changed}

    def approve(self, upstream: UpstreamConfig, definitions: Definitions) -> None:
        """Approve all that a server says as it is now; a file that can't be written is logged."""
        self._files.write(_approval_key(upstream), as_stored(_said(definitions)))

    def _read(self, upstream: UpstreamConfig) -> Mapping[str, Any] | None:
        """Return the approved definitions, none of them if they can't be read, or `None` if there is no file."""
        return self._files.read(_approval_key(upstream), damaged={})


def reviewed(offered: Usable, changed: frozenset[Item], *, quarantine: bool) -> Usable:
    """Return what of an upstream's definitions is served, with a sentence for each that changed since it was approved.

    Under quarantine what changed is left out, otherwise it is marked.
    """
    by_kind: dict[Kind, dict[str, Table]] = {
        kind: {
            name: _marked(definition) if (kind, name) in changed else definition
            for name, definition in offered.by_kind[kind].items()
            if not quarantine or (kind, name) not in changed
        }
        for kind in KINDS
    }
    texts: dict[str, Any] = {
        name: None if quarantine else f"{_MARK} {getattr(offered.said, name)}"
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
    return Usable(said=said, by_kind=by_kind, warnings=(*offered.warnings, *warnings))


def _reviewed_group(group: OfferedGroup, *, quarantine: bool) -> OfferedGroup:
    if quarantine:
        return OfferedGroup(name=group.name, parent=group.parent, tools=group.tools)
    marked: dict[str, Any] = {name: f"{_MARK} {text}" for name in GROUP_TEXTS if (text := getattr(group, name))}
    return evolve(group, **marked)


def words_for(item: Item) -> str:
    """Return what to call something that a server says: its kind and its name."""
    kind, name = item
    return f"{kind.replace('_', ' ')} {name!r}"


def _marked(definition: Table) -> Table:
    return {**definition, "_meta": {**(table(definition.get("_meta")) or {}), CHANGED: True}}


def _said(definitions: Definitions) -> dict[str, dict[str, Any]]:
    """Return all that a server says, by its kind and name."""
    texts = {name: text for name in TEXTS if (text := getattr(definitions, name))}
    groups = {one.name: {name: getattr(one, name) for name in GROUP_TEXTS} for one in definitions.groups}
    said: dict[str, Any] = {TEXT: texts, GROUP: groups, **{kind: definitions.by_name(kind) for kind in KINDS}}
    for uri, resource in said["resource"].items():  # how many bytes it has, which is a number, says nothing to a model
        said["resource"][uri] = {key: value for key, value in resource.items() if key != "size"}
    return said


def _approval_key(upstream: UpstreamConfig) -> str:
    """Return what a server's approvals are stored under: it stays while the command or the address does."""
    return json.dumps([upstream.command, upstream.url, upstream.cwd])


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
