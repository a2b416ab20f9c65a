"""A tool set in an agent of each framework: what holds in all of them (SPEC INT-2)."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import Any

import anyio
import pytest

from tests.adapters.integrations.frameworks import FRAMEWORKS
from tests.adapters.integrations.support import START, Framework, closing, desk, opening
from tests.blocked import all_blocked
from toolfold import ConfigError, Context, HookFailed, InputRequired, Profile, SessionClosed, ToolSet
from toolfold_adapters.stores import MemoryStore

DB = [*START, "db__query"]
WAIT = 60  # seconds


@pytest.fixture(params=[*FRAMEWORKS.values()], ids=[*FRAMEWORKS])
def run(request: pytest.FixtureRequest) -> Framework:
    framework: Framework = request.param
    return framework


@pytest.mark.spec("INT-2")
async def test_each_step_is_given_the_tools_that_are_open_by_then(run: Framework) -> None:
    result = await run(desk(), opening("db"), opening("db.write"), closing("db.write"))
    assert result.listed == [sorted(names) for names in (START, DB, [*DB, "db__write__insert"], DB)]
    assert "- db__query: Return rows." in result.answers[0]


@pytest.mark.spec("INT-2", "SES-3")
async def test_a_run_has_a_session_of_its_own_whose_hooks_end_with_it(run: Framework) -> None:
    ran: list[str] = []
    tools = desk(ran)
    await run(tools, opening("db"), opening("shop"), opening("db"))
    assert ran == ["activate db", "deactivate db", "activate db", "deactivate db"]
    assert not tools.sessions
    assert (await run(tools, opening("shop"))).listed[0] == START


@pytest.mark.spec("INT-2", "GRP-6")
async def test_a_run_that_continues_a_history_has_its_groups_and_facts(run: Framework) -> None:
    tools = desk()

    @tools.tool(group="db")
    async def both(context: Context) -> str:
        """Open a group and set a fact, which no message shows."""
        context.session.set_fact("checked", True)
        await context.activate("db.write")
        return "both"

    @tools.tool()
    def checked(context: Context) -> bool:
        return context.session.facts.get("checked") is True

    first = await run(tools, opening("db"), [("db__both", {})], opening("nothing"))
    again = await run(tools, [("checked", {})], history=first.messages)
    assert again.listed[0] == first.listed[-1]
    assert "db__write__insert" in again.listed[0]
    assert again.answers == ["true"]


@pytest.mark.spec("INT-2", "STO-1")
async def test_a_run_continues_a_session_in_a_store_in_another_process(run: Framework) -> None:
    ran: list[str] = []
    store = MemoryStore()
    async with desk(ran).stored_sessions(store) as stored, stored.open("chat-42") as session:
        await run(session, opening("db"))
    async with desk(ran).stored_sessions(store) as stored, stored.open("chat-42") as session:
        result = await run(session, [("db__query", {"limit": 1})])
        assert result.listed[0] == sorted(DB)
        assert not session.is_active("db.write")
    assert ran == ["activate db"]


@pytest.mark.spec("INT-2", "GRP-6")
async def test_of_calls_that_end_in_another_order_than_they_were_written_the_latest_state_counts(
    run: Framework,
) -> None:
    tools, quick_was_called = desk(), anyio.Event()

    @tools.tool()
    async def late(context: Context) -> str:
        """Open a group in the end."""
        with anyio.fail_after(WAIT):
            await quick_was_called.wait()
            await all_blocked()
        await context.activate("db")
        return "late"

    @tools.tool()
    async def quick() -> str:
        """Return at once."""
        quick_was_called.set()
        return "quick"

    result = await run(tools, [("late", {}), ("quick", {})])
    assert result.answers == ["late", "quick"]
    again = await run(tools, history=result.messages)
    assert "db__query" in result.listed[1]
    assert "db__query" in again.listed[0]


@pytest.mark.spec("INT-2", "AGT-2")
async def test_the_calls_of_one_step_run_as_the_model_wrote_them(run: Framework) -> None:
    calls = [*opening("db"), ("ping", {}), *opening("shop"), *opening("db.write"), *opening("db"), *opening("db.write")]
    result = await run(desk(), calls)
    opened, pong, shop, refused, again, write = result.answers
    assert ("db is open" in opened, pong, "Closed to make room: db" in shop) == (True, "pong", True)
    assert "open_group" in refused
    assert ("shop" in again, "db.write is open" in write) == (True, True)
    assert "db__write__insert" in result.listed[1]


@pytest.mark.spec("INT-2", "CALL-2", "CALL-3")
async def test_a_call_that_fails_is_answered_and_the_run_goes_on(run: Framework) -> None:
    wrong = [("db__query", {"limit": "x"})]
    result = await run(desk(), opening("db", "shop"), [("shop__sell", {})], opening("db"), wrong)
    assert result.answers[2] == "nothing left to sell"
    assert result.answers[4].startswith("Invalid arguments for db__query: arguments.limit")
    assert len(result.listed) == 5


async def test_a_tool_whose_group_closed_in_the_same_step_is_refused_with_a_hint(run: Framework) -> None:
    result = await run(desk(on_hidden="hint"), opening("shop"), [*closing("shop"), ("shop__seen", {})])
    assert "Unknown tool: shop__seen (it needs the group shop" in result.answers[-1]


async def test_a_call_of_a_tool_that_the_model_was_not_given_is_answered_and_the_run_goes_on(run: Framework) -> None:
    result = await run(desk(), [("db__query", {"limit": 1})], opening("db"))
    assert "db__query" in result.answers[0]
    assert '"rows"' not in result.answers[0]
    assert "db__query" in result.listed[-1]


@pytest.mark.spec("CALL-5")
async def test_a_handler_is_given_what_the_framework_has_for_a_call(run: Framework) -> None:
    result = await run(desk(), opening("shop"), [("shop__seen", {})])
    assert result.answers[1] in ("RunContext", "ToolContext", "ToolRuntime")


async def test_arguments_may_have_the_names_of_the_parameters_of_a_framework(run: Framework) -> None:
    result = await run(desk(), opening("db"), opening("db.write"), [("db__write__insert", {"config": "self"})])
    assert result.answers[-1] == "inserted self"


async def test_a_tool_that_asks_its_caller_for_input_fails_with_the_reason(run: Framework) -> None:
    tools = desk()

    @tools.tool()
    def ask() -> InputRequired:
        """Ask."""
        return InputRequired({"name": {"method": "elicitation/create"}})

    result = await run(tools, [("ask", {})])
    assert result.answers == ["ask failed: it asks its caller for input, which is possible over MCP only."]


@pytest.mark.spec("INT-2", "SES-7")
async def test_a_sub_agent_has_what_its_parent_has_open_and_each_goes_on_alone(run: Framework) -> None:
    ran: list[str] = []
    tools = desk(ran)
    children: list[Any] = []

    @tools.tool(group="db")
    async def delegate(context: Context) -> str:
        """Have a sub-agent do it."""
        async with context.session.fork() as session:
            children.append(await run(session, opening("db.write")))
            assert session.is_active("db.write")
        return "delegated"

    result = await run(tools, opening("db"), [("db__delegate", {})])
    [child] = children
    assert child.listed[0] == result.listed[-1] == sorted([*DB, "db__delegate"])
    assert "db__write__insert" in child.listed[1]
    assert ran == [
        *("activate db", "activate db", "activate db.write"),
        *("deactivate db.write", "deactivate db", "deactivate db"),
    ]


@pytest.mark.spec("PRO-1")
async def test_a_profile_and_initial_groups_apply_to_the_sessions(run: Framework) -> None:
    tools = desk()
    tools.register_profile(Profile(name="readers", available=("db",)))
    result = await run(tools, opening("shop"), profile="readers", active="db")
    assert result.listed[0] == sorted(DB)
    assert result.answers[0] != ""
    assert "shop__sell" not in result.listed[1]


# -- bad input --------------------------------------------------------------------------------------------------------


async def test_what_is_no_tool_set_is_refused_with_what_to_pass(run: Framework) -> None:
    with pytest.raises(ConfigError, match=r"^list is no tool set; pass a ToolSet, or an open session of one"):
        await run([desk()])


async def test_an_unknown_profile_is_an_error_where_the_toolset_is_made(run: Framework) -> None:
    with pytest.raises(ConfigError, match="profile 'no'"):
        await run(desk(), profile="no")


async def test_a_session_is_refused_with_groups_to_start_with_and_when_it_is_over(run: Framework) -> None:
    async with desk().open_session() as session:
        with pytest.raises(ConfigError, match="A session has its groups and its profile"):
            await run(session, active="db")
    with pytest.raises(SessionClosed, match="is not open"):
        await run(session)


async def test_a_run_whose_initial_group_can_not_be_set_up_fails(run: Framework) -> None:
    def fail() -> None:
        raise OSError("no connection")

    tools = ToolSet("desk")
    tools.register_group("a", on_activate=fail)
    with pytest.raises(HookFailed):
        await run(tools, [("a__close", {})], active="a")
    assert not tools.sessions


@pytest.mark.parametrize(
    ("module", "framework", "installed", "remedy"),
    [
        (
            "pydantic_ai",
            "pydantic_ai",
            "2.67.9",
            'pydantic-ai >=2.68,<3: pip install --upgrade "toolfold[pydantic-ai]"',
        ),
        ("openai_agents", "agents", "1.0", 'openai-agents >=0.24,<1: pip install --upgrade "toolfold[openai-agents]"'),
        ("langchain", "langchain", "0.3.27", 'langchain >=1.4,<2: pip install --upgrade "toolfold[langchain]"'),
    ],
)
def test_a_version_that_is_not_supported_is_named_with_the_remedy(
    module: str, framework: str, installed: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"toolfold_adapters.integrations.{module}"
    monkeypatch.setattr(f"{framework}.__version__", installed)
    monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ConfigError, match=re.escape(f"{installed} is installed, and Toolfold works with {remedy}")):
        import_module(name)
