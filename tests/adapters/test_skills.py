"""Folders with a SKILL.md as groups (SPEC SKL-2)."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp_types import BlobResourceContents, TextResourceContents

from tests.adapters.mcp.support import build_server, client_of
from toolfold import DuplicateName, ManifestError, ToolfoldWarning, ToolNotFound, ToolSet
from toolfold_adapters.inprocess import Conversation
from toolfold_adapters.skills import has_skills, include_skill

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
    (group,) = include_skill(tools, folder)
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
    folder = skill(tmp_path / "returns", f"{HEAD}allowed-tools: [loans.find]\n")
    (folder / "more pages").mkdir()
    (folder / "more pages" / "damage.md").write_text("Look at the back.")
    (folder / "form.bin").write_bytes(b"\xff")
    (folder / ".secret").write_text("hidden")
    (tmp_path / "outside").write_text("outside")
    (folder / "link").symlink_to(tmp_path / "outside")
    include_skill(tools, folder)
    assert {*tools.catalog.components["resource"].by_name} == {
        *("skill://returns/SKILL.md", "skill://returns/more%20pages/damage.md", "skill://returns/form.bin")
    }
    async with client_of(build_server(tools, active=["returns"]), era) as (client, _):
        assert "loans.find" in {tool.name for tool in (await client.list_tools()).tools}
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
    assert [(one.path, one.instructions) for one in include_skill(tools, tmp_path)] == [
        ("a", "Find the loan first."),
        ("b", ""),
    ]
    other = library()
    skill(tmp_path / "c", "name: a\ndescription: Again\n")
    with pytest.raises(DuplicateName):
        include_skill(other, tmp_path)
    assert [group.path for group in other.catalog.groups] == ["loans"]


def test_a_tool_that_is_missing_is_reported_with_the_names_that_are_near(tmp_path: Path) -> None:
    folder = skill(tmp_path, f"{HEAD}allowed-tools: loans.fnd Bash(git:*)\n")
    with pytest.warns(ToolfoldWarning) as warnings:
        include_skill(library(), folder)
    place = f"{folder / 'SKILL.md'}, front matter, allowed-tools: skill 'returns' needs"
    assert [str(one.message) for one in warnings] == [
        f"{place} 'loans.fnd', and no tool has this name. Did you mean 'loans.find' or 'loans.lend'?",
        f"{place} 'Bash', and no tool has this name.",
    ]
    assert {one.filename for one in warnings} == {__file__}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("Just a text", "line 1: it has no front matter"),
        ("---\nname: a\n", "line 1: it has no front matter"),
        ("---\nname: [\n---\n", "front matter: .* is not valid YAML"),
        ("---\ndescription: d\n---\n", "front matter, name: it is missing"),
        ("---\nname: a\n---\n", "front matter, description: it is missing"),
        ("---\nname: 5\ndescription: d\n---\n", "front matter, name: it must be a text that is not empty"),
        (
            "---\nname: a\ndescription: d\nallowed-tools: {b: c}\n---\n",
            "front matter, allowed-tools: it must be a text, or a list",
        ),
    ],
)
def test_a_skill_that_is_wrong_is_refused_with_the_place(content: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text(content)
    with pytest.raises(ManifestError, match=rf"SKILL\.md, {problem}"):
        include_skill(library(), tmp_path)


def test_a_text_that_is_no_path_has_no_skills() -> None:
    assert not has_skills(Path("x" * 5_000))


def test_a_folder_without_skills_and_a_tool_that_is_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"neither it nor a folder in it contains a SKILL\.md"):
        include_skill(library(), tmp_path)
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
