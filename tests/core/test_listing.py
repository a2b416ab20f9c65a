"""SPEC 7: lists are pure, ordered, paged by name, and cost what they return."""

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.core.support import answer, notifications
from toolfold import (
    Component,
    Configuration,
    InvalidCursor,
    Mode,
    Modes,
    Page,
    RegionState,
    Snapshot,
    ToolSet,
    Visibility,
)
from toolfold._catalog.catalog import Bucket, Components
from toolfold._catalog.components import Kind
from toolfold._view.listing import _buckets, changes, page_of
from toolfold._view.visibility import RequestView

NAMES = st.sets(st.text("abAB01_-", min_size=1, max_size=4), max_size=25)


def desk(names: Iterable[str] = (), **settings: Any) -> ToolSet:
    tools = ToolSet("desk", control="none", **settings)
    for name in names:
        tools.register(name, answer, input_schema={"type": "object"})
    return tools


def pages(tools: ToolSet, extra: tuple[Component, ...] = ()) -> list[Page]:
    """Return all pages, from the first cursor to the last; a cursor met twice would lead nowhere else."""
    view = tools.default_session.view()
    found = [tools.runtime.page(view, "tool", None, extra)]
    cursors: set[str] = set()
    while (cursor := found[-1].next_cursor) is not None:
        assert cursor not in cursors
        cursors.add(cursor)
        found.append(tools.runtime.page(view, "tool", cursor, extra))
    return found


@pytest.mark.spec("LST-1")
@given(NAMES)
@example({"a", "B", "_", "-", "0", "aa", "a-", "a_"})
def test_tools_are_listed_in_order_of_code_points_whatever_the_order_of_registration(names: set[str]) -> None:
    forwards, backwards = desk(sorted(names)), desk(sorted(names, reverse=True))
    assert list(forwards.list_tools().names) == list(backwards.list_tools().names) == sorted(names)


@pytest.mark.spec("LST-1", "LST-5")
async def test_listing_twice_returns_the_same_and_changes_nothing() -> None:
    tools = desk(["a"])
    tools.register_group("g")
    tools.register("t", answer, group="g")
    session = await tools.open_session().start()
    received = notifications(session)
    before = session.snapshot
    first = session.list_tools()
    assert session.list_tools() == first
    assert session.list_groups() == session.list_groups()
    assert session.snapshot is before
    await session.activate("g")
    assert session.list_tools() != first
    await session.deactivate("g")
    assert session.list_tools() == first
    assert len(received) == 2


@pytest.mark.spec("LST-2")
@given(names=NAMES, size=st.integers(1, 9))
@example(names={"a", "b", "c", "d"}, size=2)
@example(names=set(), size=1)
def test_joined_pages_are_the_whole_list_and_none_is_too_long_or_empty(names: set[str], size: int) -> None:
    found = pages(desk(names, page_size=size))
    assert [name for page in found for name in page.names] == sorted(names)
    assert all(len(page.tools) == size for page in found[:-1])
    assert len(found[-1].tools) <= size
    assert all(page.tools for page in found) or not names


@pytest.mark.spec("LST-2")
def test_without_a_page_size_there_is_one_page() -> None:
    (page,) = pages(desk(f"t{number}" for number in range(500)))
    assert len(page.tools) == 500


@pytest.mark.spec("LST-2")
@given(
    start=NAMES,
    changes=st.lists(st.tuples(NAMES, NAMES), max_size=6),
    size=st.integers(1, 4),
)
@example(start={"a", "b", "c", "d"}, changes=[({"0"}, {"b"})], size=2)
def test_a_list_that_changes_between_pages_neither_repeats_nor_skips(
    start: set[str], changes: list[tuple[set[str], set[str]]], size: int
) -> None:
    tools = desk(start, page_size=size)
    present, throughout = set(start), set(start)
    page = tools.list_tools()
    seen = list(page.names)
    rest = iter(changes)
    while page.next_cursor is not None:
        added, removed = next(rest, (set[str](), set[str]()))
        for name in added - present:
            tools.register(name, answer)
        for name in removed & (present | added):
            tools.unregister(name)
        present = (present | added) - removed
        throughout &= present
        page = tools.list_tools(page.next_cursor)
        seen.extend(page.names)
    assert seen == sorted(set(seen))
    assert throughout <= set(seen)


@pytest.mark.spec("LST-2")
@pytest.mark.parametrize("name", ["two\nlines", "", "ünï/code", ">>>", "???", "desk"])
@pytest.mark.parametrize("first", ["a", "aW", "aaW", "aaaW"])  # ends of base 64 that a wrong end of padding would take
def test_a_cursor_needs_no_quoting_and_works_for_any_names(name: str, first: str) -> None:
    tools = ToolSet(name, page_size=1)
    tools.register(first, answer)
    tools.register("b", answer)
    found = pages(tools)
    assert [page.names for page in found] == [(first,), ("b",)]
    assert found[0].next_cursor is not None
    assert re.fullmatch("[A-Za-z0-9_-]+", found[0].next_cursor)


@pytest.mark.spec("LST-1", "LST-2")
@pytest.mark.parametrize("rule", [Visibility.always(), Visibility.when(lambda view: True)])
@pytest.mark.parametrize("size", [None, 1, 2])
def test_what_an_adapter_lists_beside_the_catalog_is_in_order_on_every_page(rule: Visibility, size: int | None) -> None:
    tools = desk(["a", "c"], page_size=size)
    tools.register("e", answer, visibility=rule)
    beside = desk(["b", "d"])
    found = pages(tools, tuple(beside.catalog.tools.values()))
    assert [name for page in found for name in page.names] == ["a", "b", "c", "d", "e"]
    assert tools.list_tools().names == ("a", "c", "e")[:size]


@pytest.mark.spec("LST-1", "LST-2", "NAM-6")
@pytest.mark.parametrize("size", [None, 1])
def test_tools_are_in_the_order_of_the_names_that_the_caller_knows_and_prompts_in_that_of_their_own(
    size: int | None,
) -> None:
    tools = desk(["a1"])
    tools.register_group("a")
    tools.register("z", answer, group="a", visibility=Visibility.always())
    tools.register_prompt("a1", answer)
    tools.register_prompt("z", answer, group="a", visibility=Visibility.always())
    view = RequestView(tools.default_session.snapshot, to_wire=lambda name: name.replace(".", "__"))
    found: dict[Kind, list[str]] = {"tool": [], "prompt": []}
    for kind, names in found.items():
        page = page_of(view, kind, None, size)
        names += page.names
        while page.next_cursor:
            page = page_of(view, kind, page.next_cursor, size)
            names += page.names
    assert found == {"tool": ["a1", "a.z"], "prompt": ["a.z", "a1"]}


NO_CURSORS = ("", "2", "!!!", "bm90IG9uZQ", "\ud800", 5, b"x", ["a"], True)
OTHER_CONTENTS = (b"\xff\xfe", b"desk/tool", b"desk/prompt\na", b"other/tool\na", b"desk\na")
ENCODED = [base64.urlsafe_b64encode(raw).decode().rstrip("=") for raw in OTHER_CONTENTS]


@pytest.mark.spec("LST-3")
@pytest.mark.parametrize("cursor", [*NO_CURSORS, *ENCODED])
def test_what_is_no_cursor_is_refused(cursor: Any) -> None:
    with pytest.raises(InvalidCursor) as caught:
        desk(["a"], page_size=1).list_tools(cursor)
    assert caught.value.cursor == str(cursor)


@pytest.mark.spec("LST-3")
@given(st.text(max_size=30))
def test_any_text_is_refused_for_a_cursor(cursor: str) -> None:
    test_what_is_no_cursor_is_refused(cursor)


@pytest.mark.spec("LST-3")
@pytest.mark.parametrize("junk", ["!!!!", "\n\n\n\n", "===="])
def test_a_cursor_with_something_added_is_refused(junk: str) -> None:
    tools = desk(["a", "b"], page_size=1)
    cursor = tools.list_tools().next_cursor
    assert cursor is not None
    for damaged in (junk + cursor, cursor[:4] + junk + cursor[4:], cursor + junk):
        with pytest.raises(InvalidCursor):
            tools.list_tools(damaged)


@pytest.mark.spec("LST-3")
def test_a_cursor_of_another_list_or_another_tool_set_is_foreign() -> None:
    tools = desk(["a", "b"], page_size=1)
    cursor = tools.list_tools().next_cursor
    with pytest.raises(InvalidCursor):
        tools.default_session.list("prompt", cursor)
    other = ToolSet("other", page_size=1)
    with pytest.raises(InvalidCursor):
        other.list_tools(cursor)


@pytest.mark.spec("LST-4")
async def test_groups_are_listed_with_all_their_facts() -> None:
    tools = ToolSet("t")
    tools.register_group("b", "The second", title="Bee")
    tools.register_group("a-b")
    tools.register_group("a", "The first")
    tools.register_group("a.z")
    tools.register_group("a.z.y")
    for name in ("one", "two"):
        tools.register(name, answer, group="a", hidden=name == "two")
    tools.register("deep", answer, group="a.z")
    tools.register("activate", answer, group="b", replaces_control=True)
    tools.register_prompt("p", answer, group="a")
    await tools.activate_group("a")
    infos = tools.list_groups()
    assert [(info.name, info.description, info.display_name, info.parent, info.tool_count) for info in infos] == [
        ("a", "The first", "a", None, 2),
        ("a.z", "", "z", "a", 1),
        ("a.z.y", "", "y", "a.z", 0),
        ("a-b", "", "a-b", None, 0),
        ("b", "The second", "Bee", None, 1),
    ]
    assert [info.state for info in infos] == [
        RegionState.ACTIVE,
        RegionState.INACTIVE,
        RegionState.LOCKED,
        RegionState.INACTIVE,
        RegionState.INACTIVE,
    ]
    assert [info.active for info in infos] == [True, False, False, False, False]


@pytest.mark.spec("NTF-1", "MOD-2")
@pytest.mark.parametrize(
    ("modes", "changed"),
    [
        (None, set()),
        (Modes("what", {"on": Mode(count=lambda view: int(view.state))}), set()),
        (Modes("what", {"on": Mode(), "off": Mode(available=lambda view: view.state < 2)}), {"tool"}),
    ],
    ids=["plain", "counts", "modes"],
)
def test_lists_differ_if_clients_are_offered_something_else_or_something_registered_again(
    modes: Modes | None, changed: set[str]
) -> None:
    schema = {"type": "object", "properties": {"what": {"type": "string"}}}
    tools = desk(["a", "b"])
    tools.register("p", answer, visibility=Visibility.when(lambda view: view.state < 3))
    tools.register("t", answer, input_schema=schema, modes=modes)

    def view(state: int) -> RequestView:
        return RequestView(Snapshot.of(tools.catalog), lambda: state)

    before = view(1)
    assert changes(before, before) == changes(before, view(1)) == frozenset()
    assert changes(before, view(2)) == changed
    assert changes(before, view(3)) == {"tool"}
    tools.register_prompt("q", answer)
    assert changes(before, view(1)) == {"prompt"}
    tools.unregister("t")
    assert changes(before, view(1)) == {"prompt", "tool"}
    tools.register("t", answer, input_schema=schema, modes=modes)
    assert changes(before, view(1)) == {"prompt", "tool"}


class Counted:
    """A counter of the components that lists examine."""

    def __init__(self) -> None:
        self.seen = 0

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def counting(components: Components, configuration: Configuration) -> list[Bucket]:
            found = _buckets(components, configuration)
            self.seen += sum(len(bucket.everything) for bucket in found)
            return found

        monkeypatch.setattr("toolfold._view.listing._buckets", counting)

    def take(self) -> int:
        seen, self.seen = self.seen, 0
        return seen


def crowd() -> ToolSet:
    """Three tools at root, and fifty groups of twenty tools, half of them hidden."""
    tools = desk(["x", "y", "z"])
    for number in range(50):
        tools.register_group(f"g{number}")
        for tool in range(20):
            rule: Mapping[str, Any] = (
                {"visibility": Visibility.group(f"g{number}") & Visibility.group("g0")} if tool == 19 else {}
            )
            hidden = tool % 2 == 0
            tools.register(
                f"t{tool}", answer, input_schema={"type": "object"}, group=f"g{number}", hidden=hidden, **rule
            )
    return tools


@pytest.mark.spec("LST-5")
async def test_a_list_examines_only_what_it_returns_once_for_each_state(monkeypatch: pytest.MonkeyPatch) -> None:
    examined = Counted()
    examined.watch(monkeypatch)
    tools = crowd()
    async with tools.open_session() as session, tools.open_session() as other:
        assert len(session.list_tools().tools) == len(other.list_tools().tools) == 3
        assert examined.take() == 3
        for number, path in enumerate(("g0", "g7"), 1):
            await session.activate(path)
            assert len(session.list_tools().tools) == examined.take() == 3 + 10 * number
        await session.deactivate("g7")
        for _ in range(30):
            await session.activate("g0")
            assert len(session.list_tools().tools) == 13
            assert examined.take() <= 13
            await session.deactivate("g0")
            assert len(session.list_tools().tools) == 3
            assert examined.take() == 0


@pytest.mark.spec("LST-5")
async def test_predicates_are_evaluated_once_each_and_only_while_their_group_is_active() -> None:
    asked: list[int] = []

    def asks(number: int) -> Visibility:
        def predicate(view: object) -> bool:
            asked.append(number)
            return True

        return Visibility.when(predicate)

    tools = desk()
    for number in range(20):
        tools.register_group(f"g{number}")
        tools.register(f"t{number}", answer, visibility=Visibility.group(f"g{number}") & asks(number))
        tools.register(f"hidden{number}", answer, visibility=asks(100 + number), hidden=True)
    await tools.activate_group("g4")
    asked.clear()
    assert tools.list_tools().names == ("t4",)
    assert asked == [4]
