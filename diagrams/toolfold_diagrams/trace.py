"""A trace: what happened in a tool set, as plain data in the order in which it happened, to be stored and drawn later.

It says who asked for what, what was planned, which hooks ran and how they ended, what was committed or rolled back,
and which lists changed; it has no times, arguments or results. `tracing` records one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, cast, get_args

from attrs import field, fields, frozen
from attrs.validators import deep_iterable, ge, in_, instance_of, optional

from toolfold import ConfigError

VERSION = 1
ASKED = ("tool", "prompt", "resource", "resource_template", "start", "transition", "close", "set_fact", "success")
"""What can be asked of a session; see `toolfold.events.Asked`."""

_text: Any = instance_of(str)
_flag: Any = instance_of(bool)
_count: Any = [instance_of(int), ge(0)]


def _tuple(values: Any) -> Any:
    return tuple(cast("list[object]", values)) if isinstance(values, list) else values


def _texts() -> Any:
    return field(default=(), converter=_tuple, validator=deep_iterable(_text, instance_of(tuple)))


@frozen(kw_only=True)
class Asked:
    """A request: its session, what it asks for, and the request whose handler or hook made it, if one did."""

    request: int = field(validator=_count)
    session: str = field(validator=_text)
    what: str = field(validator=in_(ASKED))
    name: str = field(default="", validator=_text)
    by: int | None = field(default=None, validator=optional(_count))
    activate: tuple[str, ...] = _texts()
    deactivate: tuple[str, ...] = _texts()
    force: bool = field(default=False, validator=_flag)


@frozen(kw_only=True)
class OfRequest:
    """An entry about a request in progress."""

    request: int = field(validator=_count)


@frozen(kw_only=True)
class _Outcome(OfRequest):
    """The end of something: normal, or with an error of a type and a text."""

    error: str = field(default="", validator=_text)
    problem: str = field(default="", validator=_text)


@frozen(kw_only=True)
class Planned(OfRequest):
    """A transition was planned: the groups to activate and to deactivate."""

    activated: tuple[str, ...] = _texts()
    deactivated: tuple[str, ...] = _texts()


@frozen(kw_only=True)
class HookBegan(OfRequest):
    """A hook of a group began to run; a compensation undoes a phase."""

    group: str = field(validator=_text)
    phase: str = field(validator=_text)
    undoes: str | None = field(default=None, validator=optional(_text))


@frozen(kw_only=True)
class HookEnded(_Outcome):
    """The hook that began last in this request ended."""


@frozen(kw_only=True)
class Committed(OfRequest):
    """A transition was committed; `failures` is the number of its hooks that had failed."""

    activated: tuple[str, ...] = _texts()
    deactivated: tuple[str, ...] = _texts()
    failures: int = field(default=0, validator=_count)


@frozen(kw_only=True)
class RolledBack(OfRequest):
    """A transition was rolled back after hooks had run; the state is the one before."""


@frozen(kw_only=True)
class Answered(OfRequest):
    """A call returned a result; groups that open on its success do so after this."""

    is_error: bool = field(default=False, validator=_flag)


@frozen(kw_only=True)
class Ended(_Outcome):
    """A request ended."""


@frozen(kw_only=True)
class ListChanged:
    """Lists of a session changed; `listeners` is the number of listeners that were notified."""

    session: str = field(validator=_text)
    kinds: tuple[str, ...] = _texts()
    listeners: int = field(default=0, validator=_count)


@frozen(kw_only=True)
class SessionOpened:
    """A session began."""

    session: str = field(validator=_text)


@frozen(kw_only=True)
class SessionEnded:
    """A session ended."""

    session: str = field(validator=_text)


@frozen(kw_only=True)
class Noted:
    """Another event, of a session or of the whole tool set."""

    text: str = field(validator=_text)
    session: str | None = field(default=None, validator=optional(_text))


Entry: TypeAlias = (
    Asked
    | Planned
    | HookBegan
    | HookEnded
    | Committed
    | RolledBack
    | Answered
    | Ended
    | ListChanged
    | SessionOpened
    | SessionEnded
    | Noted
)
_ENTRIES: Mapping[str, type[Entry]] = {kind.__name__: kind for kind in get_args(Entry)}


@frozen
class Trace:
    """What happened in a tool set: its name, and entries in the order in which they happened.

    Raises:
        ConfigError: An entry is about a request that is not in progress, or a hook ends that did not begin.
    """

    name: str = field(validator=_text)
    entries: tuple[Entry, ...] = ()

    def __attrs_post_init__(self) -> None:
        under_way: dict[int, bool] = {}
        for number, entry in enumerate(self.entries):
            if problem := _problem(entry, under_way):
                raise ConfigError(f"Entry {number} of the trace of {self.name!r} does not fit: {problem}.")

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """Return the sequence diagram of the trace, for notebooks."""
        from .sequence import sequence  # which draws traces, and so imports this module

        return sequence(self).bundle()

    def dump(self) -> dict[str, Any]:
        """Return the trace as a value for `json.dumps`, and for `Trace.load`."""
        entries = [{"entry": type(entry).__name__, **_plain(entry)} for entry in self.entries]
        return {"trace": self.name, "version": VERSION, "entries": entries}

    @classmethod
    def load(cls, data: Any) -> Trace:
        """Return the trace that `dump` gave, perhaps by way of JSON.

        Raises:
            ConfigError: It is no trace, or one of another version, or damaged.
        """
        given = _mapping(data, "A trace")
        if given.get("version") != VERSION:
            raise ConfigError(f"A trace of version {VERSION} is needed, not {given.get('version')!r}.")
        name, entries = given.get("trace", given.get("story")), given.get("entries")  # the key of the first release
        if not isinstance(name, str) or not isinstance(entries, list):
            raise ConfigError('A trace has a name under "trace", and a list under "entries".')
        return cls(name, tuple(_entry(number, one) for number, one in enumerate(cast("list[object]", entries))))


def _problem(entry: Entry, under_way: dict[int, bool]) -> str | None:
    """Return what is wrong with an entry; update the requests under way, each with whether a hook of it runs."""
    if isinstance(entry, Asked):
        if entry.request in under_way:
            return f"request {entry.request} is under way already"
        under_way[entry.request] = False
    elif isinstance(entry, OfRequest):
        if entry.request not in under_way:
            return f"request {entry.request} is not under way"
        if isinstance(entry, HookEnded) is not under_way[entry.request]:
            return f"a hook of request {entry.request} {'still runs' if under_way[entry.request] else 'did not begin'}"
        under_way[entry.request] = isinstance(entry, HookBegan)
        if isinstance(entry, Ended):
            del under_way[entry.request]
    return None


def _plain(entry: Entry) -> dict[str, Any]:
    """Return an entry as a JSON value, without the attributes that have their default value."""
    given = [(attribute, getattr(entry, attribute.name)) for attribute in fields(type(entry))]
    return {attribute.name: value for attribute, value in given if value != attribute.default}


def _entry(number: int, data: Any) -> Entry:
    given = dict(_mapping(data, f"Entry {number} of a trace"))
    kind = _ENTRIES.get(str(given.pop("entry", None)))
    if kind is None:
        raise ConfigError(f"Entry {number} of a trace must be one of {', '.join(_ENTRIES)}.")
    known = [attribute.name for attribute in fields(kind)]
    try:
        return kind(**given)
    except (TypeError, ValueError) as error:
        wanted = f"a {kind.__name__} has {', '.join(known)}"
        raise ConfigError(f"Entry {number} of a trace does not fit: {wanted}, each of its own kind.") from error


def _mapping(data: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise ConfigError(f"{what} is a JSON object, not a {type(data).__name__}.")
    return cast("Mapping[str, Any]", data)
