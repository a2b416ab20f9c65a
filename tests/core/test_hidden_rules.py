"""SPEC VIS-6: `hidden` as a rule, which decides what is listed and never what may be called.

The flag is in test_visibility.py and test_toolkits.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.core.rules import GROUPS
from tests.core.support import answer, notifications, with_groups
from toolfold import (
    GroupNotFound,
    InvalidDefinition,
    Mode,
    Modes,
    Session,
    ToolSet,
    View,
    Visibility,
    resource,
    tool,
    toolkit,
)
from toolfold._catalog.components import KINDS
from toolfold._session.events import Event, PredicateFailed

LOCKED = ~Visibility.when(lambda view: bool(view.facts.get("unlocked")))


def shop(hidden: bool | Visibility, **options: Any) -> ToolSet:
    """Return one component of every kind, hidden under a rule, at root, beside some groups."""
    tools = ToolSet("shop", control="none", **options)
    for path in GROUPS:
        tools.register_group(path)
    tools.register("wipe", answer, hidden=hidden)
    tools.register_prompt("review", answer, hidden=hidden)
    tools.register_resource("shop://ledger", answer, hidden=hidden)
    tools.register_resource_template("shop://items/{id}", lambda arguments: "done", hidden=hidden)
    return tools


def listed(session: Session) -> list[int]:
    """Return how much is listed of each kind."""
    return [len(session.list(kind).items) for kind in KINDS]


async def used(session: Session) -> list[str]:
    """Return the outcome of using everything by its name."""
    prompt = await session.get_prompt("review")
    contents = [await session.read(uri) for uri in ("shop://ledger", "shop://items/5")]
    return [
        (await session.call("wipe")).text,
        prompt["messages"][0]["content"]["text"],
        *(content["contents"][0]["text"] for content in contents),
    ]


@pytest.mark.spec("VIS-6", "REG-9", "SES-5")
async def test_what_is_hidden_until_a_session_is_unlocked_can_be_used_all_the_time() -> None:
    """Document D, session-gated visibility: gating the list is for the eye, and no authorisation."""
    async with shop(LOCKED).open_session() as session:
        assert (listed(session), await used(session)) == ([0, 0, 0, 0], ["done"] * 4)
        session.set_fact("unlocked", True)
        assert (listed(session), await used(session)) == ([1, 1, 1, 1], ["done"] * 4)


@pytest.mark.spec("VIS-6", "NTF-1")
async def test_a_change_of_what_is_hidden_notifies_like_any_change_of_a_list() -> None:
    async with shop(LOCKED | Visibility.group("a")).open_session() as session:
        notified = notifications(session)
        session.set_fact("unrelated", True)
        assert notified == []
        session.set_fact("unlocked", True)
        assert notified == [set(KINDS)]
        await session.activate("b")
        assert notified == [set(KINDS)]
        assert (await session.transition(activate=["a"])).list_changed
        assert notified == [set(KINDS)] * 2


@pytest.mark.spec("VIS-6", "LST-5")
async def test_a_hiding_predicate_is_not_evaluated_while_a_required_group_is_inactive() -> None:
    asked: list[View] = []

    def hide(view: View) -> bool:
        asked.append(view)
        return False

    tools = with_groups("a", control="none")
    tools.register("t", answer, hidden=Visibility.when(hide) | ~Visibility.group("a"))
    assert (tools.list_tools().names, asked) == ((), [])
    await tools.activate_group("a")
    asked.clear()
    assert (tools.list_tools().names, len(asked)) == (("t",), 1)


@pytest.mark.spec("VIS-4", "VIS-6", "SAF-2")
@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
async def test_a_hiding_predicate_that_raises_hides_its_own_tool_and_is_reported_once(
    error: type[BaseException],
) -> None:
    def fail(view: View) -> bool:
        raise error("broken")

    received: list[Event] = []
    tools = ToolSet("t")
    tools.observe(received.append)
    tools.register("bad", answer, hidden=Visibility.when(fail))
    tools.register("worse", answer, hidden=~Visibility.when(fail))
    tools.register("good", answer)
    for _ in range(3):
        assert tools.list_tools().names == ("good",)
        assert (await tools.call_tool("bad")).text == "done"
    failures = [(event.name, str(event.error)) for event in received if isinstance(event, PredicateFailed)]
    assert failures == [("bad", "broken"), ("worse", "broken")]


async def never(view: View) -> bool:
    return True


@pytest.mark.spec("VIS-4", "VIS-6", "REG-1")
@pytest.mark.parametrize(
    ("hidden", "error", "problem"),
    [
        (Visibility.group("nope"), GroupNotFound, "There is no group 'nope'"),
        (~Visibility.group("nope") & LOCKED, GroupNotFound, "There is no group 'nope'"),
        (Visibility.when(never), InvalidDefinition, "'wipe' can't be registered: its visibility predicate is async"),  # type: ignore[arg-type]
        (Visibility.group(5), InvalidDefinition, "group 5, and a group is named by a text"),  # type: ignore[arg-type]
        ("yes", InvalidDefinition, "its hidden is 'yes', and must be true, false or a visibility rule"),
        (lambda view: True, InvalidDefinition, "must be true, false or a visibility rule"),
    ],
)
def test_an_invalid_hiding_rule_is_refused_like_a_visibility_rule(
    hidden: Any, error: type[Exception], problem: str
) -> None:
    tools = ToolSet("t")
    before = tools.catalog
    with pytest.raises(error, match=problem):
        tools.register("wipe", answer, hidden=hidden)
    assert tools.catalog is before


@pytest.mark.spec("KIT-1", "KIT-4", "VIS-6")
async def test_marks_and_toolkits_take_a_rule_and_it_is_overridden_like_the_flag() -> None:
    unlocked = Visibility.when(lambda view: bool(view.facts.get("unlocked")))

    @toolkit(visible=unlocked)
    class Kit:
        @tool
        def late(self) -> None: ...

        @tool(hidden=False)
        def shown(self) -> None: ...

        @tool(hidden=unlocked)
        def early(self) -> None: ...

        @resource("kit://text")
        def text(self) -> str:
            return ""

    async def names(**options: Any) -> list[tuple[str, ...]]:
        tools = ToolSet("t")
        tools.include(Kit(), **options)
        async with tools.open_session() as session:
            before = session.list_tools().names, session.list("resource").names
            session.set_fact("unlocked", True)
            return [before[0], session.list_tools().names, before[1], session.list("resource").names]

    assert await names() == [("early", "shown"), ("late", "shown"), (), ("kit://text",)]
    assert await names(hidden=False) == [("early", "late", "shown")] * 2 + [("kit://text",)] * 2
    assert await names(visible=~unlocked) == [("early", "late", "shown"), (), ("kit://text",), ()]


@pytest.mark.spec("CAT-1", "VIS-6")
@pytest.mark.parametrize("everything", [False, True])
async def test_the_catalog_tool_shows_what_is_hidden_in_the_callers_state(everything: bool) -> None:
    tools = shop(LOCKED)
    tools.register_catalog_tool(hidden=True, everything=everything)
    async with tools.open_session() as session:

        async def hidden(**arguments: Any) -> dict[str, dict[str, bool]]:
            sections = (await session.call("catalog", arguments)).structured
            return {section: {one["name"]: one["hidden"] for one in received} for section, received in sections.items()}

        everyone = {
            "tools": {"catalog": True, "wipe": True},
            "prompts": {"review": True},
            "resources": {"shop://ledger": True},
            "resource_templates": {"shop://items/{id}": True},
        }
        assert await hidden() == everyone
        assert await hidden(include_hidden=False) == {section: {} for section in everyone}
        session.set_fact("unlocked", True)
        assert await hidden(include_hidden=False) == {
            "tools": {"wipe": False},
            "prompts": {"review": False},
            "resources": {"shop://ledger": False},
            "resource_templates": {"shop://items/{id}": False},
        }


@pytest.mark.spec("MOD-1", "VIS-6", "VIS-4")
async def test_a_composite_tool_can_be_hidden_under_a_rule_and_is_reported_as_itself() -> None:
    def hide(view: View) -> bool:
        return bool(view.state["hide"])

    received: list[Event] = []
    state: dict[str, bool] = {"on": True, "hide": True}
    tools = ToolSet("t", state=lambda: dict(state))
    tools.observe(received.append)
    modes = Modes("what", {"on": Mode(available=lambda view: view.state["on"]), "off": Mode()})
    tools.register("observe", lambda what: what, input_schema=None, hidden=Visibility.when(hide), modes=modes)
    assert tools.list_tools().names == ()
    assert (await tools.call_tool("observe", {"what": "on"})).text == "on"
    state["hide"] = False
    assert tools.list_tools().names == ("observe",)
    state.clear()
    state["on"] = True
    assert tools.list_tools().names == tools.list_tools().names == ()
    assert [event.name for event in received if isinstance(event, PredicateFailed)] == ["observe"]


@pytest.mark.spec("VIS-1")
def test_rules_can_not_be_combined_by_and_or_not_which_would_lose_one_of_them() -> None:
    one: Any = Visibility.group("a")
    other: Any = Visibility.group("b")
    combinations: list[Callable[[], Any]] = [lambda: one and other, lambda: one or other, lambda: not one]
    for combine in combinations:
        with pytest.raises(TypeError) as refused:
            combine()
        assert str(refused.value) == (
            "A visibility rule is neither true nor false: combine rules with &, | and ~, not and, or, not."
        )
