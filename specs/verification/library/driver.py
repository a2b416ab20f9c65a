"""The driver of Toolfold's own core, in process: what an adopter writes for another implementation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from itertools import count
from typing import Any, TypeVar, cast

from toolfold import (
    GroupInfo,
    GroupNotFound,
    HookContext,
    HookFailed,
    ParentInactive,
    Profile,
    Session,
    ToolError,
    ToolfoldError,
    ToolNotFound,
    ToolSet,
    View,
    Visibility,
    explain,
)
from toolfold_specs.driver import (
    AT_RUN_TIME,
    CAPABILITIES,
    MAIN,
    OF_PROFILES,
    Answer,
    Driver,
    Operation,
    Setup,
    TargetFailed,
    Tool,
)

from .quiet import QuietLoop

T = TypeVar("T")
NOTHING = Setup()


class CoreDriver(Driver):
    """Drives a `toolfold.ToolSet`; each session of the kit is a `toolfold.Session`."""

    capabilities = frozenset({*CAPABILITIES, *AT_RUN_TIME, *OF_PROFILES})
    name = "in process"

    def __init__(self) -> None:
        self._loop = QuietLoop()
        self._tickets: dict[int, asyncio.Task[Answer]] = {}
        self._numbers = count(1)
        self._reset(ToolSet("empty"), Setup())

    def _reset(self, tools: ToolSet, setup: Setup) -> None:
        self._tools = tools
        self._setup = setup
        self._users = frozenset(tool.full_name for tool in setup.tools)
        self._sessions: dict[str, Session] = {}
        self._notices: dict[str, int] = {}
        self._ran: dict[str, list[tuple[str, str]]] = {}
        self._scripts: dict[tuple[str, str], str] = {}
        self._blocked: dict[tuple[str, str], asyncio.Future[bool]] = {}

    def configure(self, setup: Setup) -> Answer:
        """Make a new tool set with everything in `setup`."""
        self._finish_all()
        try:
            tools = self._made(setup)
        except ToolfoldError as error:
            return Answer(error=type(error).__name__)
        self._reset(tools, setup)
        return Answer()

    def _made(self, setup: Setup) -> ToolSet:
        """Return a tool set with everything in a setup."""
        tools = ToolSet(
            "system",
            page_size=setup.page_size,
            max_active=setup.max_active,
            evict="idlest" if setup.evict_idlest else "oldest" if setup.evict_oldest else None,
            control_visibility="relevant" if setup.relevant_controls else "always",
            run_in_thread=False,  # a run is the same each time
        )
        self._add(tools, setup)
        return tools

    def _add(self, tools: ToolSet, setup: Setup, had: Setup = NOTHING) -> None:
        """Register what there is in a setup, and was not in another."""
        new = [group for group in setup.groups if group.path not in had.paths]
        for group in sorted(new, key=lambda group: group.path.count(".")):
            hooks: dict[str, Any] = {phase: partial(self._hook, group.path, phase) for phase in group.hooks}
            pinned = group.path in setup.pinned
            tools.register_group(
                group.path, group.description, show_deactivator=group.deactivator, pinned=pinned, **hooks
            )
        for members in setup.exclusions:
            if members not in had.exclusions:
                tools.register_exclusion(*members)
        for tool in setup.tools:
            if tool in had.tools:
                continue
            tools.register(
                tool.name,
                _handler(tool),
                input_schema=dict(tool.input_schema or {"type": "object"}),
                group=tool.group,
                hidden=tool.hidden,
                replaces_control=True,
                **_rule(tool),
            )

    async def _hook(self, group: str, phase: str, context: HookContext) -> None:
        self._ran.setdefault(context.session.id, []).append((phase, group))
        match self._scripts.get((group, phase)):
            case "fail":
                raise RuntimeError("scripted to fail")
            case str(outcome) if outcome.startswith("ask"):
                session = await self._session(outcome.removeprefix("ask ")) if " " in outcome else context.session
                await session.activate(self._tools.list_groups()[0].name)
            case "block":
                future = self._loop.create_future()
                self._blocked[phase, group] = future
                try:
                    if await future:
                        raise RuntimeError("scripted to fail")
                finally:
                    del self._blocked[phase, group]
            case _:
                pass

    # -- one operation at a time --------------------------------------------------------------------------------------

    def perform(self, operation: Operation) -> Answer:
        """Run an operation to its end."""
        if operation.verb == "restore":  # configures, so it can't run within the loop
            return self.restore(session=operation.session, **operation.arguments)
        return self.finish(self._begin(0, operation))

    def restore(self, setup: Setup | None = None, session: str = MAIN) -> Answer:
        """Dump a session as JSON, configure, and restore it there."""
        dumped = json.dumps(self._run(self._session(session)).dump())
        answer = self.configure(self._setup if setup is None else setup)
        return self._run(self._restored(session, dumped)) if answer.error is None else answer

    async def _restored(self, name: str, dumped: str) -> Answer:
        session = await self._started(name, self._tools.restore_session(json.loads(dumped)))
        equal = session.dump() == json.loads(dumped)
        return self._observed(name, session, detail={"discarded": session.discarded, "equal": equal})

    async def _answer(self, operation: Operation) -> Answer:
        answer: Answer = await getattr(self, f"_{operation.verb}")(operation.session, **operation.arguments)
        return answer

    async def _session(self, name: str) -> Session:
        return self._sessions[name] if name in self._sessions else await self._started(name, self._tools.open_session())

    async def _started(self, name: str, session: Session) -> Session:
        await session.start()
        session.on_list_changed(lambda kinds: self._count(name))
        self._sessions[name] = session
        return session

    def _count(self, name: str) -> None:
        self._notices[name] = self._notices.get(name, 0) + 1

    async def _step(self, name: str, step: Callable[[Session], Awaitable[bool]]) -> Answer:
        session = await self._session(name)
        try:
            changed = bool(await step(session))
        except ToolfoldError as error:
            return self._observed(name, session, error=_named(error), detail=_detail(error))
        return self._observed(name, session, changed=changed)

    def _observed(self, name: str, session: Session, **known: Any) -> Answer:
        ran = tuple(self._ran.pop(session.id, ()))
        return Answer(active=session.active, hooks=ran, notified=self._notices.pop(name, 0), **known)

    async def _activate(self, name: str, group: str) -> Answer:
        return await self._step(name, lambda session: session.activate(group))

    async def _deactivate(self, name: str, group: str, force: bool = False) -> Answer:
        return await self._step(name, lambda session: session.deactivate(group, force=force))

    async def _transition(
        self, name: str, activate: tuple[str, ...], deactivate: tuple[str, ...], force: bool = False
    ) -> Answer:
        async def step(session: Session) -> bool:
            return bool(await session.transition(activate, deactivate, force=force))

        return await self._step(name, step)

    async def _open_within(self, name: str, profiles: tuple[tuple[str, ...], ...]) -> Answer:
        profile: Profile | None = None
        for number, groups in reversed([*enumerate(profiles)]):
            profile = Profile(f"p{number}", available=groups, within=profile)
        await self._started(name, self._tools.open_session(profile))
        return Answer()

    async def _snapshot(self, name: str) -> Answer:
        session = await self._session(name)
        return Answer(active=session.active, notified=self._notices.pop(name, 0))

    async def _list(self, name: str, cursor: str | None = None) -> Answer:
        session = await self._session(name)
        try:
            page = session.list_tools(cursor)
        except ToolfoldError as error:
            return Answer(error=_named(error))
        names = tuple(spec.name for spec in page.tools)
        tools = tuple(name for name in names if name in self._users)
        controls = tuple(name for name in names if name not in self._users)
        return Answer(tools=tools, controls=controls, names=names, next_cursor=page.next_cursor)

    async def _list_groups(self, name: str) -> Answer:
        rows = (await self._session(name)).list_groups()
        return Answer(groups=tuple(_row(row) for row in rows))

    async def _call(self, name: str, tool: str, arguments: Mapping[str, Any]) -> Answer:
        session = await self._session(name)
        try:
            result = await session.call(tool, arguments)
        except ToolNotFound as error:
            return Answer(error=_named(error), text=str(error))
        text = "".join(str(part.get("text", "")) for part in result.content)
        return Answer(is_error=result.is_error, text=text)

    async def _why(self, name: str, tool: str) -> Answer:
        return Answer(why=explain((await self._session(name)).snapshot, tool).why)

    async def _set_fact(self, name: str, fact: str, value: bool) -> Answer:
        session = await self._session(name)
        session.set_fact(fact, value)
        return self._observed(name, session)

    async def _end(self, name: str) -> Answer:
        session = await self._session(name)
        error = None
        try:
            await session.close()
        except ExceptionGroup as group:
            error = _named(cast("ToolfoldError", group.exceptions[0]))
        except ToolfoldError as raised:
            error = _named(raised)
        del self._sessions[name]
        ran = tuple(self._ran.pop(session.id, ()))
        self._notices.pop(name, None)
        try:
            session.list_tools()
        except ToolfoldError as refused:
            detail: dict[str, Any] = {"list": _named(refused)}
        else:
            detail = {"list": None}
        return Answer(error=error, detail=detail, hooks=ran, active=(await self._session(name)).active)

    async def _register(self, name: str, setup: Setup) -> Answer:
        session, gone = await self._session(name), set(self._setup.paths) - set(setup.paths)
        error = None
        try:
            for path in gone:
                if path.rpartition(".")[0] not in gone:
                    await self._tools.unregister_group(path)
            self._add(self._tools, setup, self._setup.without(gone))
        except ToolfoldError as raised:
            error = _named(raised)
        else:
            self._setup, self._users = setup, frozenset(tool.full_name for tool in setup.tools)
        ran = tuple(self._ran.pop(session.id, ()))
        self._ran.clear()
        self._notices.clear()
        return Answer(error=error, active=session.active, hooks=ran)

    async def _script(self, name: str, group: str, phase: str, outcome: str) -> Answer:
        self._scripts[group, phase] = outcome
        return Answer()

    # -- several operations at a time ---------------------------------------------------------------------------------

    def start(self, operation: Operation) -> int:
        """Begin an operation, and return once it waits."""
        return self._begin(next(self._numbers), operation)

    def _begin(self, ticket: int, operation: Operation) -> int:
        self._tickets[ticket] = self._loop.create_task(self._answer(operation))
        self._settle()
        return ticket

    def blocked(self) -> tuple[tuple[str, str], ...]:
        """Return the hooks that wait now."""
        return tuple(sorted(self._blocked))

    def release(self, group: str, phase: str, fail: bool = False) -> None:
        """Let a blocked hook continue."""
        self._blocked[phase, group].set_result(fail)
        self._settle()

    def cancel(self, ticket: int) -> None:
        """Cancel an operation under way."""
        self._tickets[ticket].cancel()
        self._settle()

    def finish(self, ticket: int) -> Answer:
        """Return an operation's answer: every call here returns once everything waits, so it has ended by now."""
        task = self._tickets[ticket]
        if not task.done():
            raise TargetFailed("deadlock: the operation waits, and nothing is left that could continue")
        del self._tickets[ticket]
        return Answer(error="Cancelled") if task.cancelled() else task.result()

    def close(self) -> None:
        """End every operation and session."""
        if not self._loop.is_closed():
            self._loop.resume()
            self._finish_all()
            self._loop.close()

    def _finish_all(self) -> None:
        for task in self._tickets.values():
            task.cancel()
        self._scripts.clear()
        self._settle()
        for future in self._blocked.values():  # of compensating hooks, which a cancellation does not end
            future.set_result(False)
        self._settle()
        self._tickets.clear()

    def _settle(self) -> None:
        self._loop.settle()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)


def _handler(tool: Tool) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    def handler(arguments: Mapping[str, Any]) -> dict[str, Any]:
        if tool.does == "refuse":
            raise ToolError("refused on purpose")
        if tool.does == "crash":
            raise RuntimeError("secret")
        return {"tool": tool.full_name, "arguments": dict(arguments)}

    return handler


def _rule(tool: Tool) -> dict[str, Any]:
    if tool.when == "group":
        return {}
    if tool.when == "always":
        return {"visibility": Visibility.always()}
    if tool.when == "raises":
        return {"visibility": Visibility.when(_raising)}
    fact = tool.when.removeprefix("fact ")
    return {"visibility": Visibility.when(lambda view: bool(view.facts.get(fact)))}


def _raising(view: View) -> bool:
    raise RuntimeError("a rule that raises")


def _named(error: ToolfoldError) -> str:
    return type(error).__name__


def _detail(error: ToolfoldError) -> dict[str, Any]:
    if isinstance(error, ParentInactive):
        return {"missing": error.parent}
    if isinstance(error, HookFailed):
        return {"group": error.group, "phase": error.phase, "cause": type(error.__cause__).__name__}
    return {"group": error.group} if isinstance(error, GroupNotFound) else {}


def _row(info: GroupInfo) -> dict[str, Any]:
    return {"name": info.name, "state": info.state.value, "active": info.active, "tools": info.tool_count}
