"""Hooks that do as they are told: what a setup's hooks are, in process and in the server."""

from __future__ import annotations

from collections import defaultdict

from anyio import Event
from anyio.lowlevel import checkpoint

from ..driver import Phase
from .engine import Engine
from .rules import Session


class OnPurpose(Exception):
    """A hook fails because it was told to."""


class Parked:
    """A hook that waits until it is released."""

    def __init__(self, phase: Phase, group: str) -> None:
        self.phase: Phase = phase
        self.group = group
        self.released = Event()
        self.fails = False


class Hooks:
    """What each hook is told to do, which hooks began, and which wait. `run` is what the engine is given."""

    def __init__(self) -> None:
        self.scripts: dict[tuple[str, str], str] = {}
        self.begun: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        self.waiting: list[Parked] = []

    async def run(self, engine: Engine, session: Session, phase: Phase, group: str) -> None:
        """Take note that a hook began, and do what it was told."""
        self.begun[session.name].append((phase, group))
        await checkpoint()  # as a hook that does something would: here it can be cancelled, and others go on
        match self.scripts.get((group, phase)):
            case "fail":
                raise OnPurpose(group)
            case "ask":
                await engine.activate(session, first_sibling(engine, group))
            case "park":
                await self._park(Parked(phase, group))
            case _:
                pass

    async def _park(self, parked: Parked) -> None:
        self.waiting.append(parked)
        try:
            await parked.released.wait()
        finally:
            self.waiting.remove(parked)
        if parked.fails:
            raise OnPurpose(parked.group)

    def release(self, group: str, phase: str, fail: bool) -> bool:
        """Let the hook that has waited longest go on; whether there is one."""
        for parked in self.waiting:
            if (parked.phase, parked.group) == (phase, group) and not parked.released.is_set():
                parked.fails = fail
                parked.released.set()
                return True
        return False

    def release_all(self) -> None:
        """Let every hook do as it likes from now on."""
        self.scripts.clear()
        for parked in self.waiting:
            parked.released.set()

    def take_begun(self, session: str) -> tuple[tuple[str, str], ...]:
        """The hooks of a session that began since this was last asked."""
        return tuple(self.begun.pop(session, ()))


def first_sibling(engine: Engine, group: str) -> str:
    """The first other group with the same parent, in canonical order; the group itself if there is none."""
    above = group.rpartition(".")[0]
    siblings = [path for path in engine.groups if path.rpartition(".")[0] == above and path != group]
    return engine.canonical(siblings)[0] if siblings else group
