"""Folders with a SKILL.md as groups (SPEC SKL-2)."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import BlobResourceContents, TextResourceContents

from tests.adapters.gateway.inprocess import House, config_of, served
from tests.adapters.mcp.support import build_server, client_of
from toolfold import ManifestError, Profile, ToolfoldWarning, ToolNotFound, ToolSet
from toolfold_adapters.inprocess import Conversation
from toolfold_adapters.mcp import FollowingClient
from toolfold_adapters.skills import has_skills, read_skill

pytestmark = pytest.mark.spec("SKL-2")
HEAD = "name: returns\ndescription: Take books back\n"


def library() -> ToolSet:
    tools = ToolSet("library", control="open_group")
    tools.register_group("loans", "Lend books")
    tools.register("find", lambda: "found", group="loans", description="Find a loan")
    tools.register("close", lambda: "closed", group="loans", description="End a loan")
    tools.register("lend", lambda: "lent", group="loans", description="Lend a book")
    tools.register("hours", lambda: "9 to 5", description="When it is open")
    return tools


def skill(folder: Path, front: str, text: str = "Find the loan first.\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(f"---\n{front}---\n{text}")
    return folder


def listed(conversation: Conversation) -> set[str]:
    return {str(tool["name"]) for tool in conversation.tools()}


async def test_a_skill_is_a_group_that_shares_the_tools_it_allows(tmp_path: Path) -> None:
    tools = library()
    folder = skill(tmp_path / "returns", f"{HEAD}allowed-tools: loans.find(*), loans__close hours\n")
    (group,) = tools.include_skill(folder)
    assert (group.path, group.description, group.instructions) == ("returns", "Take books back", "Find the loan first.")
    async with Conversation(tools) as conversation:
        before = listed(conversation)
        assert "hours" in before
        (opened,) = await conversation.execute([("open_group", {"group": "returns"})])
        assert "\n\nFind the loan first.\n\nNow available:\n- loans__close" in opened.text
        assert listed(conversation) - before == {"loans__find", "loans__close"}
        assert [one.text for one in await conversation.execute([("loans__find", {})])] == ["found"]
        await conversation.execute([("open_group", {"group": "loans"}), ("close_group", {"group": "returns"})])
        assert listed(conversation) - before == {"loans__find", "loans__close", "loans__lend"}


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_clients_open_it_and_read_its_files(era: str, tmp_path: Path) -> None:
    tools = library()
    folder = skill(tmp_path / "returns", f"{HEAD}allowed-tools: loans.find\n")
    (folder / "more pages").mkdir()
    (folder / "more pages" / "damage.md").write_text("Look at the back.")
    (folder / "form.bin").write_bytes(b"\xff")
    (folder / ".secret").write_text("hidden")
    (tmp_path / "outside").write_text("outside")
    (folder / "link").symlink_to(tmp_path / "outside")
    tools.include_skill(folder)
    assert {*tools.catalog.components["resource"].by_name} == {
        *("skill://returns/SKILL.md", "skill://returns/more%20pages/damage.md", "skill://returns/form.bin")
    }
    async with client_of(build_server(tools, active=["returns"]), era) as (client, _):
        assert "loans.find" in {tool.name for tool in (await client.list_tools()).tools}
        assert len((await client.list_resources()).resources) == 3
        (page,) = (await client.read_resource("skill://returns/more%20pages/damage.md")).contents
        assert isinstance(page, TextResourceContents)
        assert (page.text, page.mime_type) == ("Look at the back.", "text/markdown")
        (form,) = (await client.read_resource("skill://returns/form.bin")).contents
        assert isinstance(form, BlobResourceContents)
        assert form.blob == "/w=="


def test_a_folder_of_skills_is_included_whole_or_not_at_all(tmp_path: Path) -> None:
    tools = library()
    skill(tmp_path / "a", "name: a\ndescription: One\n")
    skill(tmp_path / "b", "name: b\ndescription: Two\n", "")
    assert [(one.path, one.instructions) for one in tools.include_skill(tmp_path)] == [
        ("a", "Find the loan first."),
        ("b", ""),
    ]
    other = library()
    skill(tmp_path / "c", "name: a\ndescription: Again\n")
    again = f"{tmp_path / 'c' / 'SKILL.md'}, front matter, name: A group named 'a' is registered already"
    with pytest.raises(ManifestError, match=re.escape(again)):
        other.include_skill(tmp_path)
    assert [group.path for group in other.catalog.groups] == ["loans"]


def test_a_tool_that_is_missing_is_reported_with_the_names_that_are_near(tmp_path: Path) -> None:
    metadata = "metadata:\n  io.modelcontextprotocol/tools: stamp\n"
    folder = skill(tmp_path, f"{HEAD}allowed-tools: loans.fnd Bash(git:*)\n{metadata}")
    with pytest.warns(ToolfoldWarning) as warnings:
        library().include_skill(folder)
    place = f"{folder / 'SKILL.md'}, front matter"
    needs, nobody = "skill 'returns' needs", "and no tool has this name."
    assert [str(one.message) for one in warnings] == [
        f"{place}, allowed-tools: {needs} 'loans.fnd', {nobody} Did you mean 'loans.find' or 'loans.lend'?",
        f"{place}, allowed-tools: {needs} 'Bash', {nobody}",
        f"{place}, metadata, io.modelcontextprotocol/tools: {needs} 'stamp', {nobody}",
    ]
    assert {one.filename for one in warnings} == {__file__}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("Just a text", "line 1: it has no front matter"),
        ("---\nname: a\n", "line 1: it has no front matter"),
        ("---\nname: a\n  b: c\n---\n", r"line 3: it is not valid YAML: mapping values .*: write a text .* quotes\.$"),
        ("---\nname: a\nname: b\n---\n", r"line 3: it is not valid YAML: found duplicate key .*\)\.$"),
        ("---\n- a\n---\n", r"front matter: it must be a YAML mapping\.$"),
        ("---\nname: \x01\n---\n", r"front matter: it is not valid YAML: [^\n]*\.$"),
        ("---\ndescription: d\n---\n", "front matter, name: it is missing"),
        ("---\nname: a\n---\n", "front matter, description: it is missing"),
        ("---\nname: 5\ndescription: d\n---\n", "front matter, name: it must be a text that is not empty"),
        (
            "---\nname: A_b\ndescription: d\n---\n",
            "front matter, name: 'A_b' must be 1 to 64 lower-case letters, digits",
        ),
        (
            "---\nname: a\ndescription: d\nallowed-tools: {b: c}\n---\n",
            "front matter, allowed-tools: it must be a text, or a list",
        ),
        (
            "---\nname: a\ndescription: d\nmetadata: {io.modelcontextprotocol/tools: 5}\n---\n",
            "front matter, metadata, io.modelcontextprotocol/tools: it must be a text, or a list",
        ),
    ],
)
def test_a_skill_that_is_wrong_is_refused_with_the_place(content: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text(content)
    with pytest.raises(ManifestError, match=rf"SKILL\.md, {problem}"):
        library().include_skill(tmp_path)


def test_a_text_that_is_no_path_has_no_skills() -> None:
    assert not has_skills(Path("x" * 5_000))


def test_a_folder_without_skills_and_a_tool_that_is_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"neither it nor a folder in it contains a SKILL\.md"):
        library().include_skill(tmp_path)
    with pytest.raises(ToolNotFound):
        library().share_tool("loans.fnd", "loans")


@pytest.mark.spec("SKL-2")
async def test_a_tool_that_is_shared_while_sessions_are_open_can_be_called_in_either_group() -> None:
    tools = library()
    tools.register_group("returns", "Take books back")
    async with tools.open_session(active=["returns"]) as session:
        assert "loans.find" not in session.list_tools().names
        tools.share_tool("loans.find", "returns")
        assert "loans.find" in session.list_tools().names


# -- clients of the extension for skills ------------------------------------------------------------------------------


class _Params(types.RequestParams):
    uri: str | None = None
    cursor: str | None = None


class _Request(types.Request[_Params, str]):
    method: str
    params: _Params


class _Answer(types.Result):
    skills: list[dict[str, Any]] | None = None
    skill: dict[str, Any] | None = None
    ttl_ms: int
    cache_scope: str


async def asked(client: Client, method: str, **params: Any) -> _Answer:
    request: Any = _Request(method=method, params=_Params(**params))
    return await client.session.send_request(request, _Answer)


def described(uri: str, content: bytes) -> dict[str, Any]:
    return {"uri": uri, "digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content)}


async def test_clients_of_the_extension_are_given_entries_and_read_files_of_closed_groups(tmp_path: Path) -> None:
    tools = library()
    front = f"{HEAD}license: MIT\nmetadata: {{version: '1', io.modelcontextprotocol/tools: loans.find}}\n"
    folder = skill(tmp_path / "returns", front)
    (folder / "form.bin").write_bytes(b"\xff")
    skill(folder / "inner", "name: inner\ndescription: A part of the skill\n")
    tools.include_skill(folder)
    tools.register_resource("skill://returns.txt", lambda: "of no skill", group="returns")
    async with client_of(build_server(tools), "auto") as (client, _):
        assert client.server_capabilities.resources is not None
        assert (client.server_capabilities.extensions or {})["io.modelcontextprotocol/skills"] == {}
        answer = await asked(client, "skills/list")
        assert (answer.ttl_ms, answer.cache_scope) == (0, "private")
        root = "skill://returns"
        entry = {
            "uri": f"{root}/SKILL.md",
            "frontmatter": {
                "name": "returns",
                "description": "Take books back",
                "license": "MIT",
                "metadata": {"version": "1", "io.modelcontextprotocol/tools": "loans.find"},
            },
            "resources": [
                described(f"{root}/SKILL.md", (folder / "SKILL.md").read_bytes()),
                described(f"{root}/form.bin", b"\xff"),
                described(f"{root}/inner/SKILL.md", (folder / "inner" / "SKILL.md").read_bytes()),
            ],
        }
        assert answer.skills == [entry]
        assert (await asked(client, "skills/get", uri=f"{root}/SKILL.md")).skill == entry
        assert not (await client.list_resources()).resources
        (text,) = (await client.read_resource(f"{root}/SKILL.md")).contents
        assert isinstance(text, TextResourceContents)
        assert text.text == (folder / "SKILL.md").read_text()
        for wrong in ("skill://other/SKILL.md", f"{root}/form.bin", f"{root}/inner/SKILL.md"):
            with pytest.raises(MCPError, match="Unknown skill: skill://") as refused:
                await asked(client, "skills/get", uri=wrong)
            assert refused.value.error.code == types.INVALID_PARAMS
        with pytest.raises(MCPError):
            await asked(client, "skills/list", cursor="x")
        (resource,) = [one for one in tools.catalog.components["resource"].by_name.values() if one.name == entry["uri"]]
        assert {**resource.definition}["name"] == "returns"
        assert resource.description == "Take books back"


@pytest.mark.parametrize("what", ["file", "folder in it", "its folder", "loop", "gone"])
async def test_a_file_that_has_become_a_link_to_outside_is_not_read(tmp_path: Path, what: str) -> None:
    tools = library()
    folder = skill(tmp_path / "returns", HEAD)
    page, other = folder / "pages" / "damage.md", tmp_path / "other" / "pages" / "damage.md"
    for file in (page, other):
        file.parent.mkdir(parents=True)
        file.write_text("inside" if file is page else "outside")
    (folder / "within.md").symlink_to(page)
    tools.include_skill(folder)
    async with client_of(build_server(tools), "2026-07-28") as (client, _):
        for name in ("pages/damage.md", "within.md"):
            (read,) = (await client.read_resource(f"skill://returns/{name}")).contents
            assert isinstance(read, TextResourceContents)
            assert read.text == "inside"
        replaced = {"folder in it": page.parent, "its folder": folder}.get(what, page)
        replaced.rename(tmp_path / "before")
        target = {"folder in it": other.parent, "its folder": tmp_path / "other", "loop": page}.get(what, other)
        if what != "gone":
            replaced.symlink_to(target)
        with pytest.raises(MCPError, match=r"The skill has no file 'pages/damage\.md' any more\."):
            await client.read_resource("skill://returns/pages/damage.md")


async def test_an_entry_is_of_the_files_as_they_are_now(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tools = library()
    skill(tmp_path / "returns", HEAD)
    skill(tmp_path / "reminders", "name: reminders\ndescription: Ask for books\n")
    tools.include_skill(tmp_path)
    skill(tmp_path / "returns", "name: returns\ndescription: Changed\n")
    (tmp_path / "reminders" / "SKILL.md").unlink()
    async with client_of(build_server(tools), "2026-07-28") as (client, _):
        (entry,) = (await asked(client, "skills/list")).skills or []
        assert entry["frontmatter"]["description"] == "Changed"
        assert "skill://reminders/SKILL.md is left out of skills/list" in caplog.text
        with pytest.raises(MCPError, match=r"has no file 'SKILL\.md' any more"):
            await asked(client, "skills/get", uri="skill://reminders/SKILL.md")


async def test_there_are_no_skills_for_the_legacy_era_nor_under_a_profile_without_them(tmp_path: Path) -> None:
    tools = library()
    tools.include_skill(skill(tmp_path, HEAD))
    tools.register_profile(Profile("front", available=["loans"]))
    async with client_of(build_server(tools), "legacy") as (client, _):
        assert client.server_capabilities.extensions is None
        with pytest.raises(MCPError, match="Method not found"):
            await asked(client, "skills/list")
    async with client_of(build_server(tools, profile="front"), "2026-07-28") as (client, _):
        assert (await asked(client, "skills/list")).skills == []
        with pytest.raises(MCPError, match="Unknown resource"):
            await client.read_resource("skill://returns/SKILL.md")


async def test_a_server_without_skills_does_not_say_that_it_has_some_until_it_does(tmp_path: Path) -> None:
    tools = library()
    server = build_server(tools)
    async with client_of(server, "auto") as (client, _):
        assert "io.modelcontextprotocol/skills" not in (client.server_capabilities.extensions or {})
        tools.include_skill(skill(tmp_path, HEAD))
        tools.notify_list_changed("resource")
    async with client_of(server, "auto") as (client, _):
        assert "io.modelcontextprotocol/skills" in (client.server_capabilities.extensions or {})


@pytest.mark.parametrize(
    ("front", "problem"),
    [
        ("allowed-tools: [loans.find]\n", "allowed-tools: it must be a text"),
        ("license: 5\n", "license: it must be a text"),
        (f"compatibility: {'x' * 501}\n", "compatibility: it has more than 500 characters"),
        ("metadata: {version: 1.0}\n", r"metadata: it must map texts to texts \(write numbers in quotes\)"),
        ("metadata: [a]\n", "metadata: it must map texts to texts"),
        ("since: 2026-01-01\n", "it has a value that JSON has not, such as a date"),
        ("limits: {1: x}\n", "it has a value that JSON has not"),
    ],
)
async def test_a_skill_that_the_extension_does_not_allow_is_a_group_and_reported(
    front: str, problem: str, tmp_path: Path
) -> None:
    tools = library()
    with pytest.warns(ToolfoldWarning, match=f"{problem}.*; so 'returns' is a group, and not in skills/list") as found:
        tools.include_skill(skill(tmp_path, f"{HEAD}{front}"))
    assert {one.filename for one in found} == {__file__}
    async with client_of(build_server(tools, active=["returns"]), "2026-07-28") as (client, _):
        assert (await asked(client, "skills/list")).skills == []
        assert len((await client.list_resources()).resources) == 1


def test_a_skill_has_no_more_files_than_all_clients_accept(tmp_path: Path) -> None:
    skill(tmp_path, HEAD)
    for number in range(512):
        (tmp_path / f"{number}.txt").touch()
    with pytest.warns(ToolfoldWarning, match="folder: it has more than 512 files or 16,777,216 bytes"):
        library().include_skill(tmp_path)


async def test_shared_tools_are_in_the_answer_of_a_skill_that_is_open_and_where_it_is_fetched(tmp_path: Path) -> None:
    tools = library()
    tools.include_skill(skill(tmp_path, f"{HEAD}allowed-tools: loans.find\n"))
    async with Conversation(tools) as conversation:
        await conversation.execute([("open_group", {"group": "returns"})])
        (again,) = await conversation.execute([("open_group", {"group": "returns"})])
        assert "already" in again.text
        assert "loans__find" in again.text
    async with FollowingClient(build_server(tools), groups=True) as client:
        assert "returns" in [entry["name"] for entry in await client.list_groups()]
        fetched = await client.open_group("returns")
        loans = await client.open_group("loans")
        assert (fetched.instructions, [one.name for one in fetched.tools]) == ("Find the loan first.", ["loans.find"])
        assert fetched.tools[0] == next(one for one in loans.tools if one.name == "loans.find")


async def test_a_gateway_has_skills_for_clients_of_the_extension_and_reports_the_others(tmp_path: Path) -> None:
    good = read_skill(skill(tmp_path / "good", f"{HEAD}allowed-tools: a__add b__cart\n"))
    bad = read_skill(skill(tmp_path / "bad", "name: bad\ndescription: d\nmetadata: {version: 1}\n"))
    config = config_of("a", "b").model_copy(update={"skills": (good, bad)})
    async with served(House(), config) as (gateway, server), client_of(server, "auto") as (client, _):
        (entry,) = (await asked(client, "skills/list")).skills or []
        assert entry["resources"] == [described("skill://returns/SKILL.md", good.file.read_bytes())]
        assert (await asked(client, "skills/get", uri=entry["uri"])).skill == entry
        (warning,) = [text for text in gateway.report.warnings if "SKILL.md" in text]
        assert warning.startswith(f"{bad.file}, front matter, metadata: it must map texts to texts")
