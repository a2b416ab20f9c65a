"""SPEC COD-3: a program reaches nothing that its snapshot lacks, whatever happens while it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest

from tests.core.support import FAMILIES, tool_set
from toolfold import Session, Snapshot, ToolfoldError, ToolNotFound, identifiers, invoke, stubs
from toolfold_specs.reference import System

pytestmark = pytest.mark.spec("COD-3")

Declare = Callable[[Snapshot], str]
Door = Callable[[Session, str], Awaitable[Any]]


async def faults_of(system: System, declare: Declare, door: Door) -> set[str]:
    """Return which of the two a program finds wrong that opens and closes every group, one after the other."""
    tools, faults = tool_set(system), set[str]()
    paths = system.paths()
    async with tools.open_session() as session:
        for step in [*paths, *reversed(paths), *paths]:
            with suppress(ToolfoldError):
                await (session.deactivate(step) if session.is_active(step) else session.activate(step))
            names, active = identifiers(tools.catalog), session.active
            text = declare(session.snapshot)
            for path in paths:
                name = names[f"{path}.t"]
                if (f"async def {name}(" in text) != (path in active):
                    faults.add("stubs")
                try:
                    await door(session, name)
                    called = True
                except ToolNotFound:
                    called = False
                if called != (path in active):
                    faults.add("door")
    return faults


def outliving() -> Declare:
    """Stubs that are made once for each tool, and outlive its group."""
    known: dict[str, None] = {}

    def declare(snapshot: Snapshot) -> str:
        known.update(dict.fromkeys(stubs(snapshot).splitlines()))
        return "\n".join(known)

    return declare


async def passing_over(session: Session, name: str) -> Any:
    """An `invoke` that calls a tool without asking whether it is visible."""
    tool = next(tool for tool, one in identifiers(session.catalog).items() if one == name)
    handler: Any = session.catalog.tools[tool].handler
    return await handler({}, None)


def remembering() -> Door:
    """A door that asks in the state in which the tool could be called first."""
    views: dict[str, Any] = {}

    async def door(session: Session, name: str) -> Any:
        view = views.get(name) or session.view()
        value = await invoke(session, name, view=view)
        views[name] = view
        return value

    return door


EVERY = [system for family in ("pairs-1", "pairs-2", "pairs-3") for system in FAMILIES[family]]
MUTANTS: Mapping[str, tuple[Callable[[], Declare], Callable[[], Door], set[str]]] = {
    "none": (lambda: stubs, lambda: invoke, set()),
    "a stub that outlives its group": (outliving, lambda: invoke, {"stubs"}),
    "a door that passes visibility over": (lambda: stubs, lambda: passing_over, {"door"}),
    "a door that remembers": (lambda: stubs, remembering, {"door"}),
}


@pytest.mark.parametrize("mutant", MUTANTS)
async def test_stubs_and_door_follow_every_transition_of_every_small_system(mutant: str) -> None:
    declare, door, found = MUTANTS[mutant]
    assert set[str]().union(*[await faults_of(system, declare(), door()) for system in EVERY]) == found
