"""Traces in the Informal Trace Format, which Quint and Apalache write, replayed on an implementation.

    quint run --mbt --out-itf trace.itf.json specs/quint/regions.qnt
    toolfold conform --itf trace.itf.json verification.library.driver:CoreDriver

A state has the variables of `specs/quint/regions.qnt`: the `system` of groups and exclusion sets, the `request` that
led here, its `answer`, and the groups that are `active` then. Each request is made of the implementation, and what it
answers is compared with the state.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from attrs import frozen

from .driver import Answer, Driver, Group, Operation, Setup, Tool


class ItfError(ValueError):
    """A file has no trace that can be replayed, or not on this target; the message says why."""


@frozen
class Moment:
    """A state of a trace: the request that led to it, and what is to be answered.

    Attributes:
        index: Its number in the trace.
        operation: The request; `None` for a state in which a system begins.
        setup: The system.
        active: The groups that are active then.
        changed: Whether the request has changed that.
        error: Why it is refused, if it is.
    """

    index: int
    operation: Operation | None
    setup: Setup
    active: tuple[str, ...]
    changed: bool = False
    error: str | None = None


@frozen
class Divergence:
    """Where an implementation departs from a trace: the state, what came before it, and what was answered."""

    moment: Moment
    before: tuple[Moment, ...]
    got: Answer
    what: str


@frozen
class Replayed:
    """How a trace was replayed: the states, why the rest was left out, if it was, and where it departs, if it does."""

    states: int
    left_out: str = ""
    divergence: Divergence | None = None


def plain(value: Any) -> Any:
    """Return a value of ITF as one of Python: sets are frozen, tuples are tuples, and great numbers are numbers."""
    if isinstance(value, list):
        return tuple(plain(item) for item in cast("Any", value))
    if not isinstance(value, dict):
        return value
    found = cast("dict[str, Any]", value)
    match [*found]:
        case ["#set"]:
            return frozenset(map(plain, found["#set"]))
        case ["#tup"]:
            return tuple(map(plain, found["#tup"]))
        case ["#bigint"]:
            return int(found["#bigint"])
        case ["#map"]:
            return {plain(key): plain(item) for key, item in found["#map"]}
        case _:
            return {name: plain(item) for name, item in found.items() if not name.startswith("#")}


def read_trace(path: Path) -> tuple[Moment, ...]:
    """Return the states of a trace; raises `ItfError`."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        moments = tuple(_moment(index, plain(state)) for index, state in enumerate(data["states"]))
    except OSError as error:
        raise ItfError(f"{path} can't be read: {error.strerror or error}.") from error
    except KeyError as error:
        raise ItfError(f"{path} has no variable {error} as specs/quint/regions.qnt has.") from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ItfError(f"{path} is no trace in the Informal Trace Format: {error}.") from error
    if not moments:
        raise ItfError(f"{path} has no states: there is nothing to replay.")
    return moments


def _moment(index: int, state: Mapping[str, Any]) -> Moment:
    system, request, answer = state["system"], state["request"], state["answer"]
    setup = Setup(
        [Group(path) for path in system["groups"]],
        sorted(sorted(excluded) for excluded in system["exclusions"]),
        [Tool("probe", path) for path in system["groups"]],
    )
    active, error = tuple(sorted(state["active"])), answer["error"] or None
    operation = _operation(sorted(request["activate"]), sorted(request["deactivate"]))
    return Moment(index, operation, setup, active, answer["changed"], error)


def _operation(activate: list[str], deactivate: list[str]) -> Operation | None:
    match activate, deactivate:
        case [], []:
            return None
        case [group], []:
            return Operation("activate", {"group": group})
        case [], [group]:
            return Operation("deactivate", {"group": group})
        case _:
            return Operation("transition", {"activate": tuple(activate), "deactivate": tuple(deactivate)})


def replay_trace(moments: tuple[Moment, ...], driver: Driver) -> Replayed:
    """Return how a trace was replayed on a driver, which is not closed.

    Raises:
        ItfError: The driver has another system, and can't be given that of the trace.
        TargetFailed: The target fails.
    """
    for moment in moments:
        if moment.operation is None:
            _configure(driver, moment.setup)
            continue
        if moment.operation.verb == "transition" and "transition" not in driver.capabilities:
            return Replayed(moment.index, "this target has no transitions of several groups")
        got = driver.perform(moment.operation)
        if wrong := next(_mismatches(moment, got, driver), None):
            return Replayed(moment.index, divergence=Divergence(moment, moments[: moment.index], got, wrong))
    return Replayed(len(moments))


def _configure(driver: Driver, setup: Setup) -> None:
    if "setups" in driver.capabilities:
        if (answer := driver.configure(setup)).error is not None:
            raise ItfError(f"The target refuses the system of the trace: {answer.error}.")
        return
    given = driver.given
    if given is None or (given.paths, _sets(given)) != (setup.paths, _sets(setup)):
        raise ItfError("The trace is of another system than this target's, which can't be given one.")
    driver.configure(given)


def _sets(setup: Setup) -> frozenset[frozenset[str]]:
    return frozenset(map(frozenset, setup.exclusions))


def _mismatches(moment: Moment, got: Answer, driver: Driver) -> Iterator[str]:
    """Yield what an answer has otherwise than a state; what was not observed is not judged."""
    if (got.error is None) != (moment.error is None):
        yield f"it is {_refused(got.error)}, and is to be {_refused(moment.error)}"
    elif moment.error is not None and "errors" in driver.capabilities and got.error != moment.error:
        yield f"it is refused as {got.error}, and is to be refused as {moment.error}"
    if got.error is None and got.changed is not None and got.changed != moment.changed:
        yield f"it says that {'something' if got.changed else 'nothing'} has changed"
    if got.active is not None and sorted(got.active) != sorted(moment.active):
        yield f"open are {_named(got.active)}, and are to be {_named(moment.active)}"


def _refused(error: str | None) -> str:
    return "granted" if error is None else f"refused as {error}"


def _named(groups: tuple[str, ...]) -> str:
    return ", ".join(sorted(groups)) or "none"


def shown(found: Divergence) -> Iterator[str]:
    """Yield the lines that say where an implementation departs from a trace."""
    yield f"State {found.moment.index}: {found.moment.operation}: {found.what}."
    yield ""
    setup = found.moment.setup
    yield f"  groups      {', '.join(setup.paths)}"
    yield f"  exclusions  {'; '.join(', '.join(sets) for sets in setup.exclusions) or 'none'}"
    for moment in (*found.before, found.moment):
        answer = moment.error or ("changed" if moment.changed else "unchanged")
        what = "begins" if moment.operation is None else f"{moment.operation}: {answer}"
        yield f"  {moment.index:>5}  {what}; open: {_named(moment.active)}"
    yield f"  got    {json.dumps(found.got.to_json())}"
