"""Document E: its table of groups, its table of profiles and its meta-tool, as clients see them."""

from __future__ import annotations

import re

import pytest

from examples.modern_cli import build
from examples.modern_cli.definitions import groups
from tests.adapters.mcp.support import without_schemas
from tests.examples.callers import UNKNOWN, WAYS
from tests.examples.document_e import COUNTS, MORE, PROFILES, READING, TOOLS
from toolfold import ToolSet
from toolfold_adapters.inprocess import Conversation
from toolfold_adapters.tokens import measure
from toolfold_cli.costs import initial_view


@pytest.fixture(scope="module")
def everything() -> ToolSet:
    """All the tools, as if every program were installed."""
    return build(which=lambda name: f"/nowhere/{name}")


def tools_under(profile: str, *paths: str) -> list[str]:
    known = READING if profile in ("explore", "reflector") else TOOLS
    return [name for path in paths for name in known[path].split()]


# -- groups -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("PRO-4")
def test_there_are_fifteen_groups_with_107_tools(everything: ToolSet) -> None:
    """Document E, tool groups."""
    found = {group.path: [spec.name for spec in everything.group_tools(group.path)] for group in everything.groups()}
    assert found == {path: sorted(names.split()) for path, names in TOOLS.items()}
    assert {path: len(names) for path, names in found.items()} == {
        path: count + MORE.get(path, 0) for path, count in COUNTS.items()
    }
    assert (len(found), sum(map(len, found.values()))) == (15, 107)


@pytest.mark.spec("PRO-4")
def test_every_tool_is_annotated_as_read_only_or_with_a_destructive_hint(everything: ToolSet) -> None:
    for spec in (spec for path in TOOLS for spec in everything.group_tools(path)):
        hints = spec.definition["annotations"]
        assert hints.get("readOnlyHint") or "destructiveHint" in hints, spec.name
        assert spec.description.endswith("."), spec.name


@pytest.mark.spec("PRO-3", "PRO-4")
def test_a_tool_with_arbitrary_options_is_not_annotated_as_read_only() -> None:
    for group in groups().values():
        for name, tool in group.tools.items():
            if "{*" in str(tool.arguments):
                assert not tool.annotations.get("readOnlyHint"), name


@pytest.mark.spec("PRO-4")
def test_each_program_is_searched_for_once_while_the_tools_are_built() -> None:
    asked: list[str] = []
    tools = build(which=lambda name: asked.append(name))
    assert sorted(asked) == sorted(
        {one for group in groups().values() for tool in group.tools.values() for one in tool.program}
    )
    before = len(asked)
    tools.list_tools()
    tools.list_groups()
    assert len(asked) == before


@pytest.mark.spec("PRO-4")
def test_a_tool_whose_program_is_missing_is_not_offered_and_its_group_names_the_program() -> None:
    here = {"rg", "batcat", "jq"}
    tools = build(which=lambda name: f"/bin/{name}" if name in here else None)
    assert [spec.name for spec in tools.group_tools("search")] == ["references", "rg", "symbols"]
    assert [spec.name for spec in tools.group_tools("filesystem")] == ["bat", "permissions"]
    received = {group.path: group.description for group in tools.groups()}
    assert received["search"].endswith(". Not installed here: fzf (fzf_filter), ddgr (web_search), ast-grep (ast_grep)")
    assert "eza or exa (eza)" in received["filesystem"]
    assert "bat" not in received["filesystem"].replace("batcat", "bat").partition("Not installed")[2]
    assert received["diff"].endswith(". Empty, since no program of it is installed here: delta, difft")
    assert received["file_ops"].endswith(". Not installed here: patch (file_patch)")
    assert "installed" not in received["mcp"]


@pytest.mark.spec("PRO-4")
def test_a_script_that_windows_would_run_by_a_shell_is_not_used() -> None:
    tools = build(which=lambda name: {"jq": "/bin/jq.EXE", "tldr": "/bin/tldr.CMD", "bats": "/bin/bats.bat"}.get(name))
    offered = {path: [spec.name for spec in tools.group_tools(path)] for path in ("text", "reference", "system")}
    assert offered == {"text": ["jq"], "reference": [], "system": ["system_info"]}


# -- the meta-tool ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("PRO-4", "CTL-3")
@pytest.mark.parametrize("way", WAYS)
async def test_without_a_profile_there_is_one_tool_and_all_groups_can_be_expanded(
    way: str, everything: ToolSet
) -> None:
    """Document E, dynamic tool list; CLI interface: all groups collapsed; benefits: no arguments give full access."""
    async with WAYS[way](everything) as caller:
        assert await caller.names() == ["expand_tools"]
        assert await caller.call("git_status", {}) == (True, UNKNOWN)
        shown = {"expand_tools"}
        for path, names in TOOLS.items():
            failed, text = await caller.call("expand_tools", {"group": path})
            assert not failed, text
            shown |= set(names.split())
            assert set(await caller.names()) == shown
        assert len(shown) == 108


@pytest.mark.spec("PRO-4", "CTL-3", "CTL-4")
@pytest.mark.parametrize("way", WAYS)
async def test_expanding_a_group_lists_its_tools_line_by_line(way: str, everything: ToolSet) -> None:
    """Document E, meta-tool for expansion."""
    async with WAYS[way](everything) as caller:
        definition = (await caller.listed())["expand_tools"]
        lines = definition["description"].splitlines()
        assert [line.split(":")[0] for line in lines if line.startswith("- ")] == [
            f"- {path}" for path in sorted(TOOLS)
        ]
        failed, text = await caller.call("expand_tools", {"group": "diff"})
        assert not failed
        assert without_schemas(text)[:4] == [
            "## Diff Tools",
            "",
            "- delta: Compare two files, and mark what changed within lines.",
            "- difft: Compare two files of code by their syntax.",
        ]
        failed, text = await caller.call("expand_tools", {"group": "diff"})
        assert not failed
        assert text.startswith("The group Diff was expanded already, so nothing changed.\n\n- delta: ")


@pytest.mark.spec("PRO-4", "CTL-5")
@pytest.mark.parametrize("way", WAYS)
async def test_an_unknown_group_is_refused_with_suggestions(way: str, everything: ToolSet) -> None:
    """Document E, meta-tool for expansion: `ToolGroup::from_str` fails."""
    async with WAYS[way](everything) as caller:
        before = await caller.listed()
        for arguments in ({"group": "files"}, {"group": "files system"}, {"group": ""}, {}, {"group": 5}):
            failed, text = await caller.call("expand_tools", arguments)
            assert failed
            if arguments.get("group") == "files":
                assert "There is no group 'files'. Did you mean 'file_ops' or 'filesystem'?" in text
        assert await caller.listed() == before


@pytest.mark.spec("PRO-4")
@pytest.mark.parametrize("way", WAYS)
async def test_a_group_without_programs_exists_and_expands_to_nothing(way: str) -> None:
    async with WAYS[way](build(which=lambda name: None)) as caller:
        failed, text = await caller.call("expand_tools", {"group": "gitlab"})
        assert not failed
        assert text.startswith("## GitLab Tools\n\nThe group is expanded, and adds no tools to the list.")
        assert await caller.names() == ["expand_tools"]
        assert await caller.call("glab_mr", {"command": "list"}) == (True, UNKNOWN)


# -- profiles ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("PRO-4")
def test_there_are_eleven_profiles_as_in_the_table(everything: ToolSet) -> None:
    """Document E, profile tool mappings."""
    profiles = everything.catalog.profiles
    assert list(profiles) == list(PROFILES)
    for name, (active, virtual) in PROFILES.items():
        assert profiles[name].active == tuple(active.split())
        assert profiles[name].available == (("*",) if name == "generator" else tuple(virtual.split()))
        assert profiles[name].read_only is (True if name in ("explore", "reflector") else None)


@pytest.mark.spec("PRO-1", "PRO-3", "PRO-4")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("profile", PROFILES)
async def test_a_profile_lists_some_groups_lets_others_be_expanded_and_has_no_more(
    profile: str, way: str, everything: ToolSet
) -> None:
    """Document E, profile tool mappings: one row of the table."""
    active, virtual = (paths.split() for paths in PROFILES[profile])
    outside = TOOLS.keys() - {*active, *virtual}
    async with WAYS[way](everything, profile=profile) as caller:
        shown = sorted(["expand_tools", *tools_under(profile, *active)])
        assert await caller.names() == shown
        lines = (await caller.listed())["expand_tools"]["description"].splitlines()
        assert [re.split("[ :]", line)[1] for line in lines if line.startswith("- ")] == sorted([*active, *virtual])
        for path in sorted(outside):
            failed, text = await caller.call("expand_tools", {"group": path})
            assert failed
            assert f"There is no group {path!r}." in text
            assert not any(f"'{other}'" in text.partition(".")[2] for other in outside)
            assert await caller.call(TOOLS[path].split()[0], {}) == (True, UNKNOWN)
        assert await caller.names() == shown
        for path in virtual:
            assert await caller.call(TOOLS[path].split()[0], {}) == (True, UNKNOWN)
            assert not (await caller.call("expand_tools", {"group": path}))[0]
            shown = sorted([*shown, *tools_under(profile, path)])
            assert await caller.names() == shown


@pytest.mark.spec("PRO-1", "PRO-4")
async def test_a_sub_agent_gets_only_the_tools_of_its_profile(everything: ToolSet) -> None:
    """Document E, benefits: sub-agents get only relevant tools."""
    async with Conversation(everything, profile="review") as conversation:
        names = [definition["name"] for definition in conversation.tools()]
        assert sorted(names) == sorted(["expand_tools", *tools_under("review", "git", "search", "diff")])
        section = conversation.system_prompt("You review code.").splitlines()
        received = [re.split("[ :]", line)[1] for line in section if line.startswith("- ")]
        assert received == ["diff", "file_ops", "git", "github", "search"]
        refused, loaded = await conversation.execute(
            [("expand_tools", {"group": "kubernetes"}), ("expand_tools", {"group": "github"})]
        )
        assert (refused.is_error, loaded.is_error) == (True, False)
        assert "gh_pr" in [definition["name"] for definition in conversation.tools()]


@pytest.mark.spec("PRO-4")
def test_a_client_is_listed_far_fewer_tools_and_tokens_at_first(everything: ToolSet) -> None:
    """Document E, benefits: reduced cognitive load."""
    for profile in (None, *PROFILES):
        costs = measure(initial_view(everything, profile))
        assert costs.listed <= 50
        assert costs.after < (0.1 if profile is None else 0.6) * measure(initial_view(everything)).before
