"""Simpler forms of a case, which tell whether a wrong answer follows from what is known to be wrong (SPEC CNF-10).

A hook that is not run in a transition that fails may be a fault of the rollback, or of a transition that runs no such
hook at all. So the same requests are made again one at a time, then with hooks that succeed, then each group by a
transition of its own, without limits and pages. What these show is the cause; if they show nothing, the case is a fault
of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from attrs import evolve

from .driver import Operation, Setup

Case = tuple[Setup, list[Operation]]


def simpler(setup: Setup, history: Sequence[Operation], can: Callable[[str], bool]) -> Iterator[Case]:
    """Yield forms of a case, each with less in it.

    Args:
        setup: The system.
        history: The requests of the case, which may overlap.
        can: Returns whether the driver has a capability.
    """
    one_by_one = list(_one_by_one(history))
    succeeding = [_plainer(one, setup, can) for one in one_by_one if one.verb != "script"]
    plain = evolve(setup, max_active=None, evict_oldest=False, page_size=None) if can("setups") else setup
    yield setup, one_by_one
    if setup.evict_idlest:
        yield evolve(setup, evict_idlest=False), one_by_one
    yield setup, _with_lists(succeeding, setup, can)
    yield plain, _with_lists((step for one in succeeding for step in _single(one, setup)), plain, can)


def _one_by_one(history: Sequence[Operation]) -> Iterator[Operation]:
    """Yield the requests without overlap: a hook that asks, or blocks until its transition is undone, fails instead."""
    undone = any(one.verb == "cancel" or one.arguments.get("fail") for one in history)
    failing: list[Operation] = []
    for one in history:
        if one.verb == "start":
            yield Operation.from_json(one.arguments["operation"])
            yield from (evolve(script, arguments={**script.arguments, "outcome": "succeed"}) for script in failing)
            failing.clear()
        elif one.verb == "script" and one.arguments["outcome"] in ("ask", "block"):
            if undone or one.arguments["outcome"] == "ask":
                failing.append(evolve(one, arguments={**one.arguments, "outcome": "fail"}))
                yield failing[-1]
        elif one.verb not in ("release", "finish", "cancel"):
            yield one


def _plainer(operation: Operation, setup: Setup, can: Callable[[str], bool]) -> Operation:
    """Return a request without force or cursor; for the end of a session, a transition that deactivates everything."""
    if operation.verb == "end" and can("transition"):
        roots = tuple(path for path in setup.paths if "." not in path)
        return Operation("transition", {"activate": (), "deactivate": roots}, operation.session)
    left = {name: value for name, value in operation.arguments.items() if name not in ("force", "cursor")}
    return evolve(operation, arguments=left)


def _single(operation: Operation, setup: Setup) -> Iterator[Operation]:
    """Yield transitions of one group, in the order in which they count together, for one of several."""
    arguments = operation.arguments
    if operation.verb == "transition":
        for verb in ("deactivate", "activate"):
            for group in sorted(arguments[verb], key=lambda path: path.split(".")):
                yield Operation(verb, {"group": group}, operation.session)
    elif operation.verb == "restore":
        yield evolve(operation, arguments={})
    else:
        yield operation


def _with_lists(operations: Iterable[Operation], setup: Setup, can: Callable[[str], bool]) -> list[Operation]:
    """Return the requests with a list after each, since what is listed is said to have changed, or called."""
    listing = can("listing") and setup.page_size is None
    found: list[Operation] = []
    for one in operations:
        found += [one, Operation("list", session=one.session)] if listing else [one]
    return [Operation("list"), *found] if listing else found
