"""What sessions did, written to a file line by line, for `toolfold verify` (SPEC TRC-1).

A trace is a listener to the stream of events, and a store around the one that sessions are in. Each step of a session
that ended has a line, each change of a record one before it: numbers of groups, outcomes, versions and leases. There
are no arguments, no results and no facts in it, but digests of records, which have facts in them.

    trace = Trace(Path("trace.jsonl"))
    stop = trace.listen(tools)
    server = build_server(tools, store=trace.around(store))

Lines
-----
    {"toolfold": "trace", "format": 2, "by": …}   how a file begins, and how it goes on after a new start
    {"catalog": digest, "groups": …}              groups, exclusion sets, hooks and limits, before they are referred to
    {"by": …, "session": …, "what": …, …}         a step: what was asked for, planned, run, and where it ended
    {"by": …, "key": …, "op": …, "gave": …}       an operation of the store that changed a record, or was refused
    {"by": …, "opened": …} {"by": …, "ended": …}  a session
    {"by": …, "lost": …}                          lines that could not be written
    {"by": …, "closed": true}                     the end of what a process wrote

A set of groups is a hexadecimal number whose bits are theirs, in the order of the catalog's line. A hook has its phase,
its group, the phase that it undoes, how it ended if not well (`failed`, `cancelled`, or `lost` with its lease), and
when. What a refusal is about has the numbers of its groups, as `of`. `data` is what was written to a record, or found
there: a digest of its text, its open groups, and the changes of lists that its client is still to be notified of.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import stat
import sys
import time
from asyncio import CancelledError
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from errno import EEXIST
from hashlib import sha256
from json.encoder import encode_basestring_ascii as quoted
from pathlib import Path
from typing import TypeVar
from weakref import WeakKeyDictionary

from toolfold import (
    Catalog,
    Created,
    ExclusionConflict,
    Group,
    HookFailed,
    Lease,
    LeaseLost,
    ParentInactive,
    Place,
    QuotaExceeded,
    Record,
    Snapshot,
    Store,
    ToolSet,
    events,
)
from toolfold.spi import is_failure

log = logging.getLogger("toolfold.trace")

FORMAT = 2
"""The form of the lines."""
MOST = 256 * 1024 * 1024
"""How many bytes a file has at most. What is written then begins a new one; the old one has the suffix `.1`."""

_KINDS = (
    events.Stepped,
    events.Committed,
    events.HookBegan,
    events.HookEnded,
    events.SessionOpened,
    events.SessionEnded,
)
UNKNOWN, INTERRUPTED = "unknown", "interrupted"
"""What an operation gave that was not answered, and one whose caller was cancelled meanwhile."""
_Hook = list[str | float | None]
T = TypeVar("T")


class Trace:
    """Writes what the sessions of tool sets do to a file.

    A disk that is full stops nothing: lines are left out until there is room, and their number is written then.

    Args:
        file: The file, to which is appended.
        most: How many bytes it has at most; twice as many are on the disk.
        now: Returns the time in seconds.
        by: What this process is called in lines; drawn unless given.

    Raises:
        OSError: The file can't be written, or has something else than a trace.
    """

    def __init__(
        self, file: Path, most: int = MOST, now: Callable[[], float] = time.time, by: str | None = None
    ) -> None:
        self.file = file
        self._most = most
        self.now = now
        self._by = by or secrets.token_hex(3)
        self._begin = f'{{"by":"{self._by}",'
        self._digests: WeakKeyDictionary[Catalog, str] = WeakKeyDictionary()
        self._written: dict[str, str] = {}
        self._hooks: dict[str, list[_Hook]] = {}
        self._lists: dict[str, str] = {}
        self._descriptor: int | None = None
        self._size = 0
        self._lost = 0
        self._continues = False
        begins = _begin_of(file) if file.is_file() else ()
        if begins and not any(line.startswith(_TRACE) or b'"lost":' in line for line in begins):
            raise FileExistsError(EEXIST, "it has something else than a trace; name another file")
        if any(line.startswith(_TRACE) and _FORMAT not in line for line in begins):
            self._begin_anew()
        else:
            self._open()

    def listen(self, tools: ToolSet) -> Callable[[], None]:
        """Write what the sessions of a tool set do from now on; return what ends that."""
        return tools.observers.add(self._observe, _KINDS)

    def around(self, store: Store) -> Store:
        """Return a store that does what another does, and has its operations written."""
        return TracedStore(store, self)

    def close(self) -> None:
        """Close the file. What happens afterwards is not written."""
        self.write(f'{self._begin}"closed":true}}')
        self.abandon()

    def abandon(self) -> None:
        """Close the file without a line on that, as the end of a process does."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None

    # -- events -------------------------------------------------------------------------------------------------------

    def _observe(self, event: events.Event | events.Trace | events.Stepped) -> None:
        if isinstance(event, events.Stepped):
            self._stepped(event)
        elif isinstance(event, events.HookBegan):
            self._hooks.setdefault(event.session, []).append([event.phase, event.group, event.undoes])
        elif isinstance(event, events.HookEnded):
            if begun := self._hooks.get(event.session):
                begun[-1] += [_how(event.error), round(self.now(), 3)]
        elif isinstance(event, events.Committed):
            self._lists[event.session] = " ".join(sorted(event.change.lists))
        elif isinstance(event, events.SessionOpened):
            self.write(f'{self._begin}"opened":{quoted(event.session)}}}')
        elif isinstance(event, events.SessionEnded):
            self.write(f'{self._begin}"ended":{quoted(event.session)}}}')

    def _stepped(self, event: events.Stepped) -> None:
        after = event.after
        digest = self._digests.get(after.catalog) or self._digest(after.catalog)
        parts = [f'"at":{self.now():.3f},"session":{quoted(event.session)},"what":"{event.what}"']
        if (request := event.request) is not None:
            index = (event.plans[-1].before if event.plans else after).catalog.index
            parts.append(_asked("open", request.activate, index))
            parts.append(_asked("close", request.deactivate, index))
        if event.force:
            parts.append('"force":true')
        plans = ",".join([self._planned(one) for one in event.plans])
        parts.append(f'"plans":[{plans}],"events":"{" ".join(event.events)}"')
        if hooks := [one for one in self._hooks.pop(event.session, ()) if one[0] != "resume"]:
            parts.append(f'"hooks":{_compact(hooks)}')
        parts.append(f'"ended":"{event.ended}","catalog":"{digest}","after":{_state(after)}')
        if event.version is not None:
            parts.append(f'"version":{event.version}')
        if event.is_shared:
            parts.append('"shared":true')
        if event.is_interrupted:
            parts.append('"interrupted":true')
        if lists := self._lists.pop(event.session, ""):
            parts.append(f'"lists":"{lists}"')
        if (error := event.error) is not None:
            parts.append(f'"error":"{type(error).__name__}"')
            if of := _about(error):
                parts.append(_asked("of", of, event.plans[-1].before.catalog.index if event.plans else {}))
        self.write(f"{self._begin}{','.join(parts)}}}")

    def _planned(self, one: events.Planning) -> str:
        before, plan = one.before, one.plan
        digest = self._digests.get(before.catalog) or self._digest(before.catalog)
        changes = "null" if plan is None else f'["{plan.activated:x}","{plan.deactivated:x}"]'
        inherited = f',"{before.catalog.forest.mask(one.inherited):x}"' if one.inherited else ""
        return f'["{digest}",{_state(before)},{one.version},{changes}{inherited}]'

    def _digest(self, catalog: Catalog) -> str:
        """Write what a catalog is, unless the file has it, and return its digest."""
        text = _compact(described(catalog))[1:-1]
        digest = sha256(text.encode()).hexdigest()[:12]
        self._digests[catalog] = digest
        if digest not in self._written:
            self._written[digest] = line = f'{{"catalog":"{digest}",{text}}}'
            self.write(line)
        return digest

    # -- the file -----------------------------------------------------------------------------------------------------

    def operation(self, key: str, operation: str, gave: object, began: float, given: Mapping[str, object]) -> None:
        """Write an operation of a store, with what it was given and gave, and when it began and ended."""
        at = self.now()
        asked = "".join([f',"{name}":{_compact(value)}' for name, value in given.items()])
        head = f'{self._begin}"at":{at:.6f},"key":{quoted(key)},"op":"{operation}"'
        self.write(f'{head}{asked},"gave":{_compact(gave)},"took":{at - began:.6f}}}')

    def write(self, line: str) -> None:
        """Write a line, or count it as one that is lost."""
        if self._descriptor is None:
            return
        data = f"{line}\n".encode()
        if self._size + len(data) > self._most:
            self._begin_anew()
        self._put(data)

    def _put(self, data: bytes) -> None:
        if self._descriptor is None:
            return
        if self._lost:
            data = f'\n{self._begin}"lost":{self._lost}}}\n'.encode() + data
        try:
            written = os.write(self._descriptor, data)
            self._size += written
            if written < len(data):
                raise OSError("the line could not be written whole")
            self._lost = 0
        except OSError as error:
            if not self._lost:
                log.error("what sessions do can't be written to %s, and is left out: %s", self.file, error)
            self._lost += 1
            self._written, self._digests = {}, WeakKeyDictionary()  # which may be what is lost

    def _open(self) -> None:
        self._descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _EXACT | _AT_ONCE, 0o600)
        found = os.fstat(self._descriptor)
        self._size = found.st_size
        if sys.platform != "win32" and stat.S_ISREG(found.st_mode):
            os.fchmod(self._descriptor, 0o600)
        used = {*self._digests.values()}
        self._written = {digest: line for digest, line in self._written.items() if digest in used}
        continues = ',"continues":true' if self._continues else ""
        self._continues = True
        torn = stat.S_ISREG(found.st_mode) and self._size and not _ends_a_line(self.file)
        begin = f'{{"toolfold":"trace","format":{FORMAT},"by":"{self._by}"{continues}}}'
        lines = "".join(f"{line}\n" for line in (begin, *self._written.values()))
        self._put(f"\n{lines}".encode() if torn else lines.encode())

    def _begin_anew(self) -> None:
        """Go on in a new file, in place of the one before the last: this one is full, or has an older format."""
        self._size = 0
        self.abandon()
        try:
            self.file.replace(self.file.with_name(f"{self.file.name}.1"))
        except OSError as error:
            log.error("%s is to be followed by another, and can't be renamed: %s", self.file, error)
        try:
            self._open()
        except OSError as error:
            log.error("what sessions do is written no more, since %s can't be opened: %s", self.file, error)


def _begin_of(file: Path) -> Sequence[bytes]:
    """Return the first two lines of a file, since the first one of a trace may be lost; none if it is empty."""
    with file.open("rb") as opened:
        first = opened.read(4096).split(b"\n")[:2]
    return () if first == [b""] else first


def _ends_a_line(file: Path) -> bool:
    """Return whether a file that has something ends in a line break, as one of a process that was killed may not."""
    with file.open("rb") as opened:
        opened.seek(-1, os.SEEK_END)
        return opened.read(1) == b"\n"


def _how(error: BaseException | None) -> str | None:
    """Return how a hook ended, if not well."""
    if error is None:
        return None
    return "lost" if isinstance(error, LeaseLost) else "failed" if is_failure(error) else "cancelled"


def _about(error: BaseException) -> Sequence[str]:
    """Return the groups that an error is about."""
    match error:
        case ParentInactive():
            return (error.group, error.parent)
        case ExclusionConflict():
            return error.groups
        case HookFailed():
            return (error.group,)
        case _:
            return ()


_TRACE, _FORMAT = b'{"toolfold":"trace"', f'"format":{FORMAT},'.encode()
_compact = json.JSONEncoder(separators=(",", ":")).encode
_EXACT = getattr(os, "O_BINARY", 0)
_AT_ONCE = getattr(os, "O_NONBLOCK", 0)
"""Has a pipe that nobody reads be an error, and not be waited for."""


def _asked(name: str, paths: Iterable[str], index: Mapping[str, int]) -> str:
    """Return groups by their numbers, and -1 for one that does not exist: its name is what a caller has said."""
    return f'"{name}":[{",".join([str(index.get(path, -1)) for path in paths])}]'


def _state(snapshot: Snapshot) -> str:
    """Return a state: its groups, and their order where that matters."""
    now = snapshot.configuration
    if not now.order:
        return f'"{now.active:x}"'
    return f"[{','.join(map(str, now.order))}]"


def described(catalog: Catalog) -> dict[str, object]:
    """Return what steps depend on in a catalog, as JSON."""
    forest, quota = catalog.forest, catalog.quota
    hooks = {str(number): _phases(group) for number, group in enumerate(catalog.groups) if group.has_hooks}
    about: dict[str, object] = {
        "groups": list(forest.paths),
        "exclusions": sorted(sorted(map(forest.number, one)) for one in forest.exclusions),
    }
    if hooks:
        about["hooks"] = hooks
    if forest.ordered:
        about["evicts"] = True
    pinned = [number for number, group in enumerate(catalog.groups) if group.pinned]
    if pinned:
        about["pinned"] = pinned
    for name, cap in (("count", quota and quota.count), ("length", quota and quota.length)):
        if cap:
            about[name] = {"most": cap.most, "base": cap.base, "weights": list(cap.weights)}
    return about


def _phases(group: Group) -> list[str]:
    """Return the phases that a group has hooks for, and what else of its hooks a step depends on."""
    known = [phase for phase in ("on_activate", "on_deactivate") if getattr(group, phase) is not None]
    if group.on_rollback is not None:
        known.append("on_rollback" if group.on_rollback else "no_rollback")
    if group.has_hooks_in_threads:
        known.append("in_thread")
    return known


class TracedStore:
    """A store whose operations are written to a trace; see `Store`."""

    def __init__(self, store: Store, trace: Trace) -> None:
        self.lease = store.lease
        self._store = store
        self._trace = trace
        self._versions: dict[str, int] = {}

    async def _written(self, doing: Awaitable[T], key: str, operation: str, **given: object) -> T:
        """Await an operation, and write what it gave; where that is not known, it may have been done."""
        began = self._trace.now()
        try:
            gave = await doing
        except BaseException as error:
            gave_up = INTERRUPTED if isinstance(error, CancelledError) else UNKNOWN
            self._trace.operation(key, operation, gave_up, began, given)
            raise
        self._trace.operation(key, operation, _as_given(gave), began, given)
        return gave

    async def create(self, key: str, data: object, place: Place, lifetime: float) -> Created:
        """Create a record."""
        doing = self._store.create(key, data, place, lifetime)
        created = await self._written(doing, key, "create", data=_said(data))
        if isinstance(created, int):
            self._versions[key] = created
        return created

    async def read(self, key: str) -> Record | None:
        """Return a record; one that has another version than before is written."""
        began = self._trace.now()
        record = await self._store.read(key)
        if record is None:
            self._versions.pop(key, None)
        elif self._versions.get(key) != record.version:
            self._versions[key] = record.version
            self._trace.operation(key, "read", record.version, began, {"data": _said(record.data)})
        return record

    async def swap(self, key: str, version: int, data: object, token: int | None = None) -> int | None:
        """Replace the data."""
        doing = self._store.swap(key, version, data, token)
        after = await self._written(doing, key, "swap", version=version, token=token, data=_said(data))
        if after is not None:
            self._versions[key] = after
        return after

    async def acquire(self, key: str, seconds: float, version: int = 0, intent: str | None = None) -> Lease | None:
        """Return the lease of a record."""
        doing = self._store.acquire(key, seconds, version, intent)
        return await self._written(doing, key, "acquire", seconds=seconds, version=version, intent=intent)

    async def intend(self, key: str, intent: str | None, token: int) -> bool:
        """Replace the intent."""
        return await self._written(self._store.intend(key, intent, token), key, "intend", intent=intent, token=token)

    async def renew(self, key: str, token: int, seconds: float) -> bool:
        """Put off the end of a lease."""
        return await self._written(self._store.renew(key, token, seconds), key, "renew", token=token, seconds=seconds)

    async def release(self, key: str, token: int) -> None:
        """Release a lease."""
        await self._written(self._store.release(key, token), key, "release", token=token)

    async def delete(self, key: str, token: int) -> bool:
        """Delete a record."""
        self._versions.pop(key, None)
        return await self._written(self._store.delete(key, token), key, "delete", token=token)

    async def due(self, kind: str, count: int) -> Sequence[str]:
        """Return keys of records that have expired, or that were left."""
        return await self._store.due(kind, count)

    async def idlest(self, kind: str, caller: str | None) -> str | None:
        """Return the key of the record that was used least recently."""
        return await self._store.idlest(kind, caller)

    async def expiry(self, kind: str, caller: str | None, *, own: bool) -> float | None:
        """Return the seconds until a record expires."""
        return await self._store.expiry(kind, caller, own=own)

    def changes(self) -> AsyncGenerator[str | None]:
        """Yield the keys of records that change."""
        return self._store.changes()

    async def aclose(self) -> None:
        """Close the store."""
        await self._store.aclose()


def _as_given(gave: object) -> object:
    if isinstance(gave, Lease):
        return [gave.token, gave.record.version, gave.record.intent, _said(gave.record.data)]
    return gave


def _said(data: object) -> dict[str, object]:
    """Return what a record's data says, as far as it is written; nothing of what no engine could have as a text."""
    try:
        text = str(data)
    except QuotaExceeded:
        return {}
    said: dict[str, object] = {"digest": sha256(text.encode()).hexdigest()[:12]}
    with suppress(ValueError, LookupError, TypeError, RecursionError):  # which is damaged, or of another version
        found = json.loads(text)
        beside = found["beside"]
        said["open"] = found["active"]
        if beside["notifies"]:
            said["pending"] = [" ".join(kinds) for kinds in beside["pending"]]
    return said
