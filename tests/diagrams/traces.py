"""What the tests of traces share: random requests, and traces of chosen ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.core.support import Hooks, Journal, desk, settle
from toolfold import Context, HookContext, HookFailed, Session, ToolError, ToolfoldError, ToolSet, success_of
from toolfold_diagrams import Trace, tracing

Play = Callable[[ToolSet], Awaitable[None]]


async def recorded(tools: ToolSet, play: Play) -> Trace:
    """The trace of what `play` does with a tool set."""
    with tracing(tools) as recorder:
        await play(tools)
    return recorder.trace


@dataclass
class RandomRequests:
    """A random forest of groups, with hooks that record that they ran and fail at random, and random requests."""

    seed: int
    journal: Journal = field(default_factory=Journal)
    outcomes: list[Any] = field(default_factory=list)

    def tools(self) -> ToolSet:
        random = Random(self.seed)
        tools, paths = ToolSet("random_requests"), list[str]()
        for number in range(7):
            parent = random.choice([None, *paths]) if paths else None
            path = f"g{number}" if parent is None else f"{parent}.g{number}"
            paths.append(path)
            hooks = self.journal.of(path, rollback=random.choice([None, None, True, False]))
            tools.register_group(path, **(hooks if random.random() < 0.9 else Hooks()))
            tools.register(f"{path}.t", lambda: "done")
        for _ in range(3):
            pair = random.sample(paths, 2)
            with suppress(ToolfoldError):
                tools.register_exclusion(*pair)
        return tools

    async def play(self, tools: ToolSet) -> None:
        """Open two sessions, and make random requests of them; the outcomes are recorded."""
        random = Random(self.seed + 1)
        paths = [group.path for group in tools.groups()]
        async with tools.open_session(identity="one") as one, tools.open_session(identity="two") as two:
            one.on_list_changed(lambda kinds: self.outcomes.append(("one", sorted(kinds))))
            for _ in range(30):
                self.journal.failing.clear()
                for path in random.sample(paths, 2):
                    self.journal.fail(*random.sample([f"+{path}", f"-{path}", f"undo +{path}", f"undo ~{path}"], 2))
                await self.ask(random, random.choice((one, two)), paths)
            self.journal.failing.clear()

    async def ask(self, random: Random, session: Session, paths: list[str]) -> None:
        path, force = random.choice(paths), random.random() < 0.2
        chosen = {path.rsplit(".", up)[0] for path in random.sample(paths, 2) for up in range(path.count(".") + 1)}
        asked: dict[int, Callable[[], Awaitable[Any]]] = {
            0: lambda: session.deactivate(path, force=force),
            1: lambda: session.transition(activate=sorted(chosen), deactivate=random.sample(paths, 1)),
            2: lambda: session.call(f"{path}.activate"),
        }
        try:
            self.outcomes.append(await asked.get(random.randrange(4), lambda: session.activate(path))())
        except ToolfoldError as error:
            self.outcomes.append((type(error).__name__, str(error)))
        self.outcomes.append((session.id, session.active))


async def switching() -> Trace:
    """Opening a group that displaces another, with a listener: first a hook fails, then it succeeds."""
    journal = Journal()

    async def play(tools: ToolSet) -> None:
        async with tools.open_session(active=["a"], identity="s") as session:
            session.on_list_changed(lambda kinds: None)
            journal.fail("+b", "undo +a")
            await session.call("b.activate")
            journal.failing.clear()
            await session.call("b.activate")
            await session.activate("b")
            with suppress(ToolfoldError):
                await session.activate("b.z.no")

    return await recorded(desk(journal), play)


async def crossing() -> Trace:
    """Two concurrent sessions: one waits, a hook of one asks the other, a hook asks its own, and one is forced."""
    journal = Journal()

    async def play(tools: ToolSet) -> None:
        async with tools.open_session(identity="one") as one, tools.open_session(identity="two") as two:
            block = journal.block("+a")
            asked = [one.activate("a"), two.activate("a"), one.activate("c")]
            tasks = list(map(asyncio.ensure_future, asked))
            await block.arrived.wait()
            await settle()
            block.release.set()
            await asyncio.gather(*tasks)
            journal.fail("-a")
            await two.deactivate("a", force=True)
            journal.failing.clear()

            async def reach(context: HookContext) -> None:
                await two.activate("b")

            async def again(context: HookContext) -> None:
                await context.session.activate("b")

            journal.acting |= {"+a.x": reach, "+a.y": again}
            await one.activate("a.x")
            with suppress(HookFailed):
                await one.activate("a.y")

    return await recorded(desk(journal), play)


async def gates(*texts: str) -> Trace:
    """Groups that open on the success of a tool, one that fails for each of the texts, and one that a handler opens."""
    tools = ToolSet("gates")
    tools.register("observe", lambda: "seen")
    tools.register_group("gate", opens_on=success_of("observe"))

    def failing(text: str) -> Callable[[], None]:
        def fail() -> None:
            raise ToolError(text)

        return fail

    for number, text in enumerate(texts):
        tools.register_group(f"door{number}", opens_on=success_of("observe"), on_activate=failing(text))

    async def open_it(context: Context) -> str:
        await context.activate("gate")
        return "open"

    async def play(tools: ToolSet) -> None:
        tools.register("open_it", open_it)
        async with tools.open_session(identity=texts[0] if texts else "s") as session:
            await session.call("observe")
            await session.deactivate("gate")
            await session.call("open_it")
            session.set_fact("f", 1)
            tools.notify_list_changed()

    return await recorded(tools, play)
