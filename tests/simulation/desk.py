"""The tool set of each replica, and what its hooks do to the world."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from random import Random

import anyio

from toolfold import Context, HookContext, StoreError, ToolError, ToolfoldError, ToolSet

PATHS = ("a", "a.b", "bad", "plain", "x")
"""The groups in canonical order; `plain` has no hooks, and the one of `bad` fails."""
OPPOSITE = {"open": "close", "close": "open"}
PAUSE = 0.02
"""Seconds that a hook may take."""

Note = Callable[[str, int | None, str], None]
"""Notes a line for a session, under the fencing token of its lease."""


def make_tools(note: Note, process: str, random: Random, pause: float = PAUSE, *, in_threads: bool = False) -> ToolSet:
    """Return a tool set whose hooks take a while, so that processes end in the middle of them.

    Args:
        note: Notes what hooks do, by the key of their session.
        process: The process that they run in.
        random: What is drawn.
        pause: Seconds that a hook waits, twice, at most.
        in_threads: Whether hooks are plain functions, which run in worker threads, and so can't be stopped.
    """
    tools = ToolSet("desk", hook_timeout=30)

    async def hook(verb: str, context: HookContext) -> None:
        of = partial(note, context.session.id, context.fence)
        of(f"{process} begins")
        try:
            await anyio.sleep(random.random() * pause)
            of(_done(verb, context))
            try:
                await anyio.sleep(random.random() * pause)
            except BaseException:
                of(f"undo {OPPOSITE[verb]} {context.group}")
                raise
        finally:
            of(f"{process} ends")

    def plain_hook(verb: str, context: HookContext) -> None:
        for line in (f"{process} begins", _done(verb, context), f"{process} ends"):
            note(context.session.id, context.fence, line)

    async def fail() -> None:
        raise ToolError("it never opens")

    async def probe() -> str:
        return "here"

    chosen = plain_hook if in_threads else hook
    for path in ("x", "a", "a.b"):
        tools.register_group(path, path, on_activate=partial(chosen, "open"), on_deactivate=partial(chosen, "close"))
    tools.register_group("plain", "without hooks")
    tools.register_group("bad", "never opens", on_activate=fail)
    for path in PATHS:
        tools.register("probe", probe, description="Be here.", group=path, input_schema={"type": "object"})
    tools.register_exclusion("x", "a")

    @tools.tool()
    async def step(activate: list[str], deactivate: list[str], context: Context) -> str:
        """Change groups in one transition, and answer what changed."""
        try:
            change = await context.session.transition(activate=activate, deactivate=deactivate)
        except StoreError:
            raise
        except ToolfoldError as error:
            return json.dumps({"error": type(error).__name__})
        return json.dumps({"activated": change.activated, "deactivated": change.deactivated})

    @tools.tool("note")
    async def set_fact(name: str, value: int, context: Context) -> str:
        """Set a fact."""
        context.session.set_fact(name, value)
        return json.dumps({})

    @tools.tool()
    async def look(context: Context) -> str:
        """Answer with the state of the session."""
        snapshot = context.session.snapshot
        return json.dumps({"active": snapshot.active, "facts": dict(snapshot.facts), "session": context.session.id})

    return tools


def _done(verb: str, context: HookContext) -> str:
    """Return the line of a hook that has done what it is for, or has undone what its opposite did."""
    return f"{'undo ' if context.undoes else ''}{verb} {context.group}"
