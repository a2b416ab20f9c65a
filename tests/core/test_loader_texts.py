"""SPEC CTL-3, GRP-3, GRP-5: what loaders answer, word by word, and the groups in a system prompt."""

from typing import Any

import pytest

from tests.core.support import answer
from toolfold import (
    ConfigError,
    Loader,
    LoaderTexts,
    Profile,
    ToolError,
    ToolSet,
    Visibility,
    prompt_section,
    success_of,
    system_prompt,
)
from toolfold._toolset.control import ControlName


def mail(control: ControlName | Loader = "load_tool_group", **settings: Any) -> ToolSet:
    """Two groups with tools that exclude one another, one without tools, and one that only an event opens."""
    tools = ToolSet("mail", control=control, **settings)
    tools.register_group("google_gmail", "Email: search\nand send", title="Google Gmail")
    tools.register_group("google_drive", "Files")
    tools.register_group("hollow")
    tools.register_group("receipts", "After sending", opens_on=success_of("gmail_send"))
    tools.register_exclusion("google_gmail", "google_drive")
    tools.register("gmail_search", answer, description="Search\nmessages", group="google_gmail", flat=True)
    tools.register("gmail_send", answer, description="Send a message", group="google_gmail", flat=True)
    tools.register("gmail_debug", answer, group="google_gmail", flat=True, hidden=True)
    tools.register("drive_list", answer, description="", group="google_drive", flat=True)
    tools.register("receipt", answer, group="receipts")
    return tools


async def received(tools: ToolSet, **arguments: Any) -> tuple[str, Any]:
    """Return the text and the structured content of a call of the loader."""
    [loader] = [spec.name for spec in tools.core_tools() if spec.control]
    result = await tools.call_tool(loader, arguments)
    assert result.is_error is ("error_type" in (result.structured or {}) or result.structured is None)
    return result.text, result.structured


@pytest.mark.spec("GRP-3", "CTL-4")
async def test_loading_is_answered_in_the_words_of_document_c() -> None:
    text, structured = await received(mail(), group_name="google_gmail")
    assert text == (
        "Loaded 2 tools from group 'Google Gmail':\n- gmail_search: Search messages\n- gmail_send: Send a message"
    )
    assert structured == {
        "group": "google_gmail",
        "changed": True,
        "active": ["google_gmail"],
        "displaced": [],
        "tools": ["gmail_search", "gmail_send"],
    }


@pytest.mark.spec("GRP-3", "CTL-4")
async def test_loading_twice_changes_nothing_and_the_answer_says_that() -> None:
    """Document C, step 4b: a loaded group is not added again."""
    tools = mail()
    await received(tools, group_name="google_gmail")
    before = tools.default_session.snapshot
    text, structured = await received(tools, group_name="google_gmail")
    first, *lines = text.splitlines()
    assert first == "Tool group 'Google Gmail' was loaded already, so nothing changed."
    assert lines == ["- gmail_search: Search messages", "- gmail_send: Send a message"]
    assert (structured["changed"], structured["active"]) == (False, ["google_gmail"])
    assert tools.default_session.snapshot is before


@pytest.mark.spec("GRP-3", "CTL-4")
async def test_loading_names_what_it_displaced() -> None:
    tools = mail()
    await received(tools, group_name="google_gmail")
    text, structured = await received(tools, group_name="google_drive")
    assert text == "Loaded 1 tools from group 'google_drive':\n- drive_list\nClosed to make room: google_gmail."
    assert structured["displaced"] == ["google_gmail"]


ARGUMENT_ERROR = "Required parameter 'group_name' is missing."
KNOWN = ["google_drive", "google_gmail", "hollow"]


@pytest.mark.spec("GRP-3", "CTL-5")
@pytest.mark.parametrize(
    ("arguments", "text", "structured"),
    [
        ({}, ARGUMENT_ERROR, {"error_type": "missing_parameter", "parameter": "group_name"}),
        ({"group_name": None}, ARGUMENT_ERROR, {"error_type": "missing_parameter", "parameter": "group_name"}),
        (
            {"group_name": "nonexistent"},
            "Tool group 'nonexistent' not found. Available groups: google_drive, google_gmail, hollow",
            {"error_type": "not_found", "group": "nonexistent", "groups": KNOWN},
        ),
        (
            {"group_name": "hollow"},
            "Tool group 'hollow' has no available tools.",
            {"error_type": "empty_group", "group": "hollow"},
        ),
    ],
    ids=["left out", "null", "unknown", "empty"],
)
async def test_errors_have_the_types_and_words_of_document_c_and_load_nothing(
    arguments: dict[str, Any], text: str, structured: dict[str, Any]
) -> None:
    tools = mail()
    assert await received(tools, **arguments) == (text, structured)
    assert tools.default_session.active == ()


@pytest.mark.spec("GRP-3", "CALL-2")
@pytest.mark.parametrize("arguments", [{"group_name": 5}, {"group_name": "google_gmail", "more": 1}])
async def test_an_argument_that_is_wrong_in_another_way_has_an_error_type_of_its_own(arguments: dict[str, Any]) -> None:
    tools = mail()
    text, structured = await received(tools, **arguments)
    assert text.startswith("Invalid arguments for load_tool_group: ")
    assert structured == {"error_type": "invalid_parameter"}
    assert tools.default_session.active == ()


@pytest.mark.spec("GRP-3")
async def test_where_there_are_no_groups_none_are_named() -> None:
    text, _ = await received(ToolSet("t", control="load_tool_group"), group_name="x")
    assert text == "Tool group 'x' not found. Available groups: none"


@pytest.mark.spec("GRP-3", "PRO-1", "SES-6")
async def test_groups_that_are_not_for_the_model_are_not_found() -> None:
    """Document C, security considerations: loading bypasses nothing."""
    tools = mail()
    outside = await received(tools, group_name="receipts")
    assert outside[0] == "Tool group 'receipts' not found. Available groups: google_drive, google_gmail, hollow"
    tools.register_profile(Profile(name="reader", available=("google_drive",)))
    async with tools.open_session("reader") as session:
        result = await session.call("load_tool_group", {"group_name": "google_gmail"})
        assert result.text == "Tool group 'google_gmail' not found. Available groups: google_drive"
        assert prompt_section(session).endswith("\n\n- google_drive: Files")


@pytest.mark.spec("GRP-3")
async def test_a_group_is_not_empty_if_anything_depends_on_it() -> None:
    tools = mail()
    tools.register_group("outer")
    tools.register_group("inner", parent="outer")
    tools.register("deep", answer, group="outer.inner")
    tools.register_group("words")
    tools.register_prompt("greeting", answer, group="words")
    tools.register_group("key")
    tools.register("door", answer, visibility=Visibility.group("key") & ~Visibility.group("hollow"))
    assert (await received(tools, group_name="outer"))[0] == "Loaded 0 tools from group 'outer'."
    assert (await received(tools, group_name="words"))[0] == "Loaded 0 tools from group 'words'."
    assert (await received(tools, group_name="key"))[0] == "Loaded 1 tools from group 'key':\n- door"
    assert tools.default_session.active == ("key", "outer", "words")


@pytest.mark.spec("GRP-3", "CTL-5")
async def test_other_refusals_say_what_to_do() -> None:
    def fail() -> None:
        raise ToolError("The mailbox is locked.")

    tools = mail(max_active=1)
    tools.register_group("shut", on_activate=fail)
    tools.register("t", answer, group="shut")
    tools.register_group("outer")
    tools.register_group("outer.inner")
    tools.register("deep", answer, group="outer.inner")
    assert "The mailbox is locked." in (await received(tools, group_name="shut"))[0]
    assert 'call load_tool_group {"group_name": "outer"} first' in (await received(tools, group_name="outer.inner"))[0]
    await received(tools, group_name="google_gmail")
    assert "limit of 1" in (await received(tools, group_name="outer"))[0]


@pytest.mark.spec("CTL-3", "CTL-4")
async def test_expand_tools_answers_with_a_heading_and_the_tools() -> None:
    tools = mail("expand_tools")
    text, structured = await received(tools, group="google_gmail")
    heading, blank, *lines = text.splitlines()
    assert (heading, blank) == ("## Google Gmail Tools", "")
    assert lines == ["- gmail_search: Search messages", "- gmail_send: Send a message"]
    assert structured["tools"] == ["gmail_search", "gmail_send"]
    assert "already" in (await received(tools, group="google_gmail"))[0]
    assert (await received(tools, group="hollow"))[0].endswith("adds no tools to the list.")
    assert (await received(tools, group="no"))[1] == {"error_type": "not_found", "group": "no", "groups": KNOWN}
    assert (await received(tools))[1] == {"error_type": "missing_parameter"}


@pytest.mark.spec("CTL-3")
async def test_a_custom_loader_answers_in_its_own_words() -> None:
    texts = LoaderTexts(loaded="{group}/{title}/{count}\n{tools}", nothing="nothing in {group}", again="again {title}")
    tools = mail(Loader(name="open", argument="which", texts=texts))
    assert (await received(tools, which="google_drive"))[0] == "google_drive/google_drive/1\n- drive_list"
    assert (await received(tools, which="google_drive"))[0] == "again google_drive"
    assert (await received(tools, which="hollow"))[0] == "nothing in hollow"
    assert (await received(tools, which="no"))[0].startswith("There is no group 'no'.")


@pytest.mark.spec("CTL-3")
def test_the_tools_that_open_and_close_groups_are_described_in_the_words_of_the_loader() -> None:
    words = Loader(name="open", description="Take it out.", closer="close", closer_description="Put it back.")
    tools = mail(words).catalog.tools
    first, heading, *_ = tools["open"].description.splitlines()
    assert (first.endswith(". Take it out."), heading) == (True, "Groups:")
    assert tools["close"].description == "Put it back."


@pytest.mark.spec("CTL-3", "GRP-3")
async def test_every_text_may_contain_every_placeholder() -> None:
    all_of_them = "{group}|{title}|{count}|{tools}|{groups}|{argument}"
    texts = LoaderTexts(**dict.fromkeys(("loaded", "nothing", "again", "missing", "not_found", "empty"), all_of_them))
    tools = mail(Loader(name="open", argument="which", texts=texts))
    assert (await received(tools))[0] == "||0|||which"
    assert (await received(tools, which="no"))[0] == "no||0||google_drive, google_gmail, hollow|"
    assert (await received(tools, which="hollow"))[0] == "hollow|hollow|0|||"
    assert (await received(tools, which="google_drive"))[0] == "google_drive|google_drive|1|- drive_list||"


@pytest.mark.spec("CTL-3")
@pytest.mark.parametrize(
    "template", ["{nothing}", "{0}", "{", "{tools.no}", 5, "{tools} {tools}", "{tools!r}", "{tools:.3}"]
)
def test_a_text_that_cannot_be_filled_in_is_refused(template: Any) -> None:
    with pytest.raises(ConfigError, match="'again'"):
        LoaderTexts(loaded="", nothing="", again=template)


GUIDE = "## Available Tool Groups\n\nUse `load_tool_group` to load tools from a group before using them.\n\n"
LINES = "- google_drive: Files\n- google_gmail: Email: search and send\n- hollow"


@pytest.mark.spec("GRP-5")
def test_the_section_follows_the_base_prompt_if_there_is_one() -> None:
    """Document C, step 4d and system prompt format."""
    tools = mail()
    assert prompt_section(tools) == GUIDE + LINES
    assert system_prompt("Be kind.\n", tools) == "Be kind.\n\n\n---\n\n" + GUIDE + LINES
    for blank in ("", " \n"):
        assert system_prompt(blank, tools) == GUIDE + LINES


@pytest.mark.spec("GRP-5")
@pytest.mark.parametrize("control", ["load_tool_group", "expand_tools", "per_group"])
def test_without_groups_there_is_no_section(control: ControlName) -> None:
    """Document C, step 4d: no groups, no section."""
    tools = ToolSet("t", control=control)
    tools.register_group("gate", opens_on=success_of("x"))
    assert prompt_section(tools) == ""
    assert system_prompt("Be kind.", tools) == "Be kind."
    assert prompt_section(mail("none")) == ""


@pytest.mark.spec("GRP-5")
def test_the_section_names_what_opens_groups_here_as_the_model_knows_it() -> None:
    assert "Use `expand_tools` to" in prompt_section(mail("expand_tools"))
    section = prompt_section(mail("per_group"), to_wire=lambda name: name.replace(".", "__"))
    assert "`google_drive__activate`" in section
    assert section.endswith(f"\n\n{LINES}")
