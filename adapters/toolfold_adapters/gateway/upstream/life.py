"""The life of a connection to an upstream: its states, as a table, and why it failed (SPEC GWY-3, GWY-4).

`TABLE` is the program: what follows from an event in a state, under which guard, and what is done about it. `after`
looks an event up, refuses what has no row, and counts: how often in a row it went wrong, and when it may be
tried again. Nothing here knows processes, clocks or tasks: times are given, in seconds of any clock.

A connection starts when it is used. One that fails, or is lost, waits, the longer the more often in a row that
happened; then it starts again, at the next use or when its time has come, whichever is first. One that was up long
enough may start again at once; so may one whose session the server has forgotten, but not one begun in its place.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import cast

from attrs import evolve
from pydantic import ValidationError

from toolfold import ProtocolError, ToolError, ToolfoldError
from toolfold.spi import frozen

from ...transport.lines import MessageTooLarge
from ...transport.redaction import quoted_short, secrets_among, secrets_in, values_among, without
from ..config.settings import UpstreamConfig
from .awaited import AnswerLost


class State(Enum):
    """What a connection is doing."""

    IDLE = "idle"
    STARTING = "starting"
    READY = "ready"
    BACKING_OFF = "backing off"
    STOPPING = "stopping"


class Event(Enum):
    """What happens to a connection."""

    USE = "use"
    STARTED = "started"
    FAILED = "failed"
    LOST = "lost"
    FORGOTTEN = "forgotten"
    DUE = "due"
    STOP = "stop"
    STOPPED = "stopped"


class Guard(Enum):
    """Conditions on the time of an event."""

    NONE = ""
    DUE = "it may start again"
    STEADY = "it was up for long"
    SOON = "it was not up for long"
    FIRST = "its session was not begun just now in place of one that the server forgot"
    AGAIN = "its session was begun just now in place of one that the server forgot"


class Effect(Enum):
    """What is done about a change."""

    NOTHING = "nothing"
    OPEN = "a task opens it"
    CLOSE = "its task closes it"
    REPORT = "it is known why it failed"


@frozen
class Row:
    """One row of the table: under `guard`, go to `target` and do `effect`."""

    target: State
    effect: Effect = Effect.NOTHING
    guard: Guard = Guard.NONE


TABLE: Mapping[tuple[State, Event], tuple[Row, ...]] = MappingProxyType(
    {
        (State.IDLE, Event.USE): (Row(State.STARTING, Effect.OPEN),),
        (State.IDLE, Event.STOP): (Row(State.IDLE),),
        (State.STARTING, Event.USE): (Row(State.STARTING),),
        (State.STARTING, Event.STARTED): (Row(State.READY),),
        (State.STARTING, Event.FAILED): (Row(State.BACKING_OFF, Effect.REPORT),),
        (State.STARTING, Event.STOP): (Row(State.STOPPING, Effect.CLOSE),),
        (State.READY, Event.USE): (Row(State.READY),),
        (State.READY, Event.LOST): (
            Row(State.BACKING_OFF, Effect.REPORT, Guard.STEADY),
            Row(State.BACKING_OFF, Effect.REPORT, Guard.SOON),
        ),
        (State.READY, Event.FORGOTTEN): (
            Row(State.BACKING_OFF, Effect.REPORT, Guard.FIRST),
            Row(State.BACKING_OFF, Effect.REPORT, Guard.AGAIN),
        ),
        (State.READY, Event.STOP): (Row(State.STOPPING, Effect.CLOSE),),
        (State.BACKING_OFF, Event.USE): (Row(State.STARTING, Effect.OPEN, Guard.DUE),),
        (State.BACKING_OFF, Event.DUE): (Row(State.STARTING, Effect.OPEN, Guard.DUE),),
        (State.BACKING_OFF, Event.STOP): (Row(State.IDLE),),
        (State.STOPPING, Event.STOP): (Row(State.STOPPING),),
        (State.STOPPING, Event.STARTED): (Row(State.STOPPING),),
        (State.STOPPING, Event.FAILED): (Row(State.IDLE),),
        (State.STOPPING, Event.LOST): (Row(State.IDLE),),
        (State.STOPPING, Event.FORGOTTEN): (Row(State.IDLE),),
        (State.STOPPING, Event.STOPPED): (Row(State.IDLE),),
    }
)


class NotNow(ToolfoldError):
    """A connection can't do what is asked in its state."""


@frozen
class Backoff:
    """How long to wait after failures in a row, in seconds: `first`, then twice as long each time, up to `most`.

    A connection that was up for `steady` seconds before it was lost has not failed at all: it may start again at once.
    """

    first: float = 0.5
    most: float = 60.0
    steady: float = 5.0

    def delay(self, failures: int) -> float:
        """Return the wait after so many failures in a row."""
        return min(self.first * 2 ** min(failures - 1, 30), self.most) if failures else 0.0


@frozen
class Life:
    """Where a connection stands.

    Attributes:
        state: Its state.
        since: When it came into that state.
        failures: How often in a row it failed to start, or was lost soon after.
        due: When it may start again, where it backs off.
        reason: Why it failed or was lost: a clause for its operator.
        lost: Whether it was lost; else it did not start.
        renewed: Whether its session is begun in place of one that the server forgot.
    """

    state: State = State.IDLE
    since: float = 0.0
    failures: int = 0
    due: float = 0.0
    reason: str = ""
    lost: bool = False
    renewed: bool = False


def after(life: Life, event: Event, now: float, backoff: Backoff, reason: str = "") -> tuple[Life, Effect]:
    """Return where a connection stands after an event, and what is to be done; `reason` says why it failed or was lost.

    Raises:
        NotNow: The event is not one of its state, or it is used before it is due.
    """
    row = _row(life, event, now, backoff)
    if row.target is life.state:
        return life, row.effect
    if row.target is State.BACKING_OFF:
        failures = 0 if row.guard in (Guard.STEADY, Guard.FIRST) else life.failures + 1
        due = now + backoff.delay(failures)
        forgotten = event is Event.FORGOTTEN
        lost = forgotten or event is Event.LOST
        return Life(row.target, now, failures, due, reason, lost=lost, renewed=forgotten), row.effect
    if row.target is State.IDLE:
        return Life(row.target, now), row.effect
    return evolve(life, state=row.target, since=now), row.effect


def _row(life: Life, event: Event, now: float, backoff: Backoff) -> Row:
    """Return what the table says of an event; raises `NotNow` if that is nothing."""
    steady = now - life.since >= backoff.steady
    again = life.renewed and not steady
    holds = {
        Guard.NONE: True,
        Guard.DUE: now >= life.due,
        Guard.STEADY: steady,
        Guard.SOON: not steady,
        Guard.FIRST: not again,
        Guard.AGAIN: again,
    }
    rows = TABLE.get((life.state, event), ())
    if not rows:
        raise NotNow(f"A connection that is {life.state.value} can't take the event {event.value!r}.")
    row = next((row for row in rows if holds[row.guard]), None)
    if row is None:
        raise NotNow(f"It is tried again in {life.due - now:.1f} seconds.")
    return row


# -- why it failed ----------------------------------------------------------------------------------------------------


class UpstreamError(ToolError):
    """A server behind a gateway can't be used now, or its answer was lost; a model may read why.

    SPEC GWY-3.
    """


class ConnectionLost(ToolfoldError):
    """The connection ended while an answer was waited for."""


class SessionForgotten(ConnectionLost):
    """The server does not know the session of a request, so that it has not begun to answer."""


class Refused(ProtocolError):
    """A server refused a request by the status of its answer over HTTP; the message is a clause that says why."""


class NotMcp(ToolfoldError):
    """What answers is not an MCP server of a version that is known here."""


class LoginFailed(ToolfoldError):
    """A server wants a login, and none can take place."""


class CredentialsUnavailable(LoginFailed):
    """The credentials, or their key, can't be read or written now, so that what needs one is withheld (SPEC ISO-3)."""


class LoginNeeded(LoginFailed):
    """A server wants a credential of the caller, who has none.

    Attributes:
        how: What the caller is to do, a sentence.
        url: The page to do it on, for nobody else; `None` if there is none.
        asked: What that page is known by.
    """

    def __init__(self, why: str, how: str, url: str | None = None, asked: str = "") -> None:
        super().__init__(why)
        self.how = how
        self.url = url
        self.asked = asked


class LoginAsked(BaseException):
    """Ends a login of the SDK that somebody was asked for, which logs each `Exception` as a fault."""

    def __init__(self, needed: LoginNeeded) -> None:
        super().__init__()
        self.needed = needed


class LoginRequired(UpstreamError):
    """A server can't be used before the caller has logged in there: the message says how.

    `needed` says that for clients that can show a page.
    """

    def __init__(self, server: str, needed: LoginNeeded) -> None:
        super().__init__(f"The MCP server {server!r} is used by each caller as himself: {needed}. {needed.how}")
        self.server = server
        self.needed = needed


def reason_of(error: BaseException, config: UpstreamConfig, unparsed: int, stderr: str = "") -> str:
    """Return why a start failed, and what to do.

    Args:
        error: What ended the start.
        config: How the server is reached.
        unparsed: How many lines came that are no messages.
        stderr: The line of its stderr that says most likely why.
    """
    cause = first_cause(error)
    match cause:
        case FileNotFoundError() | NotADirectoryError() if config.cwd and not Path(config.cwd).is_dir():
            return f"there is no folder {config.cwd!r} to run it in; correct cwd."
        case FileNotFoundError():
            return not_installed(config)
        case PermissionError():
            return "the program may not be executed; check its permissions."
        case Refused():
            return f"{cause.message}."
        case SessionForgotten():
            return f"it does not know the session that it has begun ({cause}); have its instances share their sessions."
        case ProtocolError():
            said = quoted_short(cause.message)
            return f"it answered with the error {cause.code} ({said}); check that it is an MCP server."
        case LoginFailed() | AnswerLost():
            return f"{cause}."
        case NotMcp():
            return f"{cause}; check that it is an MCP server."
        case ValidationError():
            return "its first answer is not one of the protocol; check that it is an MCP server."
        case MessageTooLarge() | ConnectionLost(__cause__=MessageTooLarge()):
            return f"{cause}; if it has to, raise its max_message_bytes."
        case ConnectionLost() if config.url is None:
            said = f" {unparsed_warning(unparsed)}" if unparsed else ""
            why = f" Its stderr says: {stderr}" if stderr else " It wrote nothing to stderr; try it on its own."
            return f"it ended before it answered.{said}{why}"
        case _:
            pass
    if config.url:
        return f"it can't be reached ({type(cause).__name__}: {cause}); check its address, and that it is running."
    return f"{type(cause).__name__}: {cause}."


def ended(said: str) -> str:
    """Return why a connection was lost, with what the server's stderr says of that, if anything."""
    return f"it ended. Its stderr says: {said}" if said else "it ended."


def not_installed(config: UpstreamConfig) -> str:
    """Return what to do about a command whose program there is not."""
    return f"the program {(config.command or ('',))[0]} is not installed; install it, or give its full path."


def too_slow(config: UpstreamConfig, unparsed: int) -> str:
    """Return what to do about a server that does not answer in time."""
    said = f" {unparsed_warning(unparsed)}" if unparsed else ""
    return (
        f"it did not answer within {config.start_timeout:g} seconds, so it was stopped.{said} Check that it is an MCP "
        "server, or give it more time by start_timeout."
    )


def unparsed_warning(unparsed: int) -> str:
    """Return a sentence on what a server has written that is no message."""
    return f"It wrote {unparsed} line(s) to its stdout that are no messages of the protocol."


def without_secrets(text: str, config: UpstreamConfig, *secrets: str) -> str:
    """Return a text about a server without what only its operator may know, for models (SPEC GWY-4).

    That is what the server was given: its environment, headers and arguments, its address, the client of its login, and
    any credentials; also what is secret in the environment that it may have inherited.

    Args:
        text: The text.
        config: How the server is reached.
        *secrets: What else is secret, such as in the environment of whoever had it started.
    """
    program, *arguments = config.command or ("",)
    arguments += program.split()[1:]  # a whole command may have been written where its program belongs
    values = [*config.env.values(), *values_among(arguments), config.url or ""]
    return without(text, [*_credentials(config), *secrets], values)


def without_credentials(text: str, config: UpstreamConfig, *secrets: str) -> str:
    """Return a text about a server without its credentials: its operator may read what else it was given.

    They are known by what they are called, as are those that it may have inherited; `secrets` are further ones.
    """
    return without(text, [*_credentials(config), *secrets])


def _credentials(config: UpstreamConfig) -> Iterator[str]:
    """Yield what a server was given that is secret."""
    yield from secrets_in({**os.environ, **config.env})
    yield from secrets_among([*(config.command or ()), config.url or ""])
    yield from config.headers.values()
    yield config.oauth.client_secret or ""


def first_cause(error: BaseException) -> BaseException:
    """Return the error itself, or the first of those that it groups."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
