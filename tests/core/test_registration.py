"""SPEC 3: registration is atomic, checked, near-linear, and legal at run time."""

import asyncio
import sys
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.support import answer, with_groups
from toolfold import (
    Component,
    DuplicateName,
    ExclusionConflict,
    GroupNotFound,
    HookContext,
    HookFailed,
    InvalidName,
    Profile,
    ToolfoldWarning,
    ToolSet,
    group,
    tool,
)
from toolfold._catalog.catalog import Catalog, Components


def desk() -> ToolSet:
    """Groups a, a.x, b and c; a tool in a and one at root."""
    tools = ToolSet("desk")
    for path in ("a", "a.x", "b", "c"):
        tools.register_group(path)
    tools.register("t", answer, group="a")
    tools.register("ping", answer)
    return tools


def refuse(error: type[Exception], tools: ToolSet, act: Callable[[], object], match: str | None = None) -> None:
    """Check that `act` is refused and changes nothing."""
    before = tools.catalog
    with pytest.raises(error, match=match):
        act()
    assert tools.catalog is before


class Unlucky:
    """Declares two tools and a group; the second tool is refused."""

    @group(name="inner")
    def _inner(self) -> "Unlucky.Inner":
        return self.Inner()

    @tool
    def first(self) -> None: ...

    @tool
    def ping(self) -> None: ...

    class Inner:
        @tool
        def deep(self) -> None: ...


@pytest.mark.spec("REG-1")
def test_an_object_that_declares_one_bad_tool_registers_nothing() -> None:
    tools = desk()
    refuse(DuplicateName, tools, lambda: tools.include(Unlucky()), "ping")
    tools.unregister("ping")
    tools.include(Unlucky())
    assert {"first", "ping", "inner.deep"} <= tools.catalog.tools.keys()


@pytest.mark.spec("REG-1", "REG-3")
@given(st.lists(st.sampled_from(["a", "a.x", "b", "c", "nope"]), max_size=4))
def test_an_exclusion_is_registered_or_refused_without_effect(paths: list[str]) -> None:
    tools = desk()
    before = tools.catalog
    legal = len(set(paths)) == len(paths) > 1 and "nope" not in paths and not {"a", "a.x"} <= set(paths)
    if legal:
        tools.register_exclusion(*paths)
        assert tools.catalog.exclusions == (frozenset(paths),)
    else:
        refuse(GroupNotFound if "nope" in paths else ExclusionConflict, tools, lambda: tools.register_exclusion(*paths))
        assert tools.catalog is before


@pytest.mark.spec("REG-2")
def test_a_group_is_given_by_segment_and_parent_or_by_path_or_by_both() -> None:
    tools = with_groups("a")
    assert tools.register_group("b", parent="a").path == "a.b"
    assert tools.register_group("a.c").parent == "a"
    assert tools.register_group("a.d", parent="a").path == "a.d"
    assert tools.register_group("e", parent="a.d").path == "a.d.e"
    assert tools.catalog.group("a").parent is None


@pytest.mark.spec("REG-2", "REG-1")
@pytest.mark.parametrize(
    ("name", "parent", "error"),
    [
        ("b.y", "a", InvalidName),
        ("a.x.y", "a", InvalidName),
        ("y", "nope", GroupNotFound),
        ("nope.y", None, GroupNotFound),
        ("a.nope.y", None, GroupNotFound),
        ("y", "", InvalidName),
    ],
    ids=["other parent", "further down", "no parent", "no parent in path", "skips a level", "empty parent"],
)
def test_a_group_without_its_parent_is_refused(name: str, parent: str | None, error: type[Exception]) -> None:
    tools = desk()
    refuse(error, tools, lambda: tools.register_group(name, parent=parent))


@pytest.mark.spec("REG-3")
def test_a_member_and_its_ancestor_can_not_exclude_one_another_at_any_depth() -> None:
    tools = desk()
    tools.register_group("a.x.y")
    with pytest.raises(ExclusionConflict) as caught:
        tools.register_exclusion("b", "a.x.y", "a")
    assert caught.value.groups == ("a", "a.x.y")
    tools.register_group("ab")
    tools.register_exclusion("a", "ab")  # a prefix of the name is no ancestor


@pytest.mark.spec("REG-3", "REG-1")
async def test_an_exclusion_that_a_live_session_violates_is_refused_naming_the_session() -> None:
    tools = desk()
    async with tools.open_session(active=["a"]), tools.open_session(active=["a", "b"], identity="both") as session:
        before = tools.catalog
        with pytest.raises(ExclusionConflict, match="'both'") as caught:
            tools.register_exclusion("a", "b")
        assert caught.value.session == "both"
        assert caught.value.groups == ("a", "b")
        assert tools.catalog is before
        await session.deactivate("b")
        await tools.activate_group("a")
        await tools.activate_group("b")
        with pytest.raises(ExclusionConflict, match="desk-default"):
            tools.register_exclusion("a", "b")
        await tools.deactivate_group("b")
        tools.register_exclusion("a", "b")


@pytest.mark.spec("REG-4", "REG-1")
def test_a_duplicate_is_refused_by_kind_and_name() -> None:
    tools = desk()
    tools.register_prompt("ping", answer)  # another kind, another namespace
    tools.register_resource("file:///x", answer)
    tools.register_profile(Profile(name="p"))
    duplicates: dict[str, Callable[[], object]] = {
        "tool named 'ping'": lambda: tools.register("ping", answer),
        r"tool named 'a\.t'": lambda: tools.register("a.t", answer),
        "group named 'a'": lambda: tools.register_group("a"),
        r"group named 'a\.x'": lambda: tools.register_group("x", parent="a"),
        "prompt named 'ping'": lambda: tools.register_prompt("ping", answer),
        "resource named 'file:///x'": lambda: tools.register_resource("file:///x", answer),
        "profile named 'p'": lambda: tools.register_profile(Profile(name="p")),
    }
    for what, act in duplicates.items():
        refuse(DuplicateName, tools, act, f"A {what} is registered already")


@pytest.mark.spec("REG-5")
def test_unregister_returns_the_definition_of_that_kind_or_nothing() -> None:
    tools = desk()
    spec = tools.catalog.tools["a.t"]
    assert tools.unregister("a.t") is spec
    with pytest.warns(ToolfoldWarning, match=r"no tool 'a\.t' was registered, by its full name"):
        assert tools.unregister("a.t") is None
    assert "a.t" not in tools.catalog.tools
    assert tools.register("t", answer, group="a").name == "a.t"
    prompt = tools.register_prompt("ping", answer)
    assert tools.unregister("ping", "prompt") is prompt
    assert "ping" in tools.catalog.tools


@pytest.mark.spec("REG-5", "CTL-1")
def test_a_generated_control_tool_can_not_be_unregistered() -> None:
    tools = desk()
    with pytest.warns(ToolfoldWarning, match=r"no tool 'a\.activate' was registered"):
        assert tools.unregister("a.activate") is None
    assert "a.activate" in tools.catalog.tools


@pytest.mark.spec("REG-5")
def test_a_group_that_no_session_has_open_is_unregistered_also_without_await() -> None:
    tools = desk()
    tools.unregister_group("a")  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    assert "a" not in tools.catalog.index
    assert asyncio.run(tools.unregister_group("b")).path == "b"


@pytest.mark.spec("REG-5")
async def test_unregistering_a_group_deactivates_it_everywhere_and_removes_its_whole_subtree() -> None:
    log: list[tuple[str, str]] = []
    tools = ToolSet("t")

    def left(context: HookContext) -> None:
        log.append((context.session.id, context.group))

    for path in ("a", "a.x", "ab"):
        tools.register_group(path, on_deactivate=left)
        tools.register("t", answer, group=path)
    tools.register("flat", answer, group="a.x", flat=True)
    tools.register_prompt("p", answer, group="a.x")
    tools.register_resource("file:///x", answer, group="a")
    tools.register_exclusion("a.x", "ab")
    async with (
        tools.open_session(active=["a", "a.x"], identity="one") as one,
        tools.open_session(active=["a"], identity="two"),
        tools.open_session(active=["ab"], identity="three") as three,
    ):
        removed = await tools.unregister_group("a")
        assert removed.path == "a"
        assert log == [("one", "a.x"), ("one", "a"), ("two", "a")]
        assert {session.id: session.active for session in (one, three)} == {"one": (), "three": ("ab",)}
        assert tools.catalog.index.keys() == {"ab"}
        assert tools.catalog.tools.keys() == {"ab.activate", "ab.deactivate", "ab.t"}
        assert not tools.catalog.exclusions
        assert not any(tools.catalog.registered[kind] for kind in ("prompt", "resource"))
    with pytest.raises(GroupNotFound):
        await tools.unregister_group("a")


@pytest.mark.spec("REG-5", "REG-1")
async def test_a_group_that_a_session_can_not_close_stays_registered() -> None:
    def fail() -> None:
        raise OSError("busy")

    tools = ToolSet("t")
    tools.register_group("a", on_deactivate=fail)
    tools.register("t", answer, group="a")
    before = tools.catalog
    session = await tools.open_session(active=["a"]).start()
    with pytest.raises(HookFailed):
        await tools.unregister_group("a")
    assert tools.catalog is before
    assert session.active == ("a",)
    await session.deactivate("a", force=True)
    await tools.unregister_group("a")
    assert not tools.catalog.groups


@pytest.mark.spec("REG-7")
def test_a_registration_makes_a_new_catalog_and_does_not_change_the_old_one() -> None:
    tools = desk()
    old, names = tools.catalog, set(tools.catalog.tools)
    tools.register("new", answer)
    assert set(old.tools) == names
    assert "new" in tools.catalog.tools
    with pytest.raises(TypeError):
        tools.catalog.tools["x"] = old.tools["ping"]  # type: ignore[index]


@pytest.mark.spec("REG-8")
def test_registering_compiles_nothing_and_the_catalog_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    compiled = Components.of

    def counted(specs: Mapping[str, Component], index: Mapping[str, int]) -> Components:
        looked_at.append(len(specs))
        return compiled(specs, index)

    monkeypatch.setattr(Components, "of", counted)
    tools = ToolSet("t")
    for number in range(100):
        tools.register_group(f"g{number}")
        for base in ("t", "u"):
            tools.register(base, answer, group=f"g{number}")
    assert looked_at == []
    first: Catalog = tools.catalog
    assert tools.catalog is first
    assert sum(looked_at) == 400


def calls_of(act: Callable[[], object]) -> int:
    """Return how many calls, of Python or C functions, `act` makes."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.spec("REG-8")
def test_registering_and_compiling_twice_as_much_takes_about_twice_the_calls() -> None:
    def fill(tools: ToolSet, size: int) -> None:
        for number in range(size):
            tools.register_group(f"g{number}")
            tools.register_group(f"g{number}.inner")
            tools.register("t", answer, group=f"g{number}.inner", input_schema={"type": "object"})
            if number % 2:
                tools.register_exclusion(f"g{number - 1}", f"g{number}")

    costs: list[tuple[int, int]] = []
    for size in (40, 80):
        tools = ToolSet("t")
        registering = calls_of(lambda tools=tools, size=size: fill(tools, size))  # type: ignore[misc]
        costs.append((registering, calls_of(lambda tools=tools: tools.catalog)))  # type: ignore[misc]
    (register_one, compile_one), (register_two, compile_two) = costs
    assert register_two < 2.1 * register_one
    assert compile_two < 2.2 * compile_one


@pytest.mark.spec("REG-1", "SAF-1")
def test_what_one_tool_set_made_is_registered_in_another_as_it_is() -> None:
    here, there = desk(), desk()
    made = there.register("new", answer, group="a.x", description="New")
    assert here.adopt(made) is made
    assert here.catalog.tools[made.name] is made
    refuse(DuplicateName, here, lambda: here.adopt(made))
    there.register_group("elsewhere")
    lost = there.register("lost", answer, group="elsewhere")
    refuse(GroupNotFound, here, lambda: here.adopt(lost))
