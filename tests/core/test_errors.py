"""SPEC 23: one base, data on the instance, and messages that say what happened, with which names, and what to do."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import toolfold
from tests.core.support import answer
from toolfold import (
    ConfigError,
    DuplicateName,
    ExclusionConflict,
    GroupNotFound,
    HookFailed,
    InvalidArguments,
    InvalidCursor,
    InvalidDefinition,
    InvalidName,
    ManifestError,
    ParentInactive,
    Profile,
    ProtocolError,
    QuotaExceeded,
    ReentrantTransition,
    SessionClosed,
    ToolError,
    ToolfoldError,
    ToolNotFound,
    ToolSet,
    Visibility,
)

LEAVES = [
    "InvalidName",
    "DuplicateName",
    "GroupNotFound",
    "ParentInactive",
    "ExclusionConflict",
    "QuotaExceeded",
    "HookFailed",
    "ReentrantTransition",
    "ToolNotFound",
    "InvalidArguments",
    "InvalidCursor",
    "InvalidDefinition",
    "SessionClosed",
    "HandleInvalid",
    "HandleExpired",
    "ManifestError",
    "ConfigError",
]


def desk(**settings: Any) -> ToolSet:
    tools = ToolSet("desk", **settings)
    for path in ("database", "database.read", "network", "b"):
        tools.register_group(path)
    tools.register_exclusion("network", "b")
    tools.register("ping", answer)
    return tools


@pytest.mark.spec("ERR-1")
@pytest.mark.parametrize("name", LEAVES)
def test_every_error_of_the_list_is_public_and_a_leaf_of_one_base(name: str) -> None:
    error = getattr(toolfold, name)
    assert issubclass(error, ToolfoldError)
    assert ToolfoldError in error.__bases__
    assert not [one for one in error.__subclasses__() if one.__module__ == error.__module__]
    assert name in toolfold.__all__


async def exceed(tools: ToolSet) -> None:
    await tools.activate_group("database")
    await tools.activate_group("network")


async def closed(tools: ToolSet) -> None:
    async with tools.open_session(identity="s") as session:
        pass
    await session.activate("database")


async def too_many(tools: ToolSet) -> None:
    async with tools.open_session(), tools.open_session():
        pass


async def failing(tools: ToolSet) -> None:
    def fail() -> None:
        raise RuntimeError("secret")

    tools.register_group("bad", on_activate=fail)
    await tools.activate_group("bad")


async def reentrant(tools: ToolSet) -> None:
    async def again() -> None:
        await tools.activate_group("database")

    tools.register_group("bad", on_activate=again)
    with pytest.raises(HookFailed) as caught:
        await tools.activate_group("bad")
    raise caught.value.__cause__ or caught.value


async def bad_prompt(tools: ToolSet) -> None:
    tools.register_prompt("p", answer, arguments=["a"])
    await tools.default_session.get_prompt("p", {"a": 5})


Act = Callable[[ToolSet], object | Awaitable[object]]
CASES: list[tuple[type[ToolfoldError], dict[str, Any], Act, dict[str, Any], str]] = [
    (
        InvalidName,
        {},
        lambda tools: tools.register("a b", answer),
        {"name": "a b", "part": "a b"},
        r"^'a b' is not a valid name: use 1 to 64 of the characters A-Z a-z 0-9 _ -\.$",
    ),
    (
        DuplicateName,
        {},
        lambda tools: tools.register("ping", answer),
        {"kind": "tool", "name": "ping"},
        r"^A tool named 'ping' is registered already; choose another name or unregister it first\.$",
    ),
    (
        GroupNotFound,
        {},
        lambda tools: tools.activate_group("netwrok"),
        {"group": "netwrok", "suggestions": ("network",)},
        r"^There is no group 'netwrok'\. Did you mean 'network'\?$",
    ),
    (
        GroupNotFound,
        {},
        lambda tools: tools.activate_group("zzzz"),
        {"group": "zzzz", "suggestions": ()},
        r"^There is no group 'zzzz'\. The groups are 'b', 'database', 'database\.read', 'network'\.$",
    ),
    (
        ParentInactive,
        {},
        lambda tools: tools.activate_group("database.read"),
        {"group": "database.read", "parent": "database"},
        r"^Group 'database\.read' can't be opened yet: open 'database' first\.$",
    ),
    (
        ExclusionConflict,
        {},
        lambda tools: tools.default_session.transition(activate=["b", "network"]),
        {"groups": ("b", "network"), "session": None},
        r"'network' and 'b' can't be open together.*leave one out\.$",
    ),
    (
        ExclusionConflict,
        {},
        lambda tools: tools.register_exclusion("b", "b"),
        {"groups": ("b", "b")},
        r"needs two or more different groups.*'b', 'b'\.$",
    ),
    (
        ExclusionConflict,
        {},
        lambda tools: tools.register_exclusion("database.read", "database"),
        {"groups": ("database", "database.read")},
        r"^'database' contains 'database\.read'.*can't exclude one another\.$",
    ),
    (
        QuotaExceeded,
        {"max_active": 1},
        exceed,
        {"what": "open groups", "limit": 1},
        r"^The limit of 1 open groups is reached: close a group before you open 'network'\.$",
    ),
    (
        QuotaExceeded,
        {"max_sessions": 1},
        too_many,
        {"what": "open sessions", "limit": 1},
        r"^The limit of 1 open sessions is reached: close one before you open another\.$",
    ),
    (
        HookFailed,
        {},
        failing,
        {"group": "bad", "phase": "on_activate", "compensation": ()},
        r"^The on_activate hook of group 'bad' failed, so nothing was changed; fix its cause and try again\.$",
    ),
    (
        ReentrantTransition,
        {},
        reentrant,
        {"session": "desk-default"},
        r"^A hook of session 'desk-default' asked.*do it after the transition",
    ),
    (
        ToolNotFound,
        {},
        lambda tools: tools.call_tool("nope"),
        {"name": "nope", "kind": "tool", "hint": None},
        r"^Unknown tool: nope$",
    ),
    (
        ToolNotFound,
        {},
        lambda tools: tools.default_session.read("x:y"),
        {"name": "x:y", "kind": "resource"},
        r"^Unknown resource: x:y$",
    ),
    (
        InvalidArguments,
        {},
        bad_prompt,
        {"name": "p", "problems": {"arguments.a": '5 is not of type "string"'}},
        r"^Invalid arguments for p: arguments\.a: 5 is not of type .string.*fit its schema\.$",
    ),
    (
        InvalidCursor,
        {},
        lambda tools: tools.list_tools("x"),
        {"cursor": "x"},
        r"^The cursor is not one of this list; list again without a cursor\.$",
    ),
    (
        InvalidDefinition,
        {},
        lambda tools: tools.register("t", answer, input_schema={}),
        {"name": "t", "problem": 'its input schema must have the root type "object"'},
        r"^'t' can't be registered: its input schema must have the root type .object.\.$",
    ),
    (
        SessionClosed,
        {},
        closed,
        {"session": "s"},
        r"^Session 's' is not open; open a new one\.$",
    ),
    (
        ConfigError,
        {},
        lambda tools: tools.open_session("p"),
        {},
        r"^There is no profile 'p'; the profiles are: none\.$",
    ),
]


@pytest.mark.spec("ERR-1", "ERR-2")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].__name__}-{CASES.index(case)}")
async def test_an_error_has_its_data_and_a_message_with_what_happened_the_names_and_what_to_do(
    case: tuple[type[ToolfoldError], dict[str, Any], Act, dict[str, Any], str],
) -> None:
    error, settings, act, data, message = case
    tools = desk(**settings)

    async def run() -> None:
        result = act(tools)
        if isinstance(result, Awaitable):
            await result

    with pytest.raises(error, match=message) as caught:
        await run()
    assert type(caught.value) is error
    assert {name: getattr(caught.value, name) for name in data} == data


@pytest.mark.spec("ERR-1")
def test_every_leaf_that_the_core_raises_is_among_the_cases() -> None:
    of_adapters = {"HandleInvalid", "HandleExpired", "ManifestError"}
    assert {error.__name__ for error, *_ in CASES} == set(LEAVES) - of_adapters


@pytest.mark.spec("ERR-1", "ERR-2")
def test_a_manifest_error_names_file_and_position() -> None:
    error = ManifestError("tools.json", "entry 3", "it has no name")
    assert (error.file, error.position, error.problem) == ("tools.json", "entry 3", "it has no name")
    assert str(error) == "tools.json, entry 3: it has no name."


@pytest.mark.spec("ERR-2", "ACT-1", "REG-2", "REG-3", "VIS-2")
@pytest.mark.parametrize(
    "name",
    [
        lambda tools: tools.is_group_active("netwrok"),
        lambda tools: tools.register_group("deep", parent="netwrok"),
        lambda tools: tools.register("t", answer, group="netwrok"),
        lambda tools: tools.register("t", answer, visibility=Visibility.group("netwrok")),
        lambda tools: tools.register_exclusion("netwrok", "b"),
    ],
    ids=["state", "parent", "tool", "rule", "exclusion"],
)
def test_an_unknown_group_is_an_error_with_suggestions_wherever_it_is_named(name: Callable[[ToolSet], object]) -> None:
    tools = desk()
    before = tools.catalog
    with pytest.raises(GroupNotFound, match="Did you mean 'network'"):
        name(tools)
    assert tools.catalog is before


@pytest.mark.spec("ERR-2")
async def test_near_matches_are_among_the_groups_that_the_caller_may_see() -> None:
    tools = desk()
    async with tools.open_session(Profile(name="p", available=("network",))) as session:
        with pytest.raises(GroupNotFound) as caught:
            await session.activate("databas")
        assert caught.value.suggestions == ()
        assert str(caught.value) == "There is no group 'databas'. The groups are 'network'."
        with pytest.raises(GroupNotFound, match=r"Did you mean 'network'\?"):
            await session.activate("networks")
    async with tools.open_session(Profile(name="nothing")) as session:
        with pytest.raises(GroupNotFound, match=r"^There is no group 'b'\. There are no groups here\.$"):
            session.is_active("b")


@pytest.mark.spec("ERR-2")
async def test_a_long_list_of_groups_is_truncated() -> None:
    tools = ToolSet("t")
    for number in range(14):
        tools.register_group(f"group{number:02}")
    with pytest.raises(GroupNotFound, match=r"'group09' and 4 more\.$"):
        await tools.activate_group("zzzz")
    with pytest.raises(GroupNotFound) as caught:
        await tools.activate_group("group0")
    assert len(caught.value.suggestions) == 3
    assert " or " in str(caught.value)


@pytest.mark.spec("ERR-1")
def test_a_tool_error_is_an_error_of_the_library() -> None:
    assert issubclass(ToolError, ToolfoldError)


@pytest.mark.spec("ERR-2", "GWY-1")
@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"elicitations": [{"mode": "url", "url": "https://bank.example/login"}]}, "https://bank.example/login"),
        ({"reason": "the quota of this month is used up"}, "the quota of this month is used up"),
        ("try after noon", "try after noon"),
        ({"odd": {1, 2}}, "odd"),
    ],
)
def test_an_error_of_the_protocol_says_its_data_to_whoever_reads_it_as_a_text(data: object, said: str) -> None:
    error = ProtocolError(-32042, "This needs a login", data)
    assert (error.message, error.data) == ("This needs a login", data)
    assert str(error).startswith("This needs a login\n")
    assert said in str(error)
    assert str(ProtocolError(-32042, "This needs a login")) == "This needs a login"
