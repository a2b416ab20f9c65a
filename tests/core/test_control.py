"""SPEC 8: activators, deactivators and loaders, and their answers."""

from typing import Any

import jsonschema_rs
import pytest

from tests.core.support import answer
from toolfold import (
    DuplicateName,
    Loader,
    ToolError,
    ToolNotFound,
    ToolResult,
    ToolSet,
    Visibility,
    success_of,
)
from toolfold._catalog.loader import MOST_NAMED
from toolfold._toolset.control import ERROR_META


def described() -> str:
    """Reads the thing.

    In two paragraphs.
    """
    return "done"


def desk(**settings: Any) -> ToolSet:
    """Groups a, a.x, b (excludes a) and c (without tools); two tools in a, one of them hidden, one in a.x and b."""
    tools = ToolSet("desk", **settings)
    tools.register_group("a", "The first:\nwith a second line")
    tools.register_group("a.x")
    tools.register_group("b", "The other", show_deactivator=False)
    tools.register_group("c")
    tools.register_exclusion("a", "b")
    tools.register("read", described, group="a")
    tools.register("secret", answer, group="a", hidden=True)
    tools.register("deep", answer, group="a.x")
    tools.register("t", answer, group="b")
    tools.register("bare", lambda: "", group="b", description="")
    return tools


def controls(tools: ToolSet) -> set[str]:
    return {spec.name for spec in tools.list_tools().tools if spec.control is not None}


EVERY = {"a.activate", "a.deactivate", "a.x.activate", "a.x.deactivate", "b.activate", "c.activate", "c.deactivate"}


@pytest.mark.spec("CTL-1")
async def test_a_deactivator_that_is_not_shown_does_not_exist() -> None:
    tools = desk()
    await tools.activate_group("b")
    assert "b.deactivate" not in tools.catalog.tools
    with pytest.raises(ToolNotFound):
        await tools.call_tool("b.deactivate")
    assert await tools.deactivate_group("b")


@pytest.mark.spec("CTL-1", "SES-6")
async def test_a_group_that_an_event_opens_has_no_control_tools_unless_it_is_given_them() -> None:
    tools = desk()
    tools.register_group("gate", opens_on=success_of("a.read"))
    tools.register_group("door", opens_on=success_of("a.read"), controls=True)
    assert controls(tools) - EVERY == {"door.activate", "door.deactivate"}
    with pytest.raises(ToolNotFound):
        await tools.call_tool("gate.activate")


@pytest.mark.spec("CTL-3", "CTL-5")
async def test_a_loader_names_the_group_that_has_what_it_was_given_as_its_title() -> None:
    tools = desk(control="open_group")
    tools.register_group("server_0f58fd", title="时钟")
    tools.register_group("other", title="Night Watch")
    tools.register_group("secret", title="时钟", controls=False)
    for given, path in (("时钟", "server_0f58fd"), ("night watch", "other")):
        refused = await tools.call_tool("open_group", {"group": given})
        assert refused.is_error
        assert refused.text.endswith(f"There is no group {given!r}. Did you mean {path!r}?")
    assert "Did you mean" not in (await tools.call_tool("open_group", {"group": "钟时"})).text


@pytest.mark.spec("CTL-2")
async def test_relevant_control_tools_are_those_that_can_do_something() -> None:
    tools = desk(control_visibility="relevant")
    assert controls(tools) == {"a.activate", "b.activate", "c.activate"}
    await tools.activate_group("a")
    assert controls(tools) == {"a.deactivate", "a.x.activate", "b.activate", "c.activate"}
    await tools.activate_group("a.x")
    assert controls(tools) == {"a.deactivate", "a.x.deactivate", "b.activate", "c.activate"}
    with pytest.raises(ToolNotFound):
        await tools.call_tool("a.activate")
    await tools.call_tool("b.activate")
    assert controls(tools) == {"a.activate", "c.activate"}
    with pytest.raises(ToolNotFound):
        await tools.call_tool("a.x.activate")


@pytest.mark.spec("CTL-3")
@pytest.mark.parametrize(
    ("control", "name", "argument"),
    [
        ("load_tool_group", "load_tool_group", "group_name"),
        ("expand_tools", "expand_tools", "group"),
        (Loader(name="open", argument="which", description="Opens.", argument_description="It."), "open", "which"),
    ],
    ids=["load_tool_group", "expand_tools", "own"],
)
async def test_one_loader_opens_any_group_by_name(control: str | Loader, name: str, argument: str) -> None:
    tools = desk(control=control)
    assert controls(tools) == {name}
    spec = tools.catalog.tools[name]
    assert list(spec.input_schema["properties"]) == spec.input_schema["required"] == [argument]
    if isinstance(control, Loader):
        assert spec.description.startswith("Groups of tools: a, b, c. Opens.\n")
        assert spec.input_schema["properties"][argument]["description"] == "It."
    result = await tools.call_tool(name, {argument: "a"})
    assert not result.is_error
    assert result.structured["tools"] == ["a.read"]
    assert tools.is_group_active("a")
    assert (await tools.call_tool(name, {})).is_error
    assert (await tools.call_tool(name, {argument: "a", "more": 1})).is_error


@pytest.mark.spec("CTL-3")
def test_a_loader_describes_each_group_that_it_can_open_on_a_separate_line() -> None:
    tools = desk(control="expand_tools")
    tools.register_group("gate", "Not for all", opens_on=success_of("a.read"))
    heading, *lines = tools.catalog.tools["expand_tools"].description.splitlines()[1:]
    assert heading.endswith("which are opened by path, such as a.x:")
    assert lines == ["- a (x): The first: with a second line", "- b: The other", "- c"]


@pytest.mark.spec("CTL-3")
async def test_the_descriptions_of_many_groups_are_cut_to_fit_and_whole_when_a_group_is_opened() -> None:
    tools = ToolSet("many", control="open_group")
    texts = {f"g{number:02}": f"About {number}. {'word ' * (100 if number % 2 else 0)}".strip() for number in range(60)}
    for path, text in texts.items():
        tools.register_group(path, text)
    listed = tools.catalog.tools["open_group"].description.partition("Groups:\n")[2]
    lines = listed.splitlines()
    assert len(tools.catalog.tools["open_group"].description) <= 2_000
    assert [line[2:5] for line in lines] == list(texts)
    assert lines[0] == "- g00: About 0.", "short ones stay whole"
    assert lines[1].startswith("- g01: About 1. word word")
    assert lines[1].endswith("word [cut]")
    assert len({len(line) for line in lines[11::2]}) == 1, "the long ones are cut to one length"
    opened = await tools.call_tool("open_group", {"group": "g01"})
    assert texts["g01"] in opened.text
    opened = await tools.call_tool("open_group", {"group": "g00"})
    assert "About" not in opened.text, "the list had it"


@pytest.mark.spec("CTL-3")
def test_a_loader_without_groups_says_so() -> None:
    assert "no groups" in ToolSet("t", control="expand_tools").catalog.tools["expand_tools"].description


def structured(group: str, changed: bool, active: list[str], displaced: list[str], tools: list[str]) -> dict[str, Any]:
    return {"group": group, "changed": changed, "active": active, "displaced": displaced, "tools": tools}


@pytest.mark.spec("CTL-4")
@pytest.mark.parametrize(
    ("active", "name", "expected", "heading", "lines"),
    [
        (["c"], "a", (True, ["a", "c"], [], ["a.read"]), "a", ["- a.read: Reads the thing. In two paragraphs."]),
        (["a", "a.x"], "b", (True, ["b"], ["a", "a.x"], ["b.bare", "b.t"]), "a, a.x", ["- b.bare", "- b.t"]),
        (["a"], "a", (False, ["a"], [], ["a.read"]), "already", ["- a.read: Reads the thing. In two paragraphs."]),
        ([], "c", (True, ["c"], [], []), "c", []),
    ],
    ids=["inactive", "displaces", "active already", "without tools"],
)
async def test_an_activator_reports_what_changed_and_what_can_be_called_now(
    active: list[str], name: str, expected: Any, heading: str, lines: list[str]
) -> None:
    async with desk().open_session(active=active) as session:
        result = await session.call(f"{name}.activate")
    assert result.structured == structured(name, *expected)
    first, *others = result.text.splitlines()
    assert heading in first
    assert others == lines


@pytest.mark.spec("CTL-4", "SKL-2")
async def test_a_group_that_is_open_already_names_the_tools_in_it_and_those_shared_with_it() -> None:
    tools = desk(control="open_group")
    tools.register("either", answer, visibility=Visibility.group("a.x") | Visibility.group("c"))
    tools.register("without", answer, visibility=~Visibility.group("c") | Visibility.group("a"))
    tools.share_tool("a.read", "c")
    async with tools.open_session(active=["a", "c"]) as session:
        again = await session.call("open_group", {"group": "c"})
        assert again.structured["tools"] == ["a.read", "either"]
        again = await session.call("open_group", {"group": "a"})
        assert again.structured["tools"] == ["a.read", "without"]


@pytest.mark.spec("CTL-4")
async def test_tools_that_became_available_elsewhere_are_named_and_those_that_did_not_are_left_out() -> None:
    tools = desk(control_visibility="relevant")
    tools.register("helper", answer, visibility=Visibility.group("a") & ~Visibility.group("c"), flat=True)
    tools.register("never", answer, group="a", visibility=Visibility.when(lambda view: False))
    result = await tools.call_tool("a.activate")
    assert result.structured["tools"] == ["a.deactivate", "a.read", "a.x.activate", "helper"]


@pytest.mark.spec("CTL-4")
async def test_a_deactivator_reports_what_it_closed() -> None:
    tools = desk()
    for path in ("a", "a.x", "c"):
        await tools.activate_group(path)
    result = await tools.call_tool("a.deactivate")
    assert result.structured == structured("a", True, ["c"], ["a.x"], [])
    assert "a.x" in result.text
    again = await tools.call_tool("a.deactivate")
    assert again.structured == structured("a", False, ["c"], [], [])
    assert "already" in again.text


def says(result: ToolResult, *parts: str) -> None:
    assert result.is_error
    assert all(part in result.text for part in parts), result.text


@pytest.mark.spec("CTL-5")
async def test_a_refusal_is_a_result_that_says_what_to_do() -> None:
    says(await desk().call_tool("a.x.activate"), "'a.x'", "call a.activate first")
    says(await desk(control="expand_tools").call_tool("expand_tools", {"group": "bb"}), "'bb'", "Did you mean 'b'?")
    full = desk(max_active=1)
    await full.activate_group("c")
    says(await full.call_tool("b.activate"), "limit of 1", "close a group", "'b'")
    assert full.default_session.active == ("c",)


@pytest.mark.spec("CTL-5", "ACT-2")
async def test_a_refused_inner_group_names_the_group_to_open_first_and_what_opens_it() -> None:
    tools = desk(control="expand_tools")
    says(await tools.call_tool("expand_tools", {"group": "a.x"}), "'a.x'", 'call expand_tools {"group": "a"} first')
    tools = desk()
    tools.register_group("gate", opens_on=success_of("b.t"))
    tools.register_group("gate.in")
    says(await tools.call_tool("gate.in.activate"), "'gate.in'", "needs the group gate, which is not open.")
    await tools.activate_group("b")
    says(await tools.call_tool("gate.in.activate"), "'gate.in'", "it opens when b.t succeeds.")
    result = await tools.default_session.call("a.x.activate", view=tools.default_session.view(to_wire=str.upper))
    says(result, "call A.ACTIVATE first")
    assert (result.meta or {})[ERROR_META] == {"error": "ParentInactive", "missing": "a"}


@pytest.mark.spec("CTL-5", "CALL-3")
async def test_a_failed_hook_is_a_result_with_no_more_than_the_hooks_tool_error() -> None:
    def silent() -> None:
        raise RuntimeError("password=1234")

    def speaking() -> None:
        raise ToolError("The vault is locked: ask for the key.")

    tools = ToolSet("t")
    tools.register_group("silent", on_activate=silent)
    tools.register_group("speaking", on_activate=speaking, on_deactivate=silent)
    result = await tools.call_tool("silent.activate")
    says(result, "opening group silent failed", "Try again later")
    assert "1234" not in result.text
    assert (result.meta or {})[ERROR_META] == {"error": "HookFailed", "group": "silent", "phase": "on_activate"}
    says(await tools.call_tool("speaking.activate"), "The vault is locked: ask for the key.")
    assert tools.default_session.active == ()


@pytest.mark.spec("CTL-5")
async def test_a_group_that_fails_to_close_stays_open_and_the_result_says_so() -> None:
    def fail() -> None:
        raise RuntimeError("busy")

    tools = ToolSet("t")
    tools.register_group("g", on_deactivate=fail)
    await tools.call_tool("g.activate")
    says(await tools.call_tool("g.deactivate"), "closing group g failed", "Nothing was changed")
    assert tools.is_group_active("g")


@pytest.mark.spec("CTL-6")
@pytest.mark.parametrize("control", ["per_group", "load_tool_group", "expand_tools"])
async def test_control_tools_are_described_closed_and_annotated(control: str) -> None:
    tools = desk(control=control)
    specs = [spec for spec in tools.list_tools().tools if spec.control is not None]
    assert specs
    for spec in specs:
        assert spec.description
        assert spec.input_schema["type"] == "object"
        assert spec.input_schema["additionalProperties"] is False
        jsonschema_rs.Draft202012Validator(dict(spec.input_schema))
        assert spec.definition["annotations"] == {
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        }


@pytest.mark.spec("CTL-6", "CALL-2")
async def test_a_control_tool_takes_no_arguments() -> None:
    tools = desk()
    assert (await tools.call_tool("a.activate", {"force": True})).is_error
    assert not tools.is_group_active("a")


@pytest.mark.spec("CTL-8")
@pytest.mark.parametrize("control", ["per_group", "open_group"])
async def test_a_handle_is_passed_over_where_there_are_none(control: str) -> None:
    tools = desk(control=control, search=lambda documents: lambda query: [])
    name, arguments = ("a.activate", {}) if control == "per_group" else ("open_group", {"group": "a"})
    for called, given in ((name, arguments), ("find_tools", {"query": "x"})):
        assert "handle" not in tools.catalog.tools[called].input_schema["properties"]
        assert not (await tools.call_tool(called, {**given, "handle": "made up"})).is_error
    assert tools.is_group_active("a")


@pytest.mark.spec("CTL-6")
def test_the_description_of_an_activator_has_the_path_and_the_description_of_its_group() -> None:
    tools = desk()
    tools.register_group("a.y", "Why", title="Ypsilon")
    spec = tools.catalog.tools["a.y.activate"]
    assert "a.y" in spec.description
    assert "Why" in spec.description
    assert "Ypsilon" in (spec.title or "")
    assert "a.y" in tools.catalog.tools["a.y.deactivate"].description


@pytest.mark.spec("CTL-3")
async def test_one_tool_opens_and_another_closes_any_group_by_name() -> None:
    tools = desk(control="open_group")
    assert controls(tools) == {"open_group", "close_group"}
    for name in ("open_group", "close_group"):
        schema = tools.catalog.tools[name].input_schema
        assert list(schema["properties"]) == schema["required"] == ["group"]
    assert not (await tools.call_tool("open_group", {"group": "a"})).is_error
    assert not (await tools.call_tool("open_group", {"group": "a.x"})).is_error
    closed = await tools.call_tool("close_group", {"group": "a"})
    assert closed.text == "Group a is closed. Closed with it: a.x."
    assert not tools.is_group_active("a")
    says(await tools.call_tool("close_group", {"group": "aa"}), "'aa'", "Did you mean 'a'?")
    assert (await tools.call_tool("close_group", {})).is_error
    assert (await tools.call_tool("close_group", {"group": "a", "more": 1})).is_error


@pytest.mark.spec("CTL-2", "CTL-3")
async def test_the_tool_that_closes_leaves_groups_without_a_deactivator_open() -> None:
    tools = desk(control="open_group")
    tools.register_group("one_way", show_deactivator=False)
    await tools.call_tool("open_group", {"group": "one_way"})
    assert (await tools.call_tool("close_group", {"group": "one_way"})).is_error
    assert tools.is_group_active("one_way")


@pytest.mark.spec("CTL-3")
@pytest.mark.parametrize("control", ["open_group", "load_tool_group", "expand_tools"])
async def test_the_argument_of_a_loader_names_all_groups_that_it_opens_whatever_is_open(control: str) -> None:
    tools = desk(control=control)
    tools.register_group("pinned", pinned=True)
    (argument,) = tools.catalog.tools[control].input_schema["properties"]

    def definition() -> Any:
        return tools.catalog.tools[control].definition

    before = definition()
    assert before["inputSchema"]["properties"][argument]["enum"] == ["a", "a.x", "b", "c"]
    schema = jsonschema_rs.validator_for(before["inputSchema"])
    assert schema.is_valid({argument: "a.x"})
    assert not schema.is_valid({argument: "invented"})
    await tools.activate_group("a")
    assert definition() == before
    assert (await tools.call_tool(control, {argument: "invented"})).is_error


@pytest.mark.spec("CTL-3")
def test_the_argument_of_a_loader_names_at_most_fifty_groups() -> None:
    tools = ToolSet("many", control="open_group")
    for number in range(MOST_NAMED):
        tools.register_group(f"g{number}")
    assert len(tools.catalog.tools["open_group"].input_schema["properties"]["group"]["enum"]) == MOST_NAMED == 50
    tools.register_group("one_more")
    assert "enum" not in tools.catalog.tools["open_group"].input_schema["properties"]["group"]
    assert (
        "enum"
        not in ToolSet("none", control="load_tool_group").list_tools().tools[0].input_schema["properties"]["group_name"]
    )


@pytest.mark.spec("CTL-3", "NAM-6", "REG-4")
@pytest.mark.parametrize(
    ("control", "names"), [("open_group", {"open_group", "close_group"}), ("load_tool_group", {"load_tool_group"})]
)
def test_the_names_of_loaders_are_taken(control: str, names: set[str]) -> None:
    tools = desk(control=control)
    for name in names:
        with pytest.raises(DuplicateName):
            tools.register(name, lambda: None)
    guarded: list[str] = []
    tools.guard_names(guarded.append)
    assert names <= set(guarded)
