"""SPEC CALL-1: a tool that can't be called is answered like an unknown one; on request, a hint says what opens it."""

from typing import Any

import pytest

from tests.core.support import answer, with_groups
from toolfold import Loader, ToolNotFound, ToolSet, Visibility, success_of
from toolfold._toolset.control import ControlName


async def refusal(tools: ToolSet, name: str) -> tuple[str, str | None]:
    """Return the text, up to the name, and the hint of the answer to a call that finds no tool."""
    with pytest.raises(ToolNotFound) as caught:
        await tools.call_tool(name)
    before, found, after = str(caught.value).partition(f": {name}")
    assert found
    assert caught.value.name == name
    return before + after, caught.value.hint


@pytest.mark.spec("CALL-1", "VIS-5")
@pytest.mark.parametrize("settings", [{}, {"on_hidden": "opaque"}])
async def test_unknown_and_unavailable_tools_have_the_same_answer(settings: dict[str, Any]) -> None:
    tools = with_groups("a", "a.x", **settings)
    tools.register("t", answer, group="a.x")
    tools.register("hidden", answer, group="a", hidden=True)
    tools.register("when", answer, visibility=Visibility.when(lambda view: False))
    answers = {await refusal(tools, name) for name in ("nothing", "a.x.t", "a.hidden", "when", "no.such", "", "a")}
    assert len(answers) == 1


@pytest.mark.spec("CALL-1")
async def test_on_request_a_hint_names_the_group_to_activate() -> None:
    tools = with_groups("a", on_hidden="hint")
    tools.register("t", answer, group="a")
    tools.register("elsewhere", answer, group="a", visibility=Visibility.when(lambda view: False))
    text, hint = await refusal(tools, "a.t")
    assert hint == "it needs the group a: call a.activate first"
    assert hint in text
    assert (await refusal(tools, "a.u"))[1] == "did you mean 'a.t'?"
    assert (await refusal(tools, "nothing"))[1] is None
    assert (await refusal(tools, "a.elsewhere"))[1] is None  # activating the group would not help
    await tools.activate_group("a")
    assert (await tools.call_tool("a.t")).text == "done"
    assert (await refusal(tools, "a.elsewhere"))[1] is None


def nested(**settings: Any) -> ToolSet:
    """Return a tool set with a tool in the innermost of three groups."""
    tools = with_groups("a", "a.b", "a.b.c", on_hidden="hint", **settings)
    tools.register("t", answer, group="a.b.c")
    return tools


@pytest.mark.spec("CALL-1")
async def test_a_hint_names_the_topmost_closed_group_and_the_tool_that_opens_it() -> None:
    tools = nested()
    for path in ("a", "a.b", "a.b.c"):
        hint = (await refusal(tools, "a.b.c.t"))[1]
        assert hint == f"it needs the group {path}: call {path}.activate first"
        await tools.activate_group(path)
    assert (await tools.call_tool("a.b.c.t")).text == "done"


@pytest.mark.spec("CALL-1", "CTL-3")
@pytest.mark.parametrize(
    ("control", "call"),
    [
        ("load_tool_group", 'load_tool_group {"group_name": "a"}'),
        ("expand_tools", 'expand_tools {"group": "a"}'),
        (Loader(name="open", argument="which"), 'open {"which": "a"}'),
    ],
    ids=["load_tool_group", "expand_tools", "own"],
)
async def test_a_hint_names_the_loader_with_its_argument(control: Any, call: str) -> None:
    hint = (await refusal(nested(control=control), "a.b.c.t"))[1]
    assert hint == f"it needs the group a: call {call} first"


@pytest.mark.spec("CALL-1", "CTL-2")
async def test_a_hint_names_only_what_the_caller_can_call_and_sees_listed() -> None:
    closed = "it needs the group a, which is not open"
    assert (await refusal(nested(control="none"), "a.b.c.t"))[1] == closed
    tools = nested(control_visibility="relevant")
    assert (await refusal(tools, "a.b.c.t"))[1] == "it needs the group a: call a.activate first"
    shown_to_nobody: list[dict[str, Any]] = [{"visibility": Visibility.when(lambda view: False)}, {"hidden": True}]
    for options in shown_to_nobody:
        tools = nested()
        tools.register("activate", answer, group="a", replaces_control=True, **options)
        assert (await refusal(tools, "a.b.c.t"))[1] == closed
    tools.unregister("a.activate")
    tools.register("activate", answer, group="a", replaces_control=True)
    assert (await refusal(tools, "a.b.c.t"))[1] == "it needs the group a: call a.activate first"


@pytest.mark.spec("CALL-1", "SES-6")
@pytest.mark.parametrize("control", ["per_group", "load_tool_group"])
async def test_a_hint_names_the_event_that_opens_a_group_if_it_can_happen(control: ControlName) -> None:
    tools = ToolSet("t", on_hidden="hint", control=control)
    tools.register_group("gate", opens_on=success_of("observe"))
    tools.register_group("later", opens_on=success_of("gate.t"))
    tools.register("t", answer, group="gate")
    tools.register("u", answer, group="later")
    gate, later = (f"it needs the group {path}" for path in ("gate", "later"))
    assert (await refusal(tools, "gate.t"))[1] == f"{gate}, which is not open"
    tools.register("observe", answer)
    assert (await refusal(tools, "gate.t"))[1] == f"{gate}: it opens when observe succeeds"
    assert (await refusal(tools, "later.u"))[1] == f"{later}, which is not open"
    await tools.call_tool("observe")
    assert (await refusal(tools, "later.u"))[1] == f"{later}: it opens when gate.t succeeds"
