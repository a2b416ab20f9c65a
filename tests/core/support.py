"""What the tests of the machine share: systems of the reference as catalogs and tool sets, and hooks under control."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, combinations, product
from typing import Any, Literal, TypedDict

import anyio
from anyio.lowlevel import checkpoint

from toolfold import Change, Component, Group, HookContext, Session, ToolSet
from toolfold._catalog.catalog import Catalog, canonical
from toolfold._catalog.components import KINDS
from toolfold._snapshot import NO_FACTS, Snapshot
from toolfold.machine import Plan, TransitionRequest, restore
from toolfold_specs.reference import State as Active
from toolfold_specs.reference import System
from toolfold_specs.systems import distinct_systems, systems
from verification.systems import wide_systems

WAIT = 60.0
"""Seconds after which a test that hangs fails; nothing ever waits that long."""

FAMILIES: Mapping[str, tuple[System, ...]] = {
    **{f"pairs-{n}": tuple(systems(n)) for n in (1, 2, 3)},
    "pairs-4": tuple(distinct_systems(4)),
    "wide-3": tuple(wide_systems(3)),
}
"""All forests of up to four groups with all pairs of exclusions, and of three with wider exclusion sets; of those with
four groups that are alike but for the numbers, the first."""


def snapshot_of(catalog: Catalog, active: Iterable[str], facts: Mapping[str, Any] = NO_FACTS) -> Snapshot:
    """Return the snapshot in which these groups are active, given oldest first where the order matters."""
    return Snapshot.of(catalog, restore(catalog.forest, active).after, facts)


@dataclass(frozen=True)
class World:
    """A system of the reference, and its catalog."""

    system: System
    catalog: Catalog
    paths: tuple[str, ...]
    bits: tuple[int, ...]

    def mask(self, active: Active) -> int:
        return sum(self.bits[group] for group in active)

    def active(self, mask: int) -> Active:
        return frozenset(group for group in self.system.groups if mask & self.bits[group])

    def at(self, active: Active) -> Snapshot:
        return snapshot_of(self.catalog, self.named(active))

    def named(self, groups: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.paths[group] for group in groups)

    def request(self, activate: Iterable[int] = (), deactivate: Iterable[int] = ()) -> TransitionRequest:
        return TransitionRequest(self.named(activate), self.named(deactivate))

    def plan(self, active: Active, activate: Iterable[int] = (), deactivate: Iterable[int] = ()) -> Plan:
        return self.at(active).plan(self.request(activate, deactivate))


@cache
def world(
    system: System, limit: int | None = None, evict_oldest: bool = False, pinned: frozenset[int] = frozenset()
) -> World:
    """Return a system as a catalog of groups g0, g1, … each within its parent."""
    paths = system.paths()
    groups = [Group(path=path, pinned=group in pinned) for group, path in enumerate(paths)]
    catalog = Catalog(
        name="world",
        groups=canonical(groups),
        exclusions=tuple(frozenset(paths[member] for member in members) for members in system.exclusions),
        registered={kind: {} for kind in KINDS},
        profiles={},
        max_active=limit,
        evict_oldest=evict_oldest,
    )
    return World(system, catalog, paths, tuple(1 << catalog.index[path] for path in paths))


def one_each(system: System) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Requests for up to one activation and one deactivation."""
    return ((some, other) for some, other in product(subsets(system.groups, 1), repeat=2))


def subsets(groups: Iterable[int], most: int) -> Iterator[tuple[int, ...]]:
    """All sets of at most `most` groups."""
    pool = tuple(groups)
    return chain.from_iterable(combinations(pool, size) for size in range(most + 1))


class Hooks(TypedDict, total=False):
    """The hooks of a group, as arguments of `register_group`."""

    on_activate: Callable[[HookContext], Awaitable[None]]
    on_deactivate: Callable[[HookContext], Awaitable[None]]
    on_rollback: Callable[[HookContext], Awaitable[None]] | Literal[False]


@dataclass
class Clock:
    """A clock that a test sets."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Block:
    """A blocked hook: it has arrived, and continues once it is released."""

    arrived: anyio.Event = field(default_factory=anyio.Event)
    release: anyio.Event = field(default_factory=anyio.Event)


@dataclass
class Journal:
    """Hooks that record that they ran, and that fail, block or do something where a test asks for it.

    A line is `+a` for `on_activate` of group a, `-a` for `on_deactivate`, `~a` for `on_rollback`, and begins with
    `undo` where it compensates.
    """

    lines: list[str] = field(default_factory=list)
    failing: dict[str, BaseException] = field(default_factory=dict)
    blocked: dict[str, Block] = field(default_factory=dict)
    acting: dict[str, Callable[[HookContext], Awaitable[Any]]] = field(default_factory=dict)

    def hook(self, sign: str, path: str) -> Callable[[HookContext], Awaitable[None]]:
        async def run(context: HookContext) -> None:
            line = f"{'' if context.undoes is None else 'undo '}{sign}{path}"
            self.lines.append(line)
            if line in self.acting:
                await self.acting[line](context)
            if line in self.blocked:
                self.blocked[line].arrived.set()
                await self.blocked[line].release.wait()
            if line in self.failing:
                raise self.failing[line]

        return run

    def of(self, path: str, *, rollback: bool | None = None) -> Hooks:
        """The hooks of a group; with `rollback` it has an `on_rollback` of its own (`True`) or opts out (`False`)."""
        made: Hooks = {"on_activate": self.hook("+", path), "on_deactivate": self.hook("-", path)}
        if rollback is not None:
            made["on_rollback"] = self.hook("~", path) if rollback else False
        return made

    def fail(self, *lines: str) -> None:
        self.failing |= {line: RuntimeError(line) for line in lines}

    def block(self, line: str) -> Block:
        return self.blocked.setdefault(line, Block())

    def take(self) -> list[str]:
        """Return the lines since the last time."""
        taken = self.lines[:]
        self.lines.clear()
        return taken


def answer() -> str:
    return "done"


def own(tools: ToolSet) -> dict[str, Component]:
    """Return the tools that users registered, by name."""
    return {name: spec for name, spec in tools.catalog.tools.items() if spec.control is None}


def notifications(session: Session) -> list[frozenset[str]]:
    """Return the list in which the notifications of a session are collected from now on."""
    notified: list[frozenset[str]] = []
    session.on_list_changed(notified.append)
    return notified


def with_groups(*paths: str, **settings: Any) -> ToolSet:
    """Return a tool set with these groups."""
    tools = ToolSet("t", **settings)
    for path in paths:
        tools.register_group(path)
    return tools


DESK = ("a", "a.x", "a.y", "b", "b.z", "c")
SWITCH = ("-a.y", "-a.x", "-a", "+b", "+b.z")
"""The hooks of `switch` while a, a.x and a.y of the desk are active, in order."""
UNDONE = ("undo +a.y", "undo +a.x", "undo +a", "undo -b")
FULL = ("a", "a.x", "a.y", "c")
ENDING = ["-c", "-a.y", "-a.x", "-a"]
"""The hooks that close a session of the desk in which the groups of `FULL` are active."""


async def switch(session: Session) -> Change:
    """Activate b and b.z of the desk."""
    return await session.transition(activate=["b", "b.z"])


def desk(journal: Journal | None = None, **settings: Any) -> ToolSet:
    """Return a tool set of the groups of `DESK`, a and b exclusive, with a tool `t` in each, and one at root."""
    tools = ToolSet("desk", **settings)
    for path in DESK:
        tools.register_group(path, **(journal.of(path) if journal is not None else Hooks()))
        tools.register(f"{path}.t", answer)
    tools.register("ping", lambda: "pong")
    tools.register_exclusion("a", "b")
    return tools


def tool_set(system: System, hooks: Callable[[str], Hooks] = lambda path: {}, **settings: Any) -> ToolSet:
    """Return a system as a tool set without control tools, with a tool `t` in each group."""
    tools = ToolSet("system", control="none", **settings)
    paths = system.paths()
    for path in paths:
        tools.register_group(path, **hooks(path))
        tools.register(f"{path}.t", answer)
    for members in system.exclusions:
        tools.register_exclusion(*(paths[member] for member in sorted(members)))
    return tools


async def opened(journal: Journal, *active: str, **settings: Any) -> Session:
    """Open a session of the desk, with an empty journal."""
    session = await desk(journal, **settings).open_session(active=active).start()
    journal.take()
    return session


@asynccontextmanager
async def while_blocked(block: Block, request: Coroutine[Any, Any, Any]) -> AsyncGenerator[asyncio.Task[Any]]:
    """Run the body while the hook that a request runs is blocked; afterwards the request has ended."""
    task = asyncio.ensure_future(request)
    with anyio.fail_after(WAIT):
        await block.arrived.wait()
        yield task
        block.release.set()
        await asyncio.wait([task])


async def arrived(*requests: Coroutine[Any, Any, Any]) -> list[asyncio.Task[Any]]:
    """Start requests one after another, each as far as it gets before it waits."""
    tasks = []
    for request in requests:
        tasks.append(asyncio.ensure_future(request))
        await settle()
    return tasks


async def settle(checkpoints: int = 6) -> None:
    """Let the other tasks run until they wait; they never need more checkpoints than that."""
    for _ in range(checkpoints):
        await checkpoint()
