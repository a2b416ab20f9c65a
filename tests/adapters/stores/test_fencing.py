"""Hooks see the fencing token of their lease, so that outside systems can refuse what comes late (SPEC STO-2)."""

from __future__ import annotations

import pytest

from toolfold import HookContext, LeaseLost, ToolSet
from toolfold_adapters.stores import MemoryStore

pytestmark = pytest.mark.spec("STO-2")


class Account:
    """An outside system that remembers the greatest token it has seen for each session."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}
        self.log: list[str] = []

    def change(self, context: HookContext, who: str) -> None:
        assert context.fence is not None
        late = context.fence < self.seen.get(context.session.id, 0)
        self.seen[context.session.id] = max(context.fence, self.seen.get(context.session.id, 0))
        self.log.append(f"{who}: {context.phase}{' refused' if late else ''}")


async def test_what_a_paused_process_does_after_its_lease_is_recognised_as_late() -> None:
    now, account = [0.0], Account()
    store = MemoryStore(lambda: now[0])

    async def meanwhile() -> None:
        """Have another process take the session over."""
        async with process("second").stored_sessions(store) as stored, stored.open("chat") as session:
            assert session.active == ()
            await session.activate("lock")

    def process(who: str) -> ToolSet:
        tools = ToolSet("desk")

        async def change(context: HookContext) -> None:
            if who == "first":
                now[0] += 2 * store.lease  # it is paused
                await meanwhile()
            account.change(context, who)

        tools.register_group("lock", on_activate=change, on_deactivate=change)
        return tools

    async with process("first").stored_sessions(store) as stored, stored.open("chat") as session:
        with pytest.raises(LeaseLost):
            await session.activate("lock")
    assert account.log == ["second: on_deactivate", "second: on_activate", "first: on_activate refused"]


async def test_hooks_of_one_transition_have_one_token_and_a_session_that_begins_anew_has_greater_ones() -> None:
    fences: list[int | None] = []
    tools = ToolSet("desk")
    for path in ("a", "b"):
        tools.register_group(path, on_activate=lambda context: fences.append(context.fence), run_in_thread=False)
    async with MemoryStore() as store, tools.stored_sessions(store) as stored:
        for _ in range(2):
            async with stored.open("chat") as session:
                await session.transition(activate=["a", "b"])
            await stored.end("chat")
    first, again, second, _ = fences
    assert first == again
    assert first is not None
    assert second is not None
    assert second > first


async def test_a_hook_of_a_session_in_memory_has_no_token() -> None:
    fences: list[int | None] = []
    tools = ToolSet("desk")
    tools.register_group("a", on_activate=lambda context: fences.append(context.fence), run_in_thread=False)
    async with tools.open_session() as session:
        await session.activate("a")
    assert fences == [None]
