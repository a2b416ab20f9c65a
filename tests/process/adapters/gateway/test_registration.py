"""What becomes of a server's definitions."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.adapters.gateway.support import UPSTREAMS, opened, raw
from tests.adapters.gateway.upstreams.raw import FULL
from toolfold import ConfigError, Session
from toolfold_adapters.gateway import (
    GatewayConfig,
    GroupConfig,
    OptionsConfig,
    ProfileConfig,
    UpstreamConfig,
    open_gateway,
)


def listed(session: Session) -> list[str]:
    return [tool.name for tool in session.list_tools().tools]


@pytest.mark.spec("GWY-1")
async def test_a_definition_is_passed_on_unchanged() -> None:
    async with opened(raw("full")) as (_, session):
        (tool,) = session.list_tools().tools
        assert dict(tool.definition) == FULL


@pytest.mark.spec("GWY-1")
async def test_all_pages_of_the_list_are_taken() -> None:
    async with opened(raw("pages")) as (gateway, session):
        assert listed(session) == ["answer", "one", "two"]
        assert gateway.report.server == "raw 1.0"
        assert gateway.report.instructions == "Be kind."


async def test_a_list_whose_pages_never_end_is_cut() -> None:
    async with opened(raw("loop")) as (_, session):
        assert listed(session) == ["answer", "one"]


async def test_a_server_without_tools_is_an_empty_tool_set() -> None:
    async with opened(raw("toolless")) as (_, session):
        assert listed(session) == []


@pytest.mark.spec("REG-6", "GWY-1")
async def test_a_broken_definition_is_left_out_and_reported_and_the_others_stay() -> None:
    async with opened(raw("broken")) as (gateway, session):
        assert listed(session) == ["good", "old_draft", "only_task"]
        assert session.list_tools().tools[1].definition["annotations"] == {"readOnlyHint": True}
    warnings = gateway.report.warnings
    left_out = ["no_schema", "array_root", "bad_schema", "bad_output", "bad_title", "remote"]
    assert [name for name in left_out if any(w.startswith(f"The tool {name!r} is left out: ") for w in warnings)] == (
        left_out
    )
    assert "The tool 'no_schema' is left out: it has no input schema." in warnings
    assert "Tool number 8 of the server's list has no name, so it is left out." in warnings
    assert "Tool number 9 of the server's list has no name, so it is left out." in warnings
    assert "The tool 'good' is listed more than once; the first is used." in warnings
    assert any("'only_task' can only be called as a task" in warning for warning in warnings)
    assert len(warnings) == len(left_out) + 4


@pytest.mark.spec("GWY-1", "NAM-1")
async def test_odd_names_and_those_of_control_tools_are_mapped_and_calls_use_the_original() -> None:
    config = raw("odd").model_copy(update={"options": OptionsConfig(control="load_tool_group")})
    async with opened(config) as (gateway, session):
        names = {original: name for name, original in gateway.report.tools.items()}
        assert names["a_b"] == "a_b"
        assert names["a.b"] == "a_b_2"
        assert names["call_tool"] == "call_tool_2"
        assert names["load_tool_group"] == "load_tool_group_2"
        assert sorted(listed(session)) == sorted([*names.values(), "load_tool_group"])
        for original, name in names.items():
            result = await session.call(name)
            assert f'"name": "{original}"' in result.text.encode().decode("unicode_escape")
    assert len(gateway.report.warnings) == sum(name != original for original, name in names.items())


@pytest.mark.spec("GWY-2")
async def test_without_a_configuration_groups_follow_from_the_names() -> None:
    gateway = open_gateway(raw("words"))
    async with gateway as tools, tools.open_session() as session:
        (group,) = tools.catalog.groups
        assert group.path == "issue"
        assert group.description == "6 tools: issue_get, issue_list, issueClose, issue_open, issue_lock, …"
        assert listed(session) == ["issue.activate", "search"]
        await session.activate("issue")
        assert set(gateway.report.tools) < set(listed(session))
        assert '"name": "issue.list"' in (await session.call("issue_list")).text


@pytest.mark.spec("GWY-2")
async def test_configured_groups_have_the_tools_that_their_patterns_match() -> None:
    config = GatewayConfig(
        upstreams=raw("plain").upstreams,
        groups={
            "numbers": GroupConfig(),
            "numbers.first": GroupConfig(tools=("one",)),
            "more": GroupConfig(tools=("t*", "nothing*"), description="More of it"),
        },
        exclusions=(("numbers", "more"),),
        profiles={"start": ProfileConfig(active=("numbers",), available=("*",))},
    )
    gateway = open_gateway(config)
    async with gateway as tools, tools.open_session("start") as session:
        assert [(group.path, group.description) for group in tools.catalog.groups] == [
            ("more", "More of it"),
            ("numbers", "1 tool: one"),
            ("numbers.first", "1 tool: one"),
        ]
        own = set(gateway.report.tools)
        assert own & set(listed(session)) == {"answer"}
        await session.activate("numbers.first")
        assert own & set(listed(session)) == {"answer", "one"}
        await session.activate("more")
        assert own & set(listed(session)) == {"answer", "two"}
    assert gateway.report.warnings == ("The pattern 'nothing*' of group 'more' matches none of the server's tools.",)


@pytest.mark.spec("GWY-2")
async def test_a_profile_may_name_groups_that_follow_from_names_and_a_wrong_one_is_told_and_nothing_is_left(
    tmp_path: Path,
) -> None:
    command = (sys.executable, str(UPSTREAMS / "raw.py"), "plain")
    config = GatewayConfig(
        upstreams={"plain": UpstreamConfig(command=command)},
        profiles={"p": ProfileConfig(active=("nowhere",))},
        source="groups.toml",
    )
    with pytest.raises(ConfigError, match=r"^groups\.toml, \[profiles\.p\]: There is no group 'nowhere'"):
        async with opened(config):
            pytest.fail("it should not have opened")
