"""Hooks of a session's transitions (SPEC HOOK-1 to HOOK-9): order, failure, reports, time-outs, force."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tests.core.support import SWITCH, UNDONE, WAIT, Journal, notifications, opened, switch
from toolfold import HookContext, HookFailed, HookTimeout, Session, ToolError, ToolSet, success_of
from toolfold._session.events import Committed, HooksFailed, RolledBack
from toolfold._toolset.control import ERROR_META

# Running


@pytest.mark.spec("HOOK-1")
async def test_sync_and_async_hooks_run_with_or_without_their_context() -> None:
    lines: list[str] = []

    async def with_context(context: HookContext) -> None:
        await checkpoint()
        lines.append(f"{context.phase} {context.group} {context.session.id} {dict(context.facts)}")

    async def without_context() -> None:
        await checkpoint()
        lines.append("async")

    tools = ToolSet("kinds")
    tools.register_group("a", on_activate=with_context, on_deactivate=without_context)
    tools.register_group("b", on_activate=lambda: lines.append("sync"), on_deactivate=lambda context: without_context())
    async with tools.open_session(identity="me") as session:
        session.set_fact("f", 1)
        await session.activate("a")
        await session.activate("b")
        assert lines == ["on_activate a me {'f': 1}", "sync"]
    assert lines[2:] == ["async", "async"]


@pytest.mark.spec("HOOK-1", "SES-6")
async def test_hooks_run_however_a_group_is_activated_and_deactivated() -> None:
    journal = Journal()
    tools = ToolSet("ways")
    tools.register_group("a", **journal.of("a"))
    tools.register_group("gate", opens_on=success_of("look"), **journal.of("gate"))
    tools.register("look", lambda: "seen")
    tools.register("open", lambda values, context: context.activate("a"), input_schema={"type": "object"})
    ways: dict[str, Callable[[Session], Awaitable[Any]]] = {
        "code": lambda session: session.activate("a"),
        "transition": lambda session: session.transition(activate=["a"]),
        "control tool": lambda session: session.call("a.activate"),
        "handler": lambda session: session.call("open"),
    }
    for way, go in ways.items():
        async with tools.open_session() as session:
            await go(session)
            assert journal.take() == ["+a"], way
        assert journal.take() == ["-a"]
    async with tools.open_session() as session:
        await session.call("look")
        await session.call("a.activate")
        await session.call("a.deactivate")
        assert journal.take() == ["+gate", "+a", "-a"]
    await tools.activate_group("a")
    await tools.deactivate_group("a")
    assert journal.take() == ["-gate", "+a", "-a"]


@pytest.mark.spec("HOOK-3")
async def test_canonical_order_compares_segments_and_not_texts() -> None:
    journal = Journal()
    tools = ToolSet("order")
    for path in ("a-b", "a", "a.c", "B", "a.C", "a-b.z", "a.c.d"):
        tools.register_group(path, **journal.of(path))
    order = ["B", "a", "a.C", "a.c", "a.c.d", "a-b", "a-b.z"]
    async with tools.open_session(active=sorted(order)):
        assert journal.take() == [f"+{path}" for path in order]
    assert journal.take() == [f"-{path}" for path in reversed(order)]


# Failing


@pytest.mark.spec("HOOK-4", "HOOK-5", "NTF-1", "ACT-9")
@pytest.mark.parametrize("position", range(len(SWITCH)))
@pytest.mark.parametrize("undoing_fails", [False, True])
async def test_wherever_a_hook_fails_those_before_it_are_undone_and_the_snapshot_is_unchanged(
    position: int, undoing_fails: bool
) -> None:
    journal = Journal()
    session = await opened(journal, "a", "a.x", "a.y")
    before, notified, received = session.snapshot, notifications(session), list[Any]()
    session.tools.observe(received.append)
    undone = list(reversed(UNDONE[:position]))
    journal.fail(SWITCH[position], *(undone if undoing_fails else ()))
    with pytest.raises(HookFailed) as raised:
        await switch(session)
    assert journal.take() == [*SWITCH[: position + 1], *undone]
    assert session.snapshot is before
    assert notified == []
    assert received == [RolledBack(session.id, raised.value)]
    phase = "on_deactivate" if position < 3 else "on_activate"
    assert (raised.value.group, raised.value.phase) == (SWITCH[position][1:], phase)
    assert raised.value.__cause__ is journal.failing[SWITCH[position]]
    assert raised.value.compensation == tuple(journal.failing[line] for line in undone if undoing_fails)
    journal.failing.clear()
    assert await switch(session)
    assert session.active == ("b", "b.z")


# Reporting failures


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, BaseException | None]]:
    """Return the messages that are errors or warnings, each with the error in its traceback, and forget them."""
    records = [record for record in caplog.records if record.levelno >= logging.WARNING]
    caplog.clear()
    return [(record.getMessage(), record.exc_info[1] if record.exc_info else None) for record in records]


@pytest.mark.spec("HOOK-4", "SAF-3")
async def test_a_failed_hook_is_logged_in_full_once_whatever_made_it_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    journal = Journal()
    journal.fail("+b", "-a")
    session = await opened(journal, "a", max_sessions=2, when_full="end_idlest")
    opening = (f"session {session.id}: on_activate of group b failed", journal.failing["+b"])
    closing = (f"session {session.id}: on_deactivate of group a failed", journal.failing["-a"])
    ways: list[tuple[Callable[[], Awaitable[Any]], Any]] = [
        (lambda: session.transition(activate=["b", "c"]), closing),
        (lambda: session.call("a.deactivate"), closing),
        (lambda: session.deactivate("a", force=True), closing),
        (lambda: session.activate("b"), opening),
        (lambda: session.call("b.activate"), opening),
    ]
    for ask, line in ways:
        with suppress(HookFailed):
            await ask()
        assert logged(caplog) == [line]
    assert await session.activate("a")
    with suppress(ExceptionGroup):
        await session.close()
    assert logged(caplog) == [closing]
    idle = await session.tools.open_session(active=["a"], identity="idle").start()
    with suppress(HookFailed):
        await session.tools.open_session(active=["b"], identity="new").start()
    assert logged(caplog) == [("session new: on_activate of group b failed", journal.failing["+b"])]
    await session.tools.open_session(identity="one").start()
    await session.tools.open_session(identity="two").start()
    assert not idle.is_open
    assert logged(caplog) == [("session idle: on_deactivate of group a failed", journal.failing["-a"])]


@pytest.mark.spec("HOOK-5", "SAF-3")
async def test_a_failure_while_undoing_is_logged_in_full_and_reported_to_observers_with_the_cause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    journal, received = Journal(), list[Any]()
    session = await opened(journal)
    session.tools.observe(received.append)
    journal.fail("+b", "undo -c", "undo -b")
    journal.block("+b.z")
    with pytest.raises(HookFailed):
        await session.transition(activate=["c", "b"])
    assert logged(caplog) == [(f"session {session.id}: on_activate of group b failed", journal.failing["+b"])]
    (event,) = received
    assert isinstance(event, RolledBack)
    assert (event.error.__cause__, event.error.compensation) == (journal.failing["+b"], ())

    received.clear()
    del journal.failing["+b"]
    journal.fail("+c")
    with pytest.raises(HookFailed):
        await session.transition(activate=["c", "b"])
    assert logged(caplog) == [
        (f"session {session.id}: on_activate of group c failed", journal.failing["+c"]),
        (
            f"session {session.id}: on_deactivate of group b, which was to undo on_activate, failed",
            journal.failing["undo -b"],
        ),
    ]
    (event,) = received
    assert (event.error.__cause__, event.error.compensation) == (journal.failing["+c"], (journal.failing["undo -b"],))


@pytest.mark.spec("HOOK-4", "CTL-5", "SAF-3")
@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (ToolError("The vault is locked: ask for the key."), "The vault is locked: ask for the key."),
        (ToolError("the disk is full"), "the disk is full."),
        (ToolError(""), None),
        (RuntimeError("password=1234"), None),
        (TimeoutError("db.internal:5432"), None),
        (SystemExit("password=1234"), None),
    ],
    ids=["sentence", "phrase", "nothing", "foreign", "its own time-out", "exit"],
)
async def test_the_caller_is_given_the_reason_of_a_failed_hook_if_it_is_a_tool_error(
    cause: BaseException, reason: str | None
) -> None:
    journal = Journal()
    session = await opened(journal)
    journal.failing["+a"] = cause
    with pytest.raises(HookFailed) as raised:
        await session.activate("a")
    assert raised.value.reason == reason
    texts = (str(raised.value), (await session.call("a.activate")).text)
    for text in texts:
        assert "1234" not in text
        assert "5432" not in text
        assert reason is None or reason in text
    assert ("Reason" in texts[1]) == (reason is not None)


@pytest.mark.spec("HOOK-6", "CTL-5")
async def test_a_hook_that_takes_too_long_is_reported_to_the_caller_as_that(caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal()
    session = await opened(journal, hook_timeout=0.001)
    journal.block("+a")
    with anyio.fail_after(WAIT):
        with pytest.raises(HookFailed, match=r"failed, so nothing was changed\. It took longer than 0\.001 s\.$"):
            await session.activate("a")
        assert "Reason: It took longer than 0.001 s." in (await session.call("a.activate")).text
    (_, error), _ = logged(caplog)
    assert isinstance(error, HookTimeout)
    assert error.seconds == 0.001
    assert isinstance(error.__cause__, asyncio.CancelledError)  # its traceback shows where the hook was


@pytest.mark.spec("HOOK-7", "CTL-5")
async def test_a_hook_that_asks_its_own_session_for_a_change_is_reported_to_the_caller_as_that() -> None:
    journal = Journal()
    session = await opened(journal)
    journal.acting["+a"] = lambda context: context.session.activate("c")
    result = await session.call("a.activate")
    assert "Reason: It asked its own session for a change, or another one that waits for it." in result.text
    assert session.id not in result.text
    assert (result.meta or {})[ERROR_META]["cause"] == "ReentrantTransition"


@pytest.mark.spec("HOOK-8", "HOOK-9")
async def test_the_error_of_a_forced_transition_does_not_claim_that_nothing_was_changed() -> None:
    journal = Journal()
    session = await opened(journal, "a")
    journal.fail("-a")
    with pytest.raises(ExceptionGroup) as raised:
        await session.close()
    (failure,) = raised.value.exceptions
    assert str(failure).startswith("The on_deactivate hook of group 'a' failed, and the group was closed all the same;")


# Time-outs


@pytest.mark.spec("HOOK-6", "HOOK-5")
async def test_compensation_has_a_timeout_too() -> None:
    journal = Journal()
    session = await opened(journal, "a", "a.x", hook_timeout=0.001)
    journal.block("undo +a")
    journal.fail("+b")
    with anyio.fail_after(WAIT), pytest.raises(HookFailed) as raised:
        await session.activate("b")
    assert [type(error) for error in raised.value.compensation] == [HookTimeout]
    assert raised.value.__cause__ is journal.failing["+b"]
    assert journal.take() == ["-a.x", "-a", "+b", "undo +a", "undo +a.x"]


# Force


@pytest.mark.spec("HOOK-8")
async def test_a_forced_deactivation_completes_and_reports_what_failed() -> None:
    journal = Journal()
    session = await opened(journal, "a", "a.x", "a.y")
    received, notified = list[Any](), notifications(session)
    session.tools.observe(received.append)
    journal.fail("-a.y", "-a")
    with pytest.raises(HookFailed):
        await session.deactivate("a")
    received.clear()
    journal.take()
    assert await session.deactivate("a", force=True)
    assert journal.take() == ["-a.y", "-a.x", "-a"]
    assert not session.active
    assert len(notified) == 1
    committed, failed = received
    assert isinstance(committed, Committed)
    assert isinstance(failed, HooksFailed)
    assert [error.__cause__ for error in failed.failures] == [journal.failing["-a.y"], journal.failing["-a"]]
    assert committed.change.failures == failed.failures


@pytest.mark.spec("SAF-3", "HOOK-4")
async def test_a_refusal_that_a_hook_foresees_is_one_line_of_the_log_and_no_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse() -> None:
        raise ToolError("the key\nis missing")

    tools = ToolSet("t")
    tools.register_group("vault", on_activate=refuse)
    with caplog.at_level("INFO", "toolfold"), pytest.raises(HookFailed):
        await tools.activate_group("vault")
    (record,) = caplog.records
    assert (record.levelname, record.exc_info) == ("INFO", None)
    assert record.getMessage().endswith("on_activate of group vault refused: 'the key\\nis missing'")
