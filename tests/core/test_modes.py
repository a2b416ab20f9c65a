"""SPEC 13: composite tools, of which only the modes are offered that are of use now, with counts; one reading each."""

import json
import logging
from collections.abc import Callable
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolfold import (
    Context,
    InvalidDefinition,
    Mode,
    Modes,
    Session,
    Spec,
    ToolNotFound,
    ToolSet,
    View,
    Visibility,
    success_of,
    tool,
)
from toolfold.observe import Event, PredicateFailed

WHAT: dict[str, Any] = {
    "type": "object",
    "properties": {"what": {"type": "string", "enum": ["errors", "network", "actions"]}, "limit": {"type": "integer"}},
    "required": ["what"],
    "additionalProperties": False,
}


class Buffers:
    """An application state that counts how often it is read."""

    def __init__(self, **held: int) -> None:
        self.held = held
        self.readings = 0

    def read(self) -> dict[str, int]:
        self.readings += 1
        return dict(self.held)

    def take(self) -> int:
        """Return the readings since the last time."""
        taken, self.readings = self.readings, 0
        return taken


def there(name: str) -> Callable[[View], bool]:
    return lambda view: view.state.get(name, 0) > 0


def number(name: str) -> Callable[[View], int]:
    return lambda view: int(view.state.get(name, 0))


def mode(name: str) -> Mode:
    return Mode(available=there(name), count=number(name))


ERRORS = Mode(count=number("errors"))
OBSERVE = Modes("what", {"errors": ERRORS, "network": mode("network"), "actions": mode("actions")})


def answer(arguments: dict[str, Any]) -> str:
    return json.dumps(arguments)


def observing(buffers: Buffers, modes: Modes = OBSERVE, **settings: Any) -> ToolSet:
    tools = ToolSet("page", state=buffers.read, **settings)
    tools.register("observe", answer, input_schema=WHAT, modes=modes)
    return tools


def shown(tools: ToolSet | Session, name: str = "observe") -> Spec:
    return {spec.name: spec for spec in tools.list_tools().tools}[name]


def enum_of(tools: ToolSet | Session, name: str = "observe") -> list[str]:
    enum: list[str] = shown(tools, name).input_schema["properties"]["what"]["enum"]
    return enum


# What a list shows


@pytest.mark.spec("MOD-1")
def test_the_listed_enum_holds_the_available_modes_in_declared_order_and_nothing_else_changes() -> None:
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
def test_whatever_is_available_the_order_is_that_of_the_declaration(order: list[str], full: set[str]) -> None:
    tools = observing(Buffers(**dict.fromkeys(full, 1)), Modes("what", {name: mode(name) for name in order}))
    listed = tools.list_tools()
    if not full:
        assert listed.names == ()
    else:
        assert enum_of(tools) == [name for name in order if name in full]


@pytest.mark.spec("MOD-1", "VIS-5", "VIS-7", "CALL-1")
async def test_a_tool_without_an_available_mode_is_omitted_and_called_as_if_it_did_not_exist() -> None:
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
async def test_modes_go_with_every_form_of_schema() -> None:
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
def test_modes_without_predicates_and_counts_are_worked_out_once_for_all() -> None:
    buffers = Buffers()
    tools = observing(buffers, Modes("what", {"actions": Mode(), "errors": Mode(), "network": Mode()}))
    assert enum_of(tools) == ["actions", "errors", "network"]
    assert tools.list_tools() is tools.list_tools()
    assert buffers.readings == 0


@pytest.mark.spec("LST-5")
def test_tools_beside_a_composite_one_are_not_made_anew() -> None:
    tools = observing(Buffers(network=1))
    tools.register("ping", lambda: "pong")
    assert shown(tools, "ping") is shown(tools, "ping") is tools.catalog.tools["ping"]
    assert shown(tools).origin is tools.catalog.tools["observe"]


@pytest.mark.spec("MOD-1", "LST-2")
def test_composite_tools_are_paged_like_any_other() -> None:
    tools = observing(Buffers(network=1), page_size=1)
    tools.register("another", lambda: "done")
    first = tools.list_tools()
    second = tools.list_tools(first.next_cursor)
    assert (first.names, second.names, second.next_cursor) == (("another",), ("observe",), None)
    assert second.tools[0].input_schema["properties"]["what"]["enum"] == ["errors", "network"]


# Counts


@pytest.mark.spec("MOD-2")
def test_counts_are_shown_for_available_modes_that_have_one() -> None:
    buffers = Buffers(errors=3, actions=8)
    modes = Modes("what", {"errors": ERRORS, "network": Mode(), "actions": mode("actions")})
    tools = observing(buffers, modes)
    meta = {"available_modes": ["errors", "network", "actions"], "data_counts": {"errors": 3, "actions": 8}}
    assert shown(tools).definition["_meta"] == meta
    buffers.held = {}
    assert shown(tools).definition["_meta"] == {"available_modes": ["errors", "network"], "data_counts": {"errors": 0}}


@pytest.mark.spec("MOD-2")
def test_a_tool_without_counts_has_no_such_meta_and_keeps_its_own() -> None:
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


@pytest.mark.spec("MOD-4", "CALL-2")
async def test_the_answer_is_the_same_whether_the_mode_is_hidden_now_or_was_never_there() -> None:
    never = {**WHAT, "properties": {**WHAT["properties"], "what": {"type": "string", "enum": ["errors", "network"]}}}
    tools = observing(Buffers(network=1))
    plain = ToolSet("plain")
    plain.register("observe", answer, input_schema=never)
    arguments = {"what": "actions"}
    assert await tools.call_tool("observe", arguments) == await plain.call_tool("observe", arguments)


@pytest.mark.spec("MOD-4", "VIS-6")
async def test_a_hidden_composite_tool_takes_available_modes_only() -> None:
    tools = ToolSet("page", state=Buffers(network=1).read)
    tools.register("observe", answer, input_schema=WHAT, modes=OBSERVE, hidden=True)
    assert tools.list_tools().names == ()
    assert not (await tools.call_tool("observe", {"what": "network"})).is_error
    assert (await tools.call_tool("observe", {"what": "actions"})).is_error


@pytest.mark.spec("MOD-4")
async def test_modes_come_back_as_they_went() -> None:
    buffers = Buffers()
    tools = observing(buffers)
    outcomes: list[tuple[int, bool]] = []
    for amount in (0, 1, 0, 1):
        buffers.held = {"network": amount}
        outcomes.append((len(enum_of(tools)), (await tools.call_tool("observe", {"what": "network"})).is_error))
    assert outcomes == [(1, True), (2, False), (1, True), (2, False)]


# Bad declarations


async def later(view: View) -> bool:
    return True


def modes_of(**modes: Any) -> Modes:
    return Modes("what", {name: modes.get(name, Mode()) for name in ("errors", "network", "actions")})


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
def test_a_bad_declaration_fails_at_registration_and_says_which_tool_and_mode(modes: Any, problem: str) -> None:
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
def test_an_enum_that_is_not_in_place_is_refused_with_what_to_do(parameter: Any) -> None:
    schema = {"type": "object", "properties": {"what": parameter}, "$defs": {"What": {"enum": ["errors"]}}}
    with pytest.raises(InvalidDefinition, match=r"a text with its enum in place.* Literal"):
        ToolSet("page").register("observe", answer, input_schema=schema, modes=Modes("what", {"errors": Mode()}))


def test_the_declared_modes_can_not_be_changed_afterwards() -> None:
    given_modes = {"errors": Mode()}
    modes = Modes("what", given_modes)
    given_modes["more"] = Mode()
    assert list(modes.modes) == ["errors"]
    with pytest.raises(TypeError):
        modes.modes["more"] = Mode()  # type: ignore[index]


# Failing predicates and counts


def broken(view: View) -> Any:
    raise RuntimeError("broken")


async def coroutine() -> bool:
    return True


@pytest.mark.spec("MOD-1", "VIS-4")
async def test_a_predicate_that_raises_costs_its_own_mode_only_and_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[Event] = []
    modes = modes_of(network=Mode(available=broken), actions=Mode(available=lambda view: coroutine()))  # type: ignore[arg-type,return-value]
    tools = observing(Buffers(), modes)
    tools.observe(told.append)
    with caplog.at_level(logging.ERROR, "toolfold"):
        for _ in range(3):
            assert enum_of(tools) == ["errors"]
            assert (await tools.call_tool("observe", {"what": "network"})).is_error
    failures = [event for event in told if isinstance(event, PredicateFailed)]
    assert [(event.kind, event.name, event.mode) for event in failures] == [
        ("tool", "observe", "network"),
        ("tool", "observe", "actions"),
    ]
    assert str(failures[0].error) == "broken"
    assert ["mode 'network'" in record.getMessage() for record in caplog.records] == [True, False]


@pytest.mark.spec("MOD-1", "VIS-4")
@pytest.mark.parametrize(
    "count",
    [broken, lambda view: "3", lambda view: True, lambda view: coroutine()],
    ids=["raises", "text", "truth", "awaitable"],
)
def test_a_count_that_fails_costs_itself_alone_and_is_reported_once(count: Any) -> None:
    told: list[Event] = []
    tools = observing(Buffers(), modes_of(errors=Mode(count=number("errors")), network=Mode(count=count)))
    tools.observe(told.append)
    for _ in range(3):
        assert shown(tools).definition["_meta"] == {
            "available_modes": ["errors", "network", "actions"],
            "data_counts": {"errors": 0},
        }
    assert [event.mode for event in told if isinstance(event, PredicateFailed)] == ["network"]


@pytest.mark.spec("MOD-1", "MOD-3", "VIS-4")
def test_a_failing_reading_leaves_the_modes_that_do_not_need_it() -> None:
    def state() -> Any:
        raise OSError("no page")

    tools = ToolSet("page", state=state)
    tools.register("observe", answer, input_schema=WHAT, modes=modes_of(network=mode("network")))
    assert enum_of(tools) == ["errors", "actions"]


# One reading


@pytest.fixture
def buffers() -> Buffers:
    return Buffers(network=1, actions=2)


@pytest.fixture
def tools(buffers: Buffers) -> ToolSet:
    """A tool set of which each request asks for the state again and again: modes, counts and predicates everywhere."""
    tools = ToolSet("page", state=buffers.read)
    tools.register_group("inner")
    tools.register_group("gate", opens_on=success_of("observe"), transient=True)
    tools.register_group("second", opens_on=success_of("observe"))
    tools.register("observe", answer, input_schema=WHAT, modes=OBSERVE)
    for group in ("inner", "gate", "second"):
        tools.register("more", answer, group=group, input_schema=WHAT, modes=OBSERVE)
    tools.register("seen", answer, input_schema=WHAT, visibility=Visibility.when(there("network")))
    tools.register_prompt("asked", lambda: "hello", visibility=Visibility.when(there("network")))

    async def work(context: Context) -> str:
        context.set_fact("worked", True)
        await context.activate("inner")
        await context.deactivate("inner")
        return "done"

    tools.register("work", work, visibility=Visibility.when(there("actions")))
    return tools


@pytest.mark.spec("MOD-3")
@pytest.mark.parametrize(
    "request_of",
    [
        "list",
        "call",
        "wrong mode",
        "activate",
        "activate again",
        "deactivate",
        "by code",
        "step",
        "gate",
        "work",
        "fact",
    ],
)
async def test_the_state_is_read_exactly_once_for_each_request(
    tools: ToolSet, buffers: Buffers, request_of: str
) -> None:
    async with tools.open_session(
        active=["inner"] if request_of in ("activate again", "deactivate") else []
    ) as session:
        buffers.take()
        match request_of:
            case "list":
                assert len(session.list_tools().names) == 5
            case "call":
                assert not (await session.call("seen", {"what": "network"})).is_error
            case "wrong mode":
                assert (await session.call("observe", {"what": "nonsense"})).is_error
            case "activate":
                result = await session.call("inner.activate")
                assert result.structured["tools"] == ["inner.more"]
            case "activate again":
                assert (await session.call("inner.activate")).structured["tools"] == ["inner.more"]
            case "deactivate":
                assert (await session.call("inner.deactivate")).structured["changed"]
            case "by code":
                assert await session.activate("inner")
            case "step":
                await session.transition(activate=["inner", "gate"])
            case "gate":
                assert not (await session.call("observe", {"what": "network"})).is_error
                assert session.active == ("gate", "second")
            case "work":
                assert (await session.call("work")).text == "done"
            case _:
                session.set_fact("name", 1)
        assert buffers.take() == 1


@pytest.mark.spec("MOD-3")
async def test_the_state_is_not_read_where_it_decides_nothing(tools: ToolSet, buffers: Buffers) -> None:
    async with tools.open_session() as session:
        with pytest.raises(ToolNotFound):
            await session.call("inner.more", {"what": "network"})
        assert not await session.deactivate("inner")
        assert buffers.take() == 0


@pytest.mark.spec("MOD-3", "HOOK-2")
async def test_a_step_with_hooks_is_judged_on_one_reading_though_they_change_the_state(buffers: Buffers) -> None:
    def capture() -> None:
        buffers.held["network"] = 5

    buffers.held = {}
    tools = ToolSet("page", state=buffers.read)
    tools.register_group("inner", on_activate=capture)
    tools.register("more", answer, group="inner", input_schema=WHAT, modes=OBSERVE)
    tools.register("seen", answer, input_schema=WHAT, visibility=Visibility.when(there("network")))
    async with tools.open_session() as session:
        result = await session.call("inner.activate")
        assert (result.structured["tools"], buffers.take()) == (["inner.more"], 1)
        assert session.list_tools().names == ("inner.activate", "inner.deactivate", "inner.more", "seen")


@pytest.mark.spec("MOD-3")
def test_predicates_and_counts_of_one_list_see_one_reading() -> None:
    counter = iter(range(1000))
    tools = ToolSet("page", state=lambda: dict.fromkeys(("errors", "network", "actions"), next(counter)))
    for name in ("one", "two"):
        tools.register(name, answer, input_schema=WHAT, modes=OBSERVE)
    for reading in range(1, 4):
        tools.default_session.set_fact("turn", reading)
        counts = [spec.definition["_meta"]["data_counts"] for spec in tools.list_tools().tools]
        assert len({count for held in counts for count in held.values()}) == 1


# Notifications


@pytest.mark.spec("MOD-1", "NTF-1", "NTF-3")
async def test_a_change_of_the_state_notifies_nobody_until_it_is_announced(buffers: Buffers) -> None:
    heard: list[frozenset[str]] = []
    buffers.held = {}
    tools = observing(buffers)
    async with tools.open_session() as session:
        session.on_list_changed(heard.append)
        buffers.held = {"network": 1}
        assert len(enum_of(session)) == 2
        session.set_fact("unrelated", 1)
        assert heard == []
        tools.notify_list_changed()
        assert heard == [{"tool"}]


@pytest.mark.spec("MOD-1", "NTF-1")
@pytest.mark.parametrize(
    "changing",
    [Mode(available=lambda view: view.is_group_active("inner")), Mode(count=lambda view: len(view.facts))],
    ids=["predicate", "count"],
)
async def test_a_step_that_changes_modes_or_counts_changes_the_list(changing: Mode) -> None:
    heard: list[frozenset[str]] = []
    tools = ToolSet("page", control="none")
    tools.register_group("inner")
    tools.register_group("other")
    tools.register("observe", answer, input_schema=WHAT, modes=modes_of(network=changing))
    async with tools.open_session() as session:
        session.on_list_changed(heard.append)
        assert not (await session.transition(activate=["other"])).list_changed
        assert heard == []
        await session.activate("inner")
        session.set_fact("name", 1)
        assert heard == [{"tool"}]
