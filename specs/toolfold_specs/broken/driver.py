"""The naive engine under the kit: a synchronous face over its own event loop, which runs until nothing can go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextvars import Context
from typing import Any, TypeVarTuple

import anyio

from ..driver import CAPABILITIES, MAIN, Answer, Driver, Operation, Setup, TargetFailed
from .engine import Engine
from .hooks import Hooks
from .rules import Refused, Session

Ts = TypeVarTuple("Ts")


class CountingLoop(asyncio.SelectorEventLoop):
    """An event loop that counts what is scheduled, so that it can be told when nothing is left to run."""

    scheduled = 0

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedule a callback, and count it."""
        self.scheduled += 1
        return super().call_soon(callback, *args, context=context)

    async def quiet(self) -> None:
        """Return once everything that is scheduled has run, and has scheduled nothing more."""
        while True:
            before = self.scheduled
            await asyncio.sleep(0)
            if self.scheduled == before + 1:  # only this very coroutine
                return

    def run_until_quiet(self) -> None:
        """Run until every task has ended or waits for what only a later call can bring."""
        self.run_until_complete(self.quiet())


class Ticket:
    """An operation under way."""

    def __init__(self) -> None:
        self.scope: anyio.CancelScope | None = None
        self.task: asyncio.Task[Answer] | None = None


class EngineDriver(Driver):
    """Drives an engine, the unbroken one or a variant; it can do all that the kit asks for."""

    capabilities = frozenset(CAPABILITIES)

    def __init__(self, engine: type[Engine] = Engine) -> None:
        self._loop = CountingLoop()
        self._make = engine
        self._tickets: dict[int, Ticket] = {}
        self._issued = 0
        self._install(Setup())

    def _install(self, setup: Setup) -> None:
        self._cancel_all()
        hooks = Hooks()
        self._engine = self._make(setup, hooks.run)
        self._hooks = hooks

    def configure(self, setup: Setup) -> Answer:
        """Install a system, or refuse it."""
        try:
            self._install(setup)
        except Refused as refused:
            return Answer(error=refused.error, detail=refused.detail)
        return Answer(active=())

    def perform(self, operation: Operation) -> Answer:
        """Answer an operation, or fail at once if it can never end."""
        if operation.verb in ("configure", "restore"):
            return super().perform(operation)
        return self.finish(self.start(operation))

    def activate(self, group: str, session: str = MAIN) -> Answer:
        """Activate a group."""
        return self.perform(Operation("activate", {"group": group}, session))

    def deactivate(self, group: str, force: bool = False, session: str = MAIN) -> Answer:
        """Deactivate a group."""
        return self.perform(Operation("deactivate", {"group": group, "force": force}, session))

    def transition(self, activate: tuple[str, ...], deactivate: tuple[str, ...], session: str = MAIN) -> Answer:
        """Do it all as one step."""
        return self.perform(Operation("transition", {"activate": activate, "deactivate": deactivate}, session))

    def snapshot(self, session: str = MAIN) -> Answer:
        """Tell what is active."""
        return self.perform(Operation("snapshot", {}, session))

    def list(self, cursor: str | None = None, session: str = MAIN) -> Answer:
        """List tools."""
        return self.perform(Operation("list", {"cursor": cursor}, session))

    def list_groups(self, session: str = MAIN) -> Answer:
        """List groups."""
        return self.perform(Operation("list_groups", {}, session))

    def call(self, tool: str, arguments: Mapping[str, Any], session: str = MAIN) -> Answer:
        """Call a tool."""
        return self.perform(Operation("call", {"tool": tool, "arguments": arguments}, session))

    def set_fact(self, fact: str, value: bool, session: str = MAIN) -> Answer:
        """Set a fact."""
        return self.perform(Operation("set_fact", {"fact": fact, "value": value}, session))

    def end(self, session: str = MAIN) -> Answer:
        """End a session."""
        return self.perform(Operation("end", {}, session))

    def script(self, group: str, phase: str, outcome: str, session: str = MAIN) -> Answer:
        """Tell a hook what to do."""
        return self.perform(Operation("script", {"group": group, "phase": phase, "outcome": outcome}, session))

    def restore(self, setup: Setup | None = None, session: str = MAIN) -> Answer:
        """Dump a session, configure, and restore it there."""
        dumped = self._engine.dump(self._engine.session(session))
        answer = self.configure(self._engine.setup if setup is None else setup)
        if answer.error is not None:
            return answer
        self._engine.load(self._engine.session(session), dumped)
        return self.snapshot(session)

    # -- what is under way --------------------------------------------------------------------------------------------

    def start(self, operation: Operation) -> int:
        """Begin an operation; return once it has ended, waits for its turn or is parked."""
        self._issued += 1
        ticket = self._tickets[self._issued] = Ticket()
        ticket.task = self._loop.create_task(self._cancellable(ticket, operation))
        self._loop.run_until_quiet()
        return self._issued

    def parked(self) -> tuple[tuple[str, str], ...]:
        """Return phase and group of the hooks that wait, the first to wait first."""
        return tuple((parked.phase, parked.group) for parked in self._hooks.waiting)

    def release(self, group: str, phase: str, fail: bool = False) -> None:
        """Let a parked hook end."""
        if not self._hooks.release(group, phase, fail):
            raise LookupError(f"no hook {phase} of {group!r} is parked")
        self._loop.run_until_quiet()

    def cancel(self, ticket: int) -> None:
        """Cancel an operation; return once it is over, or parked while it undoes."""
        scope = self._tickets[ticket].scope
        assert scope is not None
        self._loop.call_soon(scope.cancel)
        self._loop.run_until_quiet()

    def finish(self, ticket: int) -> Answer:
        """Return the answer of an operation that has ended; one that nothing can end any more has failed."""
        task = self._tickets[ticket].task
        assert task is not None
        if not task.done():
            raise TargetFailed("the operation never ends: it waits for what nothing will bring")
        del self._tickets[ticket]
        return task.result()

    def close(self) -> None:
        """Cancel what is under way and close the loop."""
        self._cancel_all()
        self._loop.close()

    def _cancel_all(self) -> None:
        tasks = [ticket.task for ticket in self._tickets.values() if ticket.task is not None]
        self._tickets = {}
        while waiting := [task for task in tasks if not task.done()]:
            for task in waiting:  # again and again: what is undone may be parked in turn
                task.cancel()
            self._loop.run_until_quiet()

    async def _cancellable(self, ticket: Ticket, operation: Operation) -> Answer:
        session = self._engine.session(operation.session)
        said: dict[str, Any] = {"error": "Cancelled"}
        with anyio.CancelScope() as ticket.scope:
            try:
                said = await getattr(self, f"_{operation.verb}")(session, **operation.arguments)
            except Refused as refused:
                said = {"error": refused.error, "detail": refused.detail}
                said.update({"text": refused.text} if operation.verb == "call" else {})
        return Answer(**said, **self._observed(session))

    def _observed(self, session: Session) -> dict[str, Any]:
        notified, session.notices = session.notices, 0
        return {
            "active": tuple(self._engine.canonical(session.active)),
            "hooks": self._hooks.take_begun(session.name),
            "notified": notified,
        }

    # -- the verbs, each within its task ------------------------------------------------------------------------------

    async def _activate(self, session: Session, group: str) -> dict[str, Any]:
        return {"changed": await self._engine.activate(session, group)}

    async def _deactivate(self, session: Session, group: str, force: bool = False) -> dict[str, Any]:
        return {"changed": await self._engine.deactivate(session, group, force)}

    async def _transition(
        self, session: Session, activate: tuple[str, ...], deactivate: tuple[str, ...]
    ) -> dict[str, Any]:
        return {"changed": await self._engine.transition(session, activate, deactivate)}

    async def _snapshot(self, session: Session) -> dict[str, Any]:
        return {}

    async def _list(self, session: Session, cursor: str | None = None) -> dict[str, Any]:
        names, following = self._engine.page(session, cursor)
        controls = tuple(name for name in names if self._engine.control(name) is not None)
        tools = tuple(name for name in names if name not in controls)
        return {"tools": tools, "controls": controls, "next_cursor": following}

    async def _list_groups(self, session: Session) -> dict[str, Any]:
        return {"groups": tuple(self._engine.group_infos(session))}

    async def _call(self, session: Session, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        text, is_error = await self._engine.call_any(session, tool, arguments)
        return {"text": text, "is_error": is_error}

    async def _set_fact(self, session: Session, fact: str, value: bool) -> dict[str, Any]:
        self._engine.set_fact(session, fact, value)
        return {}

    async def _end(self, session: Session) -> dict[str, Any]:
        await self._engine.end(session)
        return {}

    async def _script(self, session: Session, group: str, phase: str, outcome: str) -> dict[str, Any]:
        self._hooks.scripts[group, phase] = outcome
        return {}
