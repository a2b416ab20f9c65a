"""SPEC 13: composite tools, which offer only the modes that are available, with counts.

What a request asks of the application state, and what it does when that fails, is in test_modes_reading.py.
"""

import json
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.modes import (
    ERRORS,
    OBSERVE,
    WHAT,
    Buffers,
    answer,
    enum_of,
    mode,
    modes_of,
    observing,
    shown,
    there,
)
from toolfold import InvalidDefinition, Mode, Modes, ToolNotFound, ToolSet, View, tool

# What a list shows


@pytest.mark.spec("MOD-1")
def test_the_listed_enum_holds_the_available_modes_in_declared_order_and_nothing_else_changes() -> None:
    """Document B, state-aware tool list: the enum holds what has data."""
    buffers = Buffers(actions=1)
    tools = observing(buffers)
    assert enum_of(tools) == ["errors", "actions"]
    buffers.held = {"network": 2, "actions": 1}
    assert enum_of(tools) == ["errors", "network", "actions"]
    buffers.held = {}
    schema = shown(tools).input_schema
    assert schema == {**WHAT, "properties": {**WHAT["properties"], "what": {"type": "string", "enum": ["errors"]}}}


@given(st.permutations(["errors", "network", "actions"]), st.sets(st.sampled_from(["errors", "network", "actions"])))
@pytest.mark.spec("MOD-1")
def test_available_modes_are_in_the_order_of_their_declaration(order: list[str], full: set[str]) -> None:
    tools = observing(Buffers(**dict.fromkeys(full, 1)), Modes("what", {name: mode(name) for name in order}))
    listed = tools.list_tools()
    if not full:
        assert listed.names == ()
    else:
        assert enum_of(tools) == [name for name in order if name in full]


@pytest.mark.spec("MOD-1", "VIS-5", "VIS-7", "CALL-1")
async def test_a_tool_without_an_available_mode_is_omitted_and_called_as_if_it_did_not_exist() -> None:
    """Document B, state-aware tool list: a tool without modes is left out."""
    buffers = Buffers()
    tools = observing(buffers, Modes("what", {name: mode(name) for name in ("errors", "network", "actions")}))
    assert tools.list_tools().names == ()
    with pytest.raises(ToolNotFound, match=r"^Unknown tool: observe$"):
        await tools.call_tool("observe", {"what": "network"})
    buffers.held = {"network": 1}
    assert tools.list_tools().names == ("observe",)
    assert (await tools.call_tool("observe", {"what": "network"})).text == '{"what": "network"}'


@pytest.mark.spec("MOD-1", "VIS-1")
async def test_a_composite_tool_needs_its_group_as_well_as_a_mode() -> None:
    buffers = Buffers()
    tools = ToolSet("page", state=buffers.read, control="none")
    tools.register_group("page")
    modes = Modes("what", {name: mode(name) for name in ("errors", "network", "actions")})
    tools.register("observe", answer, group="page", flat=True, input_schema=WHAT, modes=modes)
    available = []
    for held in ({}, {"network": 1}):
        buffers.held = held
        for active in (False, True):
            await (tools.activate_group if active else tools.deactivate_group)("page")
            available.append(tools.list_tools().names == ("observe",))
    assert available == [False, False, False, True]


@pytest.mark.spec("MOD-1")
def test_the_enum_comes_from_the_modes_if_the_schema_has_none() -> None:
    def observe(what: str, limit: int = 10) -> str:
        return what

    tools = ToolSet("page", state=Buffers(network=1).read)
    tools.register("observe", observe, modes=OBSERVE)
    assert shown(tools).input_schema["properties"]["what"] == {"type": "string", "enum": ["errors", "network"]}


@pytest.mark.spec("MOD-1", "KIT-1")
async def test_modes_are_declared_by_decorators_and_literals_too() -> None:
    buffers = Buffers(network=1)
    tools = ToolSet("page", state=buffers.read)

    @tools.tool(modes=OBSERVE)
    def observe(what: Literal["errors", "network", "actions"]) -> str:
        return what

    class Analysis:
        @tool(modes=Modes("what", {"only": mode("network")}))
        def analyze(self, what: Literal["only"]) -> str:
            return what

    tools.include(Analysis())
    assert (enum_of(tools), enum_of(tools, "analyze")) == (["errors", "network"], ["only"])
    assert (await tools.call_tool("analyze", {"what": "only"})).text == "only"
    buffers.held = {}
    assert tools.list_tools().names == ("observe",)


@pytest.mark.spec("MOD-1", "MOD-4")
async def test_a_default_is_offered_only_while_its_mode_is_available() -> None:
    def observe(what: Literal["errors", "network", "actions"] = "network") -> str:
        return what

    buffers = Buffers(network=1)
    tools = ToolSet("page", state=buffers.read)
    tools.register("observe", observe, modes=OBSERVE)
    assert shown(tools).input_schema["properties"]["what"]["default"] == "network"
    assert (await tools.call_tool("observe")).text == "network"
    buffers.held = {}
    assert shown(tools).input_schema["required"] == ["what"]
    assert "default" not in shown(tools).input_schema["properties"]["what"]
    assert (await tools.call_tool("observe")).is_error
    assert (await tools.call_tool("observe", {"what": "errors"})).text == "errors"


@pytest.mark.spec("MOD-1", "MOD-4", "KIT-3")
async def test_modes_work_with_every_form_of_schema() -> None:
    tools = ToolSet("page", state=Buffers(network=1).read)
    fields = {"what": {"type": "enum", "values": ["errors", "network", "actions"], "default": "actions"}}
    tools.register("mapping", answer, input=WHAT, modes=OBSERVE)
    tools.register("text", answer, input=json.dumps(WHAT), modes=OBSERVE)
    tools.register("fields", answer, input=fields, modes=OBSERVE)
    for name in ("mapping", "text", "fields"):
        assert enum_of(tools, name) == ["errors", "network"]
        assert [(await tools.call_tool(name, {"what": what})).is_error for what in ("network", "actions")] == [
            False,
            True,
        ]
    assert (await tools.call_tool("fields")).is_error  # the default is not available, so it is not filled in


@pytest.mark.spec("MOD-1", "LST-5")
def test_modes_without_predicates_and_counts_are_computed_once() -> None:
    buffers = Buffers()
    tools = observing(buffers, Modes("what", {"actions": Mode(), "errors": Mode(), "network": Mode()}))
    assert enum_of(tools) == ["actions", "errors", "network"]
    assert tools.list_tools() is tools.list_tools()
    assert buffers.readings == 0


@pytest.mark.spec("LST-5")
def test_tools_beside_a_composite_one_are_not_rebuilt() -> None:
    tools = observing(Buffers(network=1))
    tools.register("ping", lambda: "pong")
    assert shown(tools, "ping") is shown(tools, "ping") is tools.catalog.tools["ping"]
    assert shown(tools).origin is tools.catalog.tools["observe"]


# Counts


@pytest.mark.spec("MOD-2")
def test_counts_are_given_for_available_modes_that_have_one() -> None:
    """Document B, capability annotations."""
    buffers = Buffers(errors=3, actions=8)
    modes = Modes("what", {"errors": ERRORS, "network": Mode(), "actions": mode("actions")})
    tools = observing(buffers, modes)
    meta = {"available_modes": ["errors", "network", "actions"], "data_counts": {"errors": 3, "actions": 8}}
    assert shown(tools).definition["_meta"] == meta
    buffers.held = {}
    assert shown(tools).definition["_meta"] == {"available_modes": ["errors", "network"], "data_counts": {"errors": 0}}


@pytest.mark.spec("MOD-2")
def test_a_tool_without_counts_has_only_its_own_meta() -> None:
    """Document B, edge cases: nothing to count, no annotation."""
    tools = ToolSet("page", state=Buffers().read)
    modes = Modes("what", {"errors": Mode(), "network": Mode(available=there("network")), "actions": Mode()})
    tools.register("observe", answer, input_schema=WHAT, modes=modes)
    tools.register("labelled", answer, input_schema=WHAT, modes=modes, category="page")
    tools.register("counted", answer, input_schema=WHAT, modes=OBSERVE, category="page")
    assert "_meta" not in shown(tools).definition
    assert shown(tools, "labelled").definition["_meta"] == {"category": "page"}
    assert shown(tools, "counted").definition["_meta"] == {
        "category": "page",
        "available_modes": ["errors"],
        "data_counts": {"errors": 0},
    }
    assert tools.catalog.tools["counted"].definition["_meta"] == {"category": "page"}


# Calls


@pytest.mark.spec("MOD-4", "CALL-2")
@pytest.mark.parametrize("typed", [False, True])
async def test_an_unavailable_mode_is_answered_like_any_value_outside_the_enum(typed: bool) -> None:
    ran: list[str] = []

    def observe(what: Literal["errors", "network", "actions"]) -> str:
        ran.append(what)
        return what

    def raw(arguments: dict[str, Any]) -> str:
        return observe(arguments["what"])

    tools = ToolSet("page", state=Buffers(network=1).read)
    tools.register("observe", observe if typed else raw, input_schema=None if typed else WHAT, modes=OBSERVE)
    unavailable = await tools.call_tool("observe", {"what": "actions"})
    nonsense = await tools.call_tool("observe", {"what": "nonsense"})
    assert unavailable.is_error
    assert nonsense.is_error
    assert "arguments.what" in unavailable.text
    assert unavailable.text.replace("actions", "nonsense") == nonsense.text
    assert ran == []
    assert (await tools.call_tool("observe", {"what": "network"})).text == "network"


@pytest.mark.spec("MOD-4", "VIS-6")
async def test_a_hidden_composite_tool_takes_available_modes_only() -> None:
    tools = ToolSet("page", state=Buffers(network=1).read)
    tools.register("observe", answer, input_schema=WHAT, modes=OBSERVE, hidden=True)
    assert tools.list_tools().names == ()
    assert not (await tools.call_tool("observe", {"what": "network"})).is_error
    assert (await tools.call_tool("observe", {"what": "actions"})).is_error


# Bad declarations


async def later(view: View) -> bool:
    return True


BAD: list[tuple[Any, str]] = [
    (Modes("what", {}), "it has no modes"),
    (Modes("kind", OBSERVE.modes), "'kind', which its schema has not"),
    (Modes("what", {**OBSERVE.modes, "cookies": Mode()}), "mode 'cookies' is not in the enum of 'what'"),
    (Modes("what", {"errors": Mode(), "network": Mode()}), "enum of 'what' has 'actions', which is none of its modes"),
    (modes_of(network=Mode(available=later)), "predicate of its mode 'network' is async"),  # type: ignore[arg-type]
    (modes_of(network=Mode(count=later)), "count of its mode 'network' is async"),  # type: ignore[arg-type]
    (modes_of(network=Mode(available=True)), "predicate of its mode 'network' can't be called"),  # type: ignore[arg-type]
    (modes_of(actions=Mode(count=3)), "count of its mode 'actions' can't be called"),  # type: ignore[arg-type]
    (modes_of(actions=there("actions")), "mode 'actions' is a function, and must be a Mode"),
    (Modes("what", {**OBSERVE.modes, 7: Mode()}), "mode 7 must be named by a text"),  # type: ignore[dict-item]
    (Modes("limit", {"errors": Mode()}), "'limit' must be a text with its enum in place"),
    ({"what": ["errors"]}, "must be given as Modes"),
]


@pytest.mark.spec("MOD-1", "REG-1", "REG-6")
@pytest.mark.parametrize(("modes", "problem"), BAD, ids=[problem for _, problem in BAD])
def test_a_bad_declaration_fails_at_registration_naming_tool_and_mode(modes: Any, problem: str) -> None:
    tools = ToolSet("page")
    before = tools.catalog
    with pytest.raises(InvalidDefinition, match=problem) as raised:
        tools.register("observe", answer, input_schema=WHAT, modes=modes)
    assert raised.value.name == "observe"
    assert tools.catalog is before


@pytest.mark.spec("MOD-1", "REG-6")
@pytest.mark.parametrize(
    "parameter",
    [
        {"$ref": "#/$defs/What"},
        {"anyOf": [{"type": "string", "enum": ["errors"]}, {"type": "null"}]},
        {"type": ["string", "null"], "enum": ["errors", None]},
        {"type": "array", "items": {"enum": ["errors"]}},
    ],
)
def test_an_enum_that_is_not_inline_is_refused_with_what_to_do(parameter: Any) -> None:
    schema = {"type": "object", "properties": {"what": parameter}, "$defs": {"What": {"enum": ["errors"]}}}
    with pytest.raises(InvalidDefinition, match=r"a text with its enum in place.* Literal"):
        ToolSet("page").register("observe", answer, input_schema=schema, modes=Modes("what", {"errors": Mode()}))


def test_modes_are_immutable() -> None:
    given_modes = {"errors": Mode()}
    modes = Modes("what", given_modes)
    given_modes["more"] = Mode()
    assert list(modes.modes) == ["errors"]
    with pytest.raises(TypeError):
        modes.modes["more"] = Mode()  # type: ignore[index]
