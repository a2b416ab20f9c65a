"""Every error that Toolfold raises (SPEC ERR-1, ERR-2): one base, few leaves, data on the instance.

A message says what happened, with which names, and what to do next. No text of a foreign exception is copied
into a message: the cause stays reachable as `__cause__`. What is allowed but probably a mistake is warned of by `warn`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from heapq import nlargest
from itertools import islice, pairwise
from typing import ClassVar
from warnings import warn_explicit

from ._limits import MAX_NAME, MAX_PROBLEMS, MAX_QUOTE, enumerated, escaped, listed, quoted

_COMPARED = 20
"""How many of the known names are compared with one that is not known."""


class ToolfoldError(Exception):
    """The base of all errors of this library; their messages are texts that UTF-8 can carry.

    SPEC SAF-2.
    """

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*(escaped(one) if isinstance(one, str) else one for one in args), **options)


class InvalidName(ToolfoldError):
    """A name, or a part of one, is not allowed.

    SPEC NAM-1.
    """

    def __init__(self, name: str, part: str, problem: str) -> None:
        self.name = name
        self.part = part
        self.problem = problem
        where = "" if part == name else f" in {quoted(repr(name))}"
        super().__init__(f"{quoted(repr(part))}{where} is not a valid name: {problem}.")


class DuplicateName(ToolfoldError):
    """Something of that kind and name is registered already.

    SPEC REG-4.
    """

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        super().__init__(
            f"A {kind} named {quoted(repr(name))} is registered already; choose another name or unregister it first."
        )


class GroupNotFound(ToolfoldError):
    """No such group, as far as the caller may see.

    It suggests those that are `titled` so, if any are, or else those of the `known` with a similar path.

    SPEC ACT-1, ERR-2.
    """

    def __init__(self, group: str, known: Sequence[str] = (), titled: Sequence[str] = ()) -> None:
        self.group = group
        self.suggestions = tuple(titled[:3]) or similar(str(group), known)
        if not isinstance(group, str):  # pyright: ignore[reportUnnecessaryIsInstance] - not all code is typed
            hint = " A group is named by a text; transition(activate=[…]) changes several in one transition."
        elif self.suggestions:
            hint = f" Did you mean {' or '.join(map(repr, self.suggestions))}?"
        elif known:
            hint = f" The groups are {enumerated(known)}."
        else:
            hint = " There are no groups here."
        super().__init__(f"There is no group {quoted(repr(group))}.{hint}")


class ParentInactive(ToolfoldError):
    """A group can't be activated while an ancestor is inactive.

    SPEC ACT-2.
    """

    def __init__(self, group: str, parent: str) -> None:
        self.group = group
        self.parent = parent
        super().__init__(f"Group {group!r} can't be opened yet: open {parent!r} first.")


class ExclusionConflict(ToolfoldError):
    """Two groups exclude one another where both are asked for.

    SPEC REG-3, ACT-9.
    """

    def __init__(self, groups: Sequence[str], problem: str, session: str | None = None) -> None:
        self.groups = tuple(groups)
        self.session = session
        super().__init__(problem)


class QuotaExceeded(ToolfoldError):
    """A limit on active groups or on open sessions is reached.

    SPEC ACT-10, SES-4.
    """

    def __init__(self, what: str, limit: int, remedy: str) -> None:
        self.what = what
        self.limit = limit
        super().__init__(f"The limit of {limit} {what} is reached: {remedy}.")


class HookFailed(ToolfoldError):
    """A hook failed, so the transition did not happen; the cause is `__cause__`.

    `reason` is what callers may know of the cause, as a sentence, or `None`: a `ToolError` speaks for itself, and a
    time-out and re-entry are named; of any other exception callers learn nothing (SPEC SAF-3). `compensation` holds the
    failures met while undoing the hooks that had succeeded (SPEC HOOK-5). Where the transition was `forced`, it
    happened all the same (SPEC HOOK-8, HOOK-9).

    SPEC HOOK-4.
    """

    def __init__(
        self,
        group: str,
        phase: str,
        cause: BaseException | None = None,
        compensation: Sequence[BaseException] = (),
        *,
        forced: bool = False,
    ) -> None:
        self.group = group
        self.phase = phase
        self.reason = _reason(cause)
        self.compensation = tuple(compensation)
        self.__cause__ = cause
        outcome = "and the group was closed all the same" if forced else "so nothing was changed"
        why = "; fix its cause and try again." if self.reason is None else f". {self.reason}"
        undone = f" Undoing the earlier hooks met {len(self.compensation)} more failure(s)." if compensation else ""
        super().__init__(f"The {phase} hook of group {group!r} failed, {outcome}{why}{undone}")


class HookTimeout(ToolfoldError, TimeoutError):
    """A hook took longer than `ToolSet(hook_timeout=…)` allows, so it was given up.

    SPEC HOOK-6.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"The hook took longer than {seconds:g} s; make it faster, or hook_timeout longer.")


class ReentrantTransition(ToolfoldError):
    """A hook asked its own session for a change of state, or another one that waits for its own.

    SPEC HOOK-7.
    """

    def __init__(self, session: str, problem: str | None = None) -> None:
        self.session = session
        super().__init__(
            problem
            or f"A hook of session {session!r} asked that session for a change while its own transition is under way; "
            "do it after the transition, or in the same one with transition(activate=[...])."
        )


class ToolNotFound(ToolfoldError):
    """Unknown, unavailable and mode-hidden are one answer; `hint` is set by opt-in only.

    SPEC CALL-1.
    """

    def __init__(self, name: str, hint: str | None = None, kind: str = "tool") -> None:
        self.name = name
        self.hint = hint
        self.kind = kind
        super().__init__(f"Unknown {kind}: {quoted(str(name))}" + (f" ({hint})" if hint else ""))


class InvalidArguments(ToolfoldError):
    """Arguments do not fit the schema.

    `problems` maps a place to what is expected there, for the first few places; `more` is how many more there are.

    SPEC CALL-2.
    """

    def __init__(self, name: str, problems: Mapping[str, str], more: int = 0) -> None:
        self.name = name
        first = islice(problems.items(), MAX_PROBLEMS)
        self.problems = {quoted(place, 2 * MAX_QUOTE): quoted(problem, 2 * MAX_QUOTE) for place, problem in first}
        self.more = more + max(0, len(problems) - MAX_PROBLEMS)
        all_problems = listed(self.problems, self.more)
        super().__init__(
            f"Invalid arguments for {quoted(name)}: {all_problems}. Call it again with arguments that fit its schema."
        )


class InvalidCursor(ToolfoldError):
    """A cursor is malformed or belongs to another list.

    SPEC LST-3.
    """

    def __init__(self, cursor: str) -> None:
        self.cursor = cursor
        super().__init__("The cursor is not one of this list; list again without a cursor.")


class InvalidDefinition(ToolfoldError):
    """A definition would be wrong or break a list, so it was not registered.

    SPEC REG-6.
    """

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self.problem = problem
        super().__init__(f"{quoted(repr(name))} can't be registered: {problem}.")


class SessionClosed(ToolfoldError):
    """The session has ended or was not opened.

    SPEC SES-3.
    """

    def __init__(self, session: str, problem: str = "is not open; open a new one") -> None:
        self.session = session
        super().__init__(f"Session {session!r} {problem}.")


class HandleInvalid(ToolfoldError):
    """A handle is forged, damaged, or was made for another tool set or caller.

    SPEC DEL-3.
    """


class HandleExpired(ToolfoldError):
    """A handle has expired.

    SPEC DEL-3.
    """


class StoreError(ToolfoldError):
    """A store, or a record in it, can't be used.

    SPEC STO-5.
    """


class StoreUnavailable(StoreError):
    """A store does not answer, or not in time; what was asked may be tried again.

    SPEC STO-5.
    """

    AWAY: ClassVar = "The store of this server's sessions does not answer, so nothing was changed; try again soon."
    FULL: ClassVar = "The store of this server's sessions is full, so nothing was changed; try again later."
    """The message for callers."""


class RecordDamaged(StoreError):
    """The record of a session can't be read by any process of this version."""


class KeyInUse(StoreError):
    """There is a record of that key."""


class LeaseLost(StoreUnavailable):
    """A transition lost its lease, so it was not committed; its hooks are undone by the next one.

    SPEC STO-2.
    """

    def __init__(self) -> None:
        super().__init__(
            "The transition took longer than the store let it hold the session, so nothing was changed; try again."
        )


class ManifestError(ToolfoldError):
    """A manifest file or one of its entries can't be used.

    SPEC GRP-2.
    """

    def __init__(self, file: str, position: str, problem: str) -> None:
        self.file = file
        self.position = position
        self.problem = problem
        place = file if position == "file" else f"{file}, {position}"
        super().__init__(f"{place}: {problem}.")


class ConfigError(ToolfoldError):
    """A setting, a configuration file or a combination of them is wrong."""


class MissingExtra(ToolfoldError, ModuleNotFoundError):
    """A package that an extra of the distribution installs is missing."""

    def __init__(self, name: str, extra: str) -> None:
        self.extra = extra
        super().__init__(f'{name!r} is not installed. Install it with: pip install "toolfold[{extra}]"', name=name)


class IllegalEvent(ToolfoldError):
    """An event met a state that the transition table has no row for: a fault of the caller's driver."""

    def __init__(self, state: str, event: str) -> None:
        self.state = state
        self.event = event
        super().__init__(f"Event {event!r} can't happen in state {state!r}.")


class ToolError(ToolfoldError):
    """Raised by a handler or hook to report a failure to the model, with a message that it may read.

    SPEC CALL-3.
    """


class ProtocolError(ToolfoldError):
    """Raised by a handler to answer with an error of the protocol instead of a result; passed on unchanged.

    As a text it says what `data` has, too, such as a URL to open or a reason: in process nobody else would.
    """

    def __init__(self, code: int, message: str, data: object = None) -> None:
        self.code = code
        self.message = escaped(message)
        self.data = data
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=repr)
        super().__init__(self.message if data is None else f"{self.message}\n{escaped(text)}")


def similar(name: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return up to three names that are like one.

    To compare two takes the product of their lengths, so only those are that have the most pairs of letters in common.
    """
    if len(name) > MAX_NAME:
        return ()
    from difflib import get_close_matches  # only mistakes need it

    pairs = set(pairwise(name))
    closest = nlargest(_COMPARED, known, key=lambda one: len(pairs.intersection(pairwise(one))))
    return tuple(get_close_matches(name, closest, n=3, cutoff=0.6))


def _reason(cause: BaseException | None) -> str | None:
    """Return why a hook failed as far as callers may know, as a sentence; `None` for nothing."""
    match cause:
        case ToolError():
            text = str(cause).strip()
            return f"{text}." if text and text[-1] not in ".!?" else text or None
        case HookTimeout():
            return f"It took longer than {cause.seconds:g} s."
        case ReentrantTransition():
            return "It asked its own session for a change, or another one that waits for it."
        case _:
            return None


class ToolfoldWarning(UserWarning):
    """Something is allowed, but probably a mistake; the message says what to do instead."""


def warn(problem: str) -> None:
    """Warn of a problem at the innermost line outside of this library."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage] - as the standard library's own `warnings` does
    while frame.f_globals.get("__name__", "").partition(".")[0].startswith("toolfold") and frame.f_back is not None:
        frame = frame.f_back
    module = frame.f_globals
    place = frame.f_code.co_filename, frame.f_lineno
    seen = module.setdefault("__warningregistry__", {})
    warn_explicit(problem, ToolfoldWarning, *place, module=module.get("__name__"), registry=seen)
