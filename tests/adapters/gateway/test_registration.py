"""What is registered follows the servers and the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adapters.gateway.registering import configured, homes, listed, offering, registered, tool
from toolfold import ConfigError
from toolfold_adapters.gateway import GroupConfig
from toolfold_adapters.gateway.config.settings import ProfileConfig
from toolfold_adapters.gateway.upstream.definitions import Definitions
from toolfold_adapters.skills import read_skill


@pytest.mark.spec("GWY-1")
async def test_prompts_and_resources_are_there_whatever_is_open() -> None:
    said = Definitions(
        tools=[tool("x")],
        prompts=[{"name": "ask", "arguments": [{"name": "what", "required": True}]}, {"name": 5}],
        resources=[{"uri": "file:///a", "name": "a", "mimeType": "text/plain"}],
        resource_templates=[{"uriTemplate": "file:///{path}", "name": "any"}],
    )
    _, tools, report = registered({"s": said, "t": offering("y")})
    components = tools.catalog.components
    assert [list(components[kind].by_name) for kind in ("prompt", "resource", "resource_template")] == [
        ["s__ask"],
        ["file:///a"],
        ["file:///{path}"],
    ]
    assert components["resource"].by_name["file:///a"].definition == said.resources[0]
    assert report.warnings == ("s: The prompt number 2 of the server's list has no name, so it is left out.",)


@pytest.mark.spec("FND-4", "GWY-9")
@pytest.mark.spec("SKL-1")
async def test_the_instructions_of_a_configured_group_follow_the_configuration() -> None:
    def grouped(text: str) -> dict[str, GroupConfig]:
        return {"read": GroupConfig(tools=("s__get",), instructions=text)}

    registration, tools, _ = registered({"s": offering("get")}, groups=grouped("Look first."))
    assert tools.catalog.group("read").instructions == "Look first."
    await registration.configure(configured("s", groups=grouped("Look twice.")))
    assert tools.catalog.group("read").instructions == "Look twice."


@pytest.mark.spec("GWY-3", "GWY-4")
async def test_a_fresh_list_replaces_what_differs_and_closes_nothing() -> None:
    registration, tools, _ = registered({"s": offering("a", "b"), "t": offering("x")})
    kept = tools.catalog.tools["s__a"]
    changes: list[object] = []
    async with tools.open_session(active=["s", "t"]) as session:
        session.on_list_changed(lambda *_: changes.append(1))
        report = await registration.replace("s", offering("a", tool("b", "changed"), "c"))
        assert listed(session) == ["s__a", "s__b", "s__c", "t__x"]
        assert len(changes) == 1
        await registration.replace("s", offering("a", tool("b", "changed"), "c"))
        assert len(changes) == 1
    assert tools.catalog.tools["s__a"] is kept
    assert tools.catalog.tools["s__b"].description == "changed"
    assert tools.catalog.group("s").description == "3 tools: a, b, c"
    assert sorted(report.tools) == ["s__a", "s__b", "s__c", "t__x"]


@pytest.mark.spec("GWY-3")
async def test_what_an_upstream_no_longer_offers_is_gone_and_the_others_stay_open() -> None:
    registration, tools, _ = registered({"s": offering("a"), "t": offering("x")})
    async with tools.open_session(active=["s", "t"]) as session:
        await registration.replace("s", None)
        assert session.active == ("t",)
        assert homes(tools) == {"t__x": "t"}
        await registration.replace("s", offering("a"))
        assert session.active == ("t",)
        assert homes(tools) == {"s__a": "s", "t__x": "t"}


@pytest.mark.spec("GWY-9")
async def test_another_configuration_changes_what_differs_and_keeps_open_what_stays() -> None:
    servers = {"s": offering("a", "b"), "t": offering("x"), "gone": offering("y")}
    registration, tools, _ = registered(servers, exclusions=(("s", "t"),), profiles={"p": ProfileConfig(active=("s",))})
    async with tools.open_session(active=["s"]) as session:
        await registration.configure(
            configured("s", "t", hidden=("s__b",), profiles={"q": ProfileConfig(active=("t",))})
        )
        assert session.active == ("s",)
        await session.activate("t")
        assert listed(session) == ["s__a", "t__x"]
    assert homes(tools) == {"s__a": "s", "s__b": "s", "t__x": "t"}
    assert list(tools.catalog.profiles) == ["q"]
    assert tools.catalog.exclusions == ()


@pytest.mark.spec("GWY-9")
async def test_a_wrong_configuration_changes_nothing() -> None:
    registration, tools, _ = registered({"s": offering("a"), "t": offering("x")})
    before = tools.catalog
    with pytest.raises(ConfigError, match="no group 'nowhere'"):
        await registration.configure(configured("s", profiles={"p": ProfileConfig(active=("nowhere",))}))
    assert tools.catalog is before
    await registration.replace("t", offering("x", "y"))
    assert homes(tools) == {"s__a": "s", "t__x": "t", "t__y": "t"}


@pytest.mark.spec("GWY-1")
def test_a_resource_that_two_servers_have_is_the_first_ones_and_reported() -> None:
    said = Definitions(resources=[{"uri": "file:///a", "name": "a"}])
    registration, _, report = registered({"s": said, "t": said})
    placed = registration.find("resource", "file:///a")
    assert placed is not None
    assert placed.server == "s"
    assert report.warnings == ("t: The resource 'file:///a' is also another server's.",)


@pytest.mark.spec("ISO-1")
def test_a_resource_that_one_caller_is_listed_takes_the_place_of_none_that_all_are() -> None:
    said = Definitions(resources=[{"uri": "file:///a", "name": "a"}])
    own = Definitions(resources=said.resources, by_caller=True)
    registration, _, _ = registered({"s": own, "t": said})
    placed = registration.find("resource", "file:///a")
    assert placed is not None
    assert placed.server == "t"


@pytest.mark.spec("SKL-2")
async def test_a_skill_is_a_group_with_tools_of_several_servers(tmp_path: Path) -> None:
    file = tmp_path / "SKILL.md"
    file.write_text(
        "---\nname: tidy\ndescription: Put things in order\nallowed-tools: s__get t__put gt\n---\nGet, then put.\n",
        newline="",
    )
    skill = read_skill(tmp_path)
    servers = {"s": offering("get", "set"), "t": offering("put")}
    registration, tools, report = registered(servers, skills=(skill,))
    assert [text for text in report.warnings if "gt" in text] == [
        f"{file}, front matter, allowed-tools: skill 'tidy' needs 'gt', and no tool has this name."
    ]
    assert tools.catalog.group("tidy").instructions == "Get, then put."
    assert homes(tools) == {"s__get": "s", "s__set": "s", "t__put": "t"}
    async with tools.open_session(active=["tidy"]) as session:
        assert listed(session) == ["s__get", "t__put"]
        assert (await session.call("t__put", {})).text == "t tool put"
        assert (await session.read("skill://tidy/SKILL.md"))["contents"][0]["text"] == file.read_text()
        await registration.replace("s", offering(tool("get", "changed"), "set"))
        assert listed(session) == ["s__get", "t__put"]
        await registration.configure(configured("s", "t"))
        assert (session.active, listed(session)) == ((), [])
        assert not tools.catalog.components["resource"].by_name


@pytest.mark.spec("SKL-2", "GWY-9")
async def test_a_skill_that_changes_has_its_new_files_while_it_stays_open(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text("---\nname: tidy\ndescription: Put things in order\n---\n")
    (tmp_path / "old.md").touch()
    registration, tools, _ = registered({"s": offering("get"), "t": offering("put")}, skills=(read_skill(tmp_path),))
    async with tools.open_session(active=["tidy"]) as session:
        changes: list[frozenset[str]] = []
        session.on_list_changed(changes.append)
        (tmp_path / "old.md").unlink()
        (tmp_path / "new.md").touch()
        (tmp_path / "SKILL.md").write_text("---\nname: tidy\ndescription: d\nallowed-tools: s__get\n---\nGet.\n")
        await registration.configure(configured("s", "t", skills=(read_skill(tmp_path),)))
        assert {*tools.catalog.components["resource"].by_name} == {"skill://tidy/SKILL.md", "skill://tidy/new.md"}
        assert (session.active, listed(session)) == (("tidy",), ["s__get"])
        assert tools.catalog.group("tidy").instructions == "Get."
        assert "resource" in frozenset().union(*changes)


@pytest.mark.spec("SKL-2")
def test_a_skill_with_the_name_of_a_group_is_left_out_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text("---\nname: s\ndescription: A name that is taken\n---\n")
    _, tools, report = registered({"s": offering("get")}, skills=(read_skill(tmp_path),))
    assert tools.catalog.group("s").description == "1 tool: s__get"
    assert [text for text in report.warnings if "SKILL.md" in text] == [
        f"{tmp_path / 'SKILL.md'}: the skill is left out, since a group is called 's' already."
    ]
