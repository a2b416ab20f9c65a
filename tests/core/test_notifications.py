"""Notifications of a session's listeners (SPEC 10), and the groups that events open (SPEC SES-6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

import pytest

from tests.core.support import Journal, desk, notifications
from toolfold import (
    HookFailed,
    ParentInactive,
    Profile,
    ProtocolError,
    Session,
    SessionClosed,
    ToolError,
    ToolNotFound,
    ToolSet,
    Visibility,
    success_of,
)
from toolfold._session.events import Committed, EventRefused, NotificationFailed

# Once for each committed transition that changes a list


@pytest.mark.spec("NTF-1")
async def test_a_transition_that_does_not_change_the_lists_does_not_notify() -> None:
    tools = ToolSet("still")
    tools.register_group("empty")
    tools.register_group("hidden")
    tools.register("t", lambda: "done", group="hidden", hidden=True)
    tools.register_group("one")
    tools.register_group("two")
    tools.register_exclusion("one", "two")
    both = Visibility.group("one") | Visibility.group("two")
    tools.register("shared", lambda: "done", visibility=both)
    received = list[Any]()
    tools.observe(received.append)
    async with tools.open_session() as session:
        notified = notifications(session)
        for path in ("empty", "hidden"):
            assert await session.activate(path)
        assert notified == []
        await session.activate("one")
        await session.activate("two")
        assert notified == [{"tool"}]
        changes = [event.change.list_changed for event in received if isinstance(event, Committed)]
        assert changes == [False, False, True, False]


@pytest.mark.spec("NTF-1", "REG-9")
async def test_a_notification_names_the_kinds_of_lists_that_changed() -> None:
    tools = ToolSet("kinds", control="none")
    for path in ("t", "p", "r", "x", "none"):
        tools.register_group(path)
    tools.register("tool", lambda: "done", group="t")
    tools.register_prompt("prompt", lambda: "text", group="p")
    tools.register_resource("file:///r", lambda: "text", group="r")
    tools.register_resource_template("file:///{name}", lambda values: "text", group="x")
    kinds = {"t": "tool", "p": "prompt", "r": "resource", "x": "resource_template"}
    async with tools.open_session() as session:
        notified = notifications(session)
        for path, kind in kinds.items():
            change = await session.transition(activate=[path])
            assert change.lists == notified[-1] == {kind}
            assert change.list_changed is (kind == "tool")
        await session.activate("none")
        assert len(notified) == 4
        await session.transition(deactivate=kinds)
        assert notified[-1] == set(kinds.values())
        assert len(notified) == 5


@pytest.mark.spec("NTF-1")
async def test_predicates_before_and_after_a_transition_see_one_reading_of_the_application_state() -> None:
    tools = ToolSet("predicates", control="none", state=count(1).__next__)
    for path in ("a", "b"):
        tools.register_group(path)
    tools.register("t", lambda: "done", visibility=Visibility.when(lambda view: view.is_group_active("a")))
    tools.register("odd", lambda: "done", visibility=Visibility.when(lambda view: bool(view.state % 2)))
    async with tools.open_session() as session:
        notified = notifications(session)
        await session.activate("b")
        assert notified == []
        await session.activate("a")
        assert notified == [{"tool"}]


# To the listeners of that session, whatever they do


@pytest.mark.spec("NTF-2")
async def test_a_listener_that_raises_neither_undoes_the_transition_nor_silences_other_listeners() -> None:
    tools = desk()
    received = list[Any]()
    tools.observe(received.append)
    failure = RuntimeError("the queue is full")

    def fail(kinds: frozenset[str]) -> None:
        raise failure

    async with tools.open_session() as session:
        session.on_list_changed(fail)
        notified = notifications(session)
        assert await session.activate("a") is True
        assert session.active == ("a",)
        assert notified == [{"tool"}]
        assert received[-1] == NotificationFailed(session.id, failure)
        session.set_fact("f", 1)
        assert session.facts == {"f": 1}


@pytest.mark.spec("NTF-2")
async def test_a_listener_may_remove_itself_and_add_another_while_it_is_notified() -> None:
    async with desk().open_session() as session:
        calls: list[str] = []

        def once(kinds: frozenset[str]) -> None:
            calls.append("once")
            remove()
            session.on_list_changed(lambda kinds: calls.append("later"))

        remove = session.on_list_changed(once)
        session.on_list_changed(lambda kinds: calls.append("always"))
        await session.activate("a")
        assert calls == ["once", "always"]
        await session.activate("c")
        assert calls[2:] == ["always", "later"]


# Without a transition


@pytest.mark.spec("NTF-3")
async def test_registration_notifies_only_on_request() -> None:
    tools = desk()
    async with tools.open_session(active=["a"]) as one, tools.open_session() as other:
        notified, others = notifications(one), notifications(other)
        tools.register("a.new", lambda: "done")
        tools.register_group("d")
        tools.register_exclusion("c", "d")
        tools.unregister("ping")
        assert "a.new" in one.list_tools().names
        assert (notified, others) == ([], [])
        tools.notify_list_changed()
        assert notified == others == [{"tool"}]
        tools.notify_list_changed(["prompt", "resource"])
        one.notify()
        assert notified[1:] == [{"prompt", "resource"}, {"tool"}]
        assert len(others) == 2


@pytest.mark.spec("NTF-3", "ISO-2")
async def test_an_announcement_reaches_the_sessions_of_the_profiles_that_it_concerns() -> None:
    tools = desk()
    narrow = tools.register_profile(Profile("narrow", active=("a",)))
    async with tools.open_session(profile="narrow") as one, tools.open_session() as other:
        notified, others = notifications(one), notifications(other)
        tools.notify_list_changed(concerns=lambda profile: profile is None)
        assert notified == []
        assert others == [{"tool"}]
        tools.notify_list_changed(concerns=lambda profile: profile == narrow)
        assert notified == others == [{"tool"}]


@pytest.mark.spec("NTF-3", "SES-5")
async def test_a_fact_notifies_if_it_changes_the_list() -> None:
    tools = desk()
    tools.register("secret", lambda: "done", visibility=Visibility.when(lambda view: view.facts.get("key") is True))
    async with tools.open_session() as one, tools.open_session() as other:
        notified, others = notifications(one), notifications(other)
        one.set_fact("colour", "red")
        assert notified == []
        one.set_fact("key", True)
        one.set_fact("key", True)
        assert "secret" in one.list_tools().names
        assert notified == [{"tool"}]
        one.set_fact("key", 1)
        assert notified == [{"tool"}] * 2
        assert others == []


# Events that open groups


def gated(**options: Any) -> ToolSet:
    def observe(answer: str) -> str:
        if answer == "raise":
            raise RuntimeError
        if answer == "refuse":
            raise ToolError("nothing to see")
        if answer == "protocol":
            raise ProtocolError(-32000, "no")
        return answer

    tools = ToolSet("gates", **options)
    tools.register("observe", observe)
    tools.register_group("gate", opens_on=success_of("observe"))
    tools.register("t", lambda: "done", group="gate")
    return tools


@pytest.mark.spec("SES-6")
async def test_a_call_that_succeeds_opens_the_group_permanently_before_it_is_answered() -> None:
    async with gated().open_session() as session, gated().open_session() as other:
        notified = notifications(session)
        assert [*session.list_tools().names] == ["observe"]  # no control tools
        assert (await session.call("observe", {"answer": "fine"})).text == "fine"
        assert session.is_active("gate")
        assert [*session.list_tools().names] == ["gate.t", "observe"]
        await session.call("observe", {"answer": "again"})
        await session.call("observe", {"answer": "raise"})
        assert [*session.active] == ["gate"]
        assert notified == [{"tool"}]
        assert not other.active


@pytest.mark.spec("SES-6")
@pytest.mark.parametrize("arguments", [{"answer": "raise"}, {"answer": "refuse"}, {}, {"answer": 1}])
async def test_a_call_that_fails_opens_nothing(arguments: dict[str, Any]) -> None:
    async with gated().open_session() as session:
        assert (await session.call("observe", arguments)).is_error
        with pytest.raises(ProtocolError):
            await session.call("observe", {"answer": "protocol"})
        with pytest.raises(ToolNotFound):
            await session.call("gate.t")
        assert session.active == ()


@pytest.mark.spec("SES-6")
async def test_listing_is_never_an_event() -> None:
    tools = gated()
    tools.register_group("listing", opens_on=success_of("list_tools"))
    reads: Iterable[Callable[[Session], object]] = (Session.list_tools, Session.list_groups)
    async with tools.open_session() as session:
        for read in reads:
            read(session)
        assert session.active == ()


@pytest.mark.spec("SES-6", "HOOK-1", "CTL-1")
async def test_a_gate_can_have_control_tools_too_and_nested_gates_open_in_order() -> None:
    journal = Journal()
    tools = gated()
    tools.register_group("inner", parent="gate", opens_on=success_of("observe"), controls=True, **journal.of("inner"))
    async with tools.open_session() as session:
        assert {"gate.inner.activate", "gate.inner.deactivate"} <= set(session.list_tools().names)
        await session.call("observe", {"answer": "fine"})
        assert session.active == ("gate", "gate.inner")
        assert journal.take() == ["+inner"]
        await session.call("gate.inner.deactivate")
        assert [*session.active] == ["gate"]


@pytest.mark.spec("SES-6")
@pytest.mark.parametrize("reason", ["parent", "hook", "closed"])
async def test_a_gate_that_can_not_open_is_reported_and_does_not_fail_the_call(
    reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal()
    tools = desk(journal)
    journal.fail("+c.gate")
    received = list[Any]()
    tools.observe(received.append)

    async def leave(values: dict[str, Any], context: Any) -> str:
        if reason == "closed":
            await context.session.close()
        return "left"

    parent = "a" if reason == "parent" else "c"
    tools.register("leave", leave, input_schema={"type": "object"})
    tools.register_group("gate", parent=parent, opens_on=success_of("leave"), **journal.of("c.gate"))
    tools.register_group("then", opens_on=success_of("leave"))
    async with tools.open_session(active=["c"]) as session:
        result = await session.call("leave")
        assert (result.text, result.is_error) == ("left", False)
        refusals = [event for event in received if isinstance(event, EventRefused)]
        error = {"parent": ParentInactive, "hook": HookFailed, "closed": SessionClosed}[reason]
        assert [type(event.error) for event in refusals] == [error] * (2 if reason == "closed" else 1)
        assert {(event.session, event.event) for event in refusals} == {(session.id, "leave")}
        assert [
            text.partition(" could not open group ")[2] for text in caplog.messages if " could not open " in text
        ] == [f"{path}: {event.error}" for path, event in zip((f"{parent}.gate", "then"), refusals, strict=False)]
        assert session.active == (() if reason == "closed" else ("c", "then"))
