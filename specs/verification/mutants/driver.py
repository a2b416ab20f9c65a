"""The driver of the engine or a mutant: in process and without an event loop, so nothing depends on time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve

from toolfold_specs.driver import CAPABILITIES, MAIN, Answer, Driver, Operation, Setup, TargetFailed

from .engine import Cancelled, Engine, Refused, Request, Session, Work


class Task:
    """Work under way, with its `result` once it is `done`."""

    def __init__(self, work: Work[Any], on_done: Callable[[], None] = lambda: None) -> None:
        self._work = work
        self._on_done = on_done
        self.can_continue: Callable[[], bool] = lambda: True
        self.done = False
        self.result: Any = None

    def advance(self, cancelled: bool = False) -> None:
        """Do the work until it blocks again or ends."""
        try:
            self.can_continue = self._work.throw(Cancelled) if cancelled else next(self._work)
        except StopIteration as ended:
            self.done, self.result = True, ended.value
            self._on_done()


class Tasks:
    """All work under way on one engine."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def start(self, work: Work[Any], on_done: Callable[[], None] = lambda: None) -> Task:
        """Begin some work, and return once everything has ended or is blocked."""
        task = Task(work, on_done)
        self.tasks.append(task)
        self.settle()
        return task

    def settle(self) -> None:
        """Advance every task that can continue, the oldest first, until all have ended or are blocked."""
        while task := next((task for task in self.tasks if task.can_continue()), None):
            task.advance()
            self.tasks = [task for task in self.tasks if not task.done]

    def cancel(self, task: Task) -> None:
        """Cancel a task, and return once everything has ended or is blocked; shielded work stays blocked."""
        if not task.done:
            task.advance(cancelled=True)
            self.tasks = [task for task in self.tasks if not task.done]
            self.settle()


def release(engine: Engine, group: str, phase: str, fail: bool) -> bool:
    """Release the hook that has been blocked longest; return whether there is one."""
    blocked = next((one for one in engine.blocked if one.hook == (phase, group) and not one.released), None)
    if blocked is not None:
        blocked.released, blocked.fails = True, fail
    return blocked is not None


class EngineDriver(Driver):
    """Drives the engine or a mutant of it: `perform` and `start` take operations of any verb."""

    capabilities = frozenset(CAPABILITIES)

    def __init__(self, engine: type[Engine] = Engine, capabilities: frozenset[str] | None = None) -> None:
        self.capabilities = capabilities or self.capabilities
        self._make = engine
        self._install(engine(Setup()))

    def _install(self, engine: Engine) -> None:
        self.engine = engine
        self._tasks = Tasks()
        self._tickets: dict[int, Task] = {}

    def configure(self, setup: Setup) -> Answer:
        """Install a system or refuse it."""
        try:
            self._install(self._make(setup))
        except Refused as refused:
            return Answer(error=refused.error, detail=refused.detail)
        return Answer(active=())

    def perform(self, operation: Operation) -> Answer:
        """Return the answer to an operation; fail at once if it can never end."""
        if operation.verb == "restore":
            return self.restore(session=operation.session, **operation.arguments)
        return self.finish(self.start(operation))

    def restore(self, setup: Setup | None = None, session: str = MAIN) -> Answer:
        """Dump a session, configure a system, and restore the session in it."""
        dumped = self.engine.dump(self.engine.session(session))
        answer = self.configure(self.engine.setup if setup is None else setup)
        if answer.error is not None:
            return answer
        discarded = tuple(self.engine.load(self.engine.session(session), dumped))
        equal = self.engine.dump(self.engine.session(session)) == dumped
        return evolve(
            self.perform(Operation("snapshot", session=session)), detail={"discarded": discarded, "equal": equal}
        )

    def start(self, operation: Operation) -> int:
        """Begin an operation; return once it has ended, is queued or is blocked."""
        ticket = max(self._tickets, default=0) + 1
        self._tickets[ticket] = self._tasks.start(self._answered(operation))
        return ticket

    def blocked(self) -> tuple[tuple[str, str], ...]:
        """Return phase and group of the blocked hooks, the longest blocked first."""
        return tuple(blocked.hook for blocked in self.engine.blocked)

    def release(self, group: str, phase: str, fail: bool = False) -> None:
        """Release a blocked hook."""
        if not release(self.engine, group, phase, fail):
            raise LookupError(f"no hook {phase} of {group!r} is blocked")
        self._tasks.settle()

    def cancel(self, ticket: int) -> None:
        """Cancel an operation; return once it has ended, or is blocked in a compensation."""
        self._tasks.cancel(self._tickets[ticket])

    def finish(self, ticket: int) -> Answer:
        """Return the answer to an operation that has ended; one that nothing can end any more is a failure."""
        task = self._tickets.pop(ticket)
        if not task.done:
            raise TargetFailed("the operation never ends: nothing can unblock it")
        answer: Answer = task.result
        return answer

    def _answered(self, operation: Operation) -> Work[Answer]:
        """Perform an operation and answer it."""
        session = self.engine.session(operation.session)
        members: dict[str, Any]
        try:
            members = yield from self._done(session, operation.verb, operation.arguments)
        except Cancelled:
            members = {"error": "Cancelled"}
        except Refused as refused:
            members = {"error": refused.error, "detail": refused.detail}
            members |= {"text": str(refused)} if operation.verb == "call" else {}
        active, begun = self.engine.canonical(session.active), tuple(self.engine.begun.pop(session.name, ()))
        notified, session.notifications = session.notifications, 0
        return Answer(**members, active=tuple(active), hooks=begun, notified=notified)

    def _done(self, session: Session, verb: str, arguments: Mapping[str, Any]) -> Work[dict[str, Any]]:
        """Perform a verb; the result has the members of the answer that are not about the state."""
        engine = self.engine
        match verb:
            case "activate" | "deactivate":
                return {"changed": (yield from getattr(engine, verb)(session, **arguments))}
            case "transition":
                return {"changed": (yield from engine.transition(session, Request(**arguments)))}
            case "end":
                yield from engine.end(session)
                return {"detail": {"list": engine.list_closed(session)}}
            case "register":
                yield from engine.register(**arguments)
            case "set_fact":
                engine.set_fact(session, **arguments)
            case "open_within":
                session.bound = engine.bound(arguments["profiles"])
            case "fail_over":
                engine.fail_over()
            case "script":
                engine.scripts[arguments["phase"], arguments["group"]] = arguments["outcome"]
            case "list":
                names, following = engine.page(session, arguments.get("cursor"))
                controls = tuple(name for name in names if engine.control(name) is not None)
                tools = tuple(name for name in names if name not in controls)
                return {"tools": tools, "controls": controls, "names": tuple(names), "next_cursor": following}
            case "list_groups":
                return {"groups": tuple(engine.group_infos(session))}
            case "call":
                text, is_error = engine.call(session, arguments["tool"], arguments["arguments"])
                return {"text": text, "is_error": is_error}
            case "why":
                return {"why": engine.why(session, arguments["tool"])}
            case _:
                pass
        return {}
