"""SPEC 6: rules and their algebra, the view of one snapshot, failing predicates, hidden components."""

import inspect
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.rules import GROUPS, RULES, Twofold
from tests.core.support import answer
from toolfold import (
    GroupNotFound,
    InvalidDefinition,
    ToolNotFound,
    ToolSet,
    View,
    Visibility,
)
from toolfold._session.events import Event, PredicateFailed


def desk(**settings: Any) -> ToolSet:
    tools = ToolSet("desk", control="none", **settings)
    for path in GROUPS:
        tools.register_group(path)
    return tools


class Watch:
    """A predicate that stores the views that it is called with."""

    def __init__(self, result: Callable[[int], bool] = lambda times: False) -> None:
        self.views: list[View] = []
        self.result = result

    def __call__(self, view: View) -> bool:
        self.views.append(view)
        return self.result(len(self.views))


async def is_callable(tools: ToolSet, name: str) -> bool:
    try:
        await tools.call_tool(name)
    except ToolNotFound:
        return False
    return True


async def is_available(tools: ToolSet, name: str) -> bool:
    """Return whether a tool is listed, and check that it can be called exactly then."""
    listed = name in tools.list_tools().names
    assert await is_callable(tools, name) == listed
    return listed


@pytest.mark.spec("VIS-2")
@pytest.mark.parametrize(("given", "expected"), [(True, True), (False, False), (1, True), ("", False), (None, False)])
async def test_a_predicate_holds_if_its_result_is_true(given: Any, expected: bool) -> None:
    tools = desk()
    tools.register("t", answer, visibility=Visibility.when(lambda view: given))
    assert await is_available(tools, "t") is expected


YES, NO = Visibility.when(lambda view: True), Visibility.when(lambda view: False)
OPEN, ALWAYS = Visibility.group("a"), Visibility.always()


@pytest.mark.spec("VIS-2")
@pytest.mark.parametrize(
    ("rule", "closed", "opened"),
    [
        (None, False, True),
        (YES, False, True),
        (NO, False, False),
        (~NO, False, True),
        (YES | NO, False, True),
        (YES & NO, False, False),
        (ALWAYS, True, True),
        (ALWAYS & YES, True, True),
        (ALWAYS & NO, False, False),
        (NO | OPEN, False, True),
        (~OPEN & YES, True, False),
        (Visibility.group("c"), False, False),
    ],
)
async def test_predicates_alone_narrow_the_rule_of_a_group_and_whatever_names_groups_or_always_replaces_it(
    rule: Visibility | None, closed: bool, opened: bool
) -> None:
    tools = desk()
    tools.register("t", answer, group="a", visibility=rule)
    tools.register_prompt("asked", answer, group="a", visibility=rule)
    tools.register_resource("file:///read", answer, group="a", visibility=rule)
    for expected in (closed, opened):
        assert await is_available(tools, "a.t") is expected
        session = tools.default_session
        assert [bool(session.list(kind).names) for kind in ("prompt", "resource")] == [expected, expected]
        await tools.activate_group("a")


@pytest.mark.spec("VIS-2", "EXP-1")
async def test_nothing_in_a_closed_group_is_callable_before_the_hook_that_opens_its_resources_has_run() -> None:
    opened: list[str] = []
    tools = ToolSet("orders")
    tools.register_group("refunds", on_activate=lambda: opened.append("database"))

    @tools.tool(group="refunds", visibility=Visibility.when(lambda view: bool(view.facts.get("boss"))))
    def pay() -> str:
        return f"paid from the {opened[0]}"

    async with tools.open_session() as session:
        session.set_fact("boss", True)
        assert "refunds.pay" not in session.list_tools().names
        with pytest.raises(ToolNotFound):
            await session.call("refunds.pay")
        await session.activate("refunds")
        assert (await session.call("refunds.pay")).text == "paid from the database"
        session.set_fact("boss", False)
        with pytest.raises(ToolNotFound):
            await session.call("refunds.pay")


NEVER: Twofold = (~Visibility.always(), lambda active: False)


@pytest.mark.spec("VIS-1", "VIS-2", "VIS-6", "VIS-7", "LST-1")
@given(rules=st.lists(st.tuples(RULES, st.just(NEVER) | RULES), min_size=1, max_size=6), data=st.data())
def test_a_tool_is_callable_if_its_rule_holds_and_listed_if_its_hiding_rule_does_not(
    rules: list[tuple[Twofold, Twofold]], data: st.DataObject
) -> None:
    tools = desk()
    for number, ((rule, _), (hiding, _)) in enumerate(rules):
        tools.register(f"t{number}", answer, visibility=rule, hidden=hiding, flat=True)

    async def check() -> None:
        for path in data.draw(st.lists(st.sampled_from(GROUPS), max_size=5)):
            if tools.is_group_active(path):
                await tools.deactivate_group(path)
            elif path != "a.x" or tools.is_group_active("a"):
                await tools.activate_group(path)
            active = set(tools.default_session.active)
            available = {f"t{number}" for number, (rule, _) in enumerate(rules) if rule[1](active)}
            hidden = {f"t{number}" for number, (_, hiding) in enumerate(rules) if hiding[1](active)}
            assert set(tools.list_tools().names) == available - hidden
            assert {f"t{n}" for n in range(len(rules)) if await is_callable(tools, f"t{n}")} == available

    anyio.run(check)


async def never(view: View) -> bool:
    return True


@pytest.mark.spec("VIS-1", "VIS-4", "ERR-2", "REG-1")
@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (5, "5 is not a visibility rule; use Visibility.always, group or when"),
        (Visibility.when(5), "its visibility predicate is not callable"),  # type: ignore[arg-type]
        (Visibility.when(never), "its visibility predicate is async; predicates must answer at once"),  # type: ignore[arg-type]
        (lambda view: True, " is not a visibility rule; use Visibility.always, group or when"),
        (Visibility.always() & 5, "5 is not a visibility rule; use Visibility.always, group or when"),  # type: ignore[operator]
        (Visibility.group("nope"), None),
        (~(Visibility.group("a") | Visibility.group("nope")), None),
    ],
)
def test_what_is_no_rule_or_names_no_group_is_refused(rule: Any, problem: str | None) -> None:
    tools = desk()
    before = tools.catalog
    with pytest.raises(GroupNotFound if problem is None else InvalidDefinition) as caught:
        tools.register("t", answer, visibility=rule)
    assert problem is None or str(caught.value).startswith("'t' can't be registered: ")
    assert problem is None or str(caught.value).endswith(f"{problem}.")
    assert tools.catalog is before


@pytest.mark.spec("VIS-3")
async def test_the_view_has_groups_facts_and_state_and_is_read_only() -> None:
    watch = Watch()
    tools = desk(state=lambda: "ready")
    tools.register("t", answer, visibility=Visibility.when(watch))
    await tools.activate_group("a")
    await tools.activate_group("c")
    tools.default_session.set_fact("n", 1)
    tools.list_tools()
    view = watch.views[-1]
    assert (view.active, dict(view.facts), view.state) == (("a", "c"), {"n": 1}, "ready")
    assert (view.is_group_active("a"), view.is_group_active("b"), view.is_group_active("nope")) == (True, False, False)
    for change in ("active", "facts", "state", "anything"):
        with pytest.raises(AttributeError):
            setattr(view, change, ())
    with pytest.raises(TypeError):
        view.facts["n"] = 2  # type: ignore[index]


@pytest.mark.spec("VIS-3")
async def test_the_predicates_of_one_list_see_one_immutable_snapshot() -> None:
    watch = Watch()
    tools = desk()
    for name in ("t", "u"):
        tools.register(name, answer, visibility=Visibility.when(watch))
    tools.list_tools()
    old, same = watch.views
    assert old.snapshot is same.snapshot is tools.default_session.snapshot
    await tools.activate_group("a")
    tools.default_session.set_fact("n", 1)
    assert (old.active, dict(old.facts)) == ((), {})


@pytest.mark.spec("VIS-4")
async def test_a_predicate_that_raises_makes_only_its_tool_unavailable_and_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(view: View) -> bool:
        raise RuntimeError("broken")

    received: list[Event] = []
    tools = desk()
    tools.observe(received.append)
    tools.register("bad", answer, visibility=Visibility.when(fail))
    tools.register("worse", answer, visibility=~Visibility.when(fail))  # unavailable, even if the failure is negated
    tools.register("good", answer, visibility=Visibility.when(lambda view: True))
    with caplog.at_level(logging.ERROR, "toolfold"):
        for _ in range(3):
            assert tools.list_tools().names == ("good",)
            assert not await is_callable(tools, "bad")
    failures = [event for event in received if isinstance(event, PredicateFailed)]
    assert [(event.kind, event.name, str(event.error)) for event in failures] == [
        ("tool", "bad", "broken"),
        ("tool", "worse", "broken"),
    ]
    assert [record.exc_info is not None for record in caplog.records] == [True, True]


@pytest.mark.spec("VIS-4")
async def test_a_tool_that_was_registered_again_is_reported_again() -> None:
    def fail(view: View) -> bool:
        raise RuntimeError("broken")

    received: list[Event] = []
    tools = desk()
    tools.default_session.is_active("a")
    tools.observe(received.append)
    for round_ in (1, 2):
        if round_ == 2:
            await tools.unregister_group("a")
            tools.register_group("a")
        tools.register("bad", answer, group="a", visibility=Visibility.always() & Visibility.when(fail))
        tools.list_tools()
        assert len(received) == round_


class AsyncCallable:
    async def __call__(self, view: View) -> bool:
        return True


@pytest.mark.spec("VIS-4", "REG-1")
@pytest.mark.parametrize("predicate", [never, partial(never), AsyncCallable(), partial(AsyncCallable())])
@pytest.mark.parametrize(
    "wrap", [lambda rule: rule, lambda rule: Visibility.group("a") & ~rule], ids=["whole rule", "part of a rule"]
)
def test_an_async_predicate_is_refused_at_registration(predicate: Any, wrap: Callable[[Any], Visibility]) -> None:
    tools = desk()
    before = tools.catalog
    with pytest.raises(InvalidDefinition, match="async"):
        tools.register("t", answer, visibility=wrap(Visibility.when(predicate)))
    assert tools.catalog is before


@pytest.mark.spec("VIS-4")
async def test_a_predicate_that_returns_an_awaitable_makes_its_tool_unavailable() -> None:
    tools = desk()
    given: list[Any] = []

    def predicate(view: View) -> Any:
        given.append(never(view))
        return given[-1]

    received: list[Event] = []
    tools.observe(received.append)
    tools.register("t", answer, visibility=Visibility.when(predicate))
    assert not await is_available(tools, "t")
    states = [inspect.getcoroutinestate(one) for one in given]
    for one in given:
        one.close()
    assert states == [inspect.CORO_CLOSED] * 2
    assert [str(event.error) for event in received if isinstance(event, PredicateFailed)] == [
        "the predicate answered with an awaitable; predicates must answer at once"
    ]


@pytest.mark.spec("VIS-7")
async def test_listing_and_calling_ask_the_same_predicate() -> None:
    watch = Watch(lambda times: times < 3)
    tools = desk()
    tools.register("t", answer, visibility=Visibility.when(watch))
    assert "t" in tools.list_tools().names
    assert await is_callable(tools, "t")
    assert tools.list_tools().names == ()
    assert not await is_callable(tools, "t")
    assert len(watch.views) == 4


WITHHELD, GRANTED = Visibility.when(lambda view: False), Visibility.when(lambda view: True)
HOME, ELSEWHERE = Visibility.group("home"), Visibility.group("elsewhere")


@pytest.mark.spec("SKL-2")
@pytest.mark.parametrize(
    ("rule", "in_home", "in_other"),
    [
        (None, True, True),
        (HOME & GRANTED, True, True),
        (HOME & WITHHELD, False, False),
        (HOME & ~ELSEWHERE, True, True),
        (WITHHELD, False, False),
        (GRANTED, True, True),
        (ELSEWHERE, False, True),
        ((HOME | ELSEWHERE) & WITHHELD, False, False),
    ],
)
async def test_a_shared_tool_has_the_conditions_that_it_had(
    rule: Visibility | None, in_home: bool, in_other: bool
) -> None:
    tools = ToolSet("t")
    for group in ("home", "other", "elsewhere"):
        tools.register_group(group)
    tools.register("tool", lambda: None, group="home", flat=True, visibility=rule)
    tools.share_tool("tool", "other")
    for group, available in (("home", in_home), ("other", in_other)):
        async with tools.open_session(active=[group]) as session:
            assert ("tool" in session.list_tools().names) == available
    assert tools.catalog.tools["tool"].belongs_to("other")
