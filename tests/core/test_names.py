"""SPEC 2: segments, full names, reserved bases, flat names, and names on the wire."""

import re
import string
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.core.support import answer, with_groups
from toolfold import (
    ConfigError,
    DuplicateName,
    GroupNotFound,
    InvalidDefinition,
    InvalidName,
    ToolfoldWarning,
    ToolNotFound,
    ToolSet,
    Visibility,
    WireNames,
    group,
    qualified_name,
    tool,
)

LEGAL = string.ascii_letters + string.digits + "_-"
SEGMENTS = st.text(LEGAL, min_size=1, max_size=64)
PATHS = st.lists(st.text(LEGAL, min_size=1, max_size=20), min_size=1, max_size=5).map(".".join)


def a_tool(tools: ToolSet, name: str, **options: Any) -> None:
    tools.register(name, answer, **options)


def a_group(tools: ToolSet, name: str) -> None:
    tools.register_group(name)


@pytest.mark.spec("NAM-1")
@pytest.mark.parametrize("register", [a_tool, a_group], ids=["tool", "group"])
@given(name=SEGMENTS)
@example(name="a" * 64)
@example(name="-")
def test_any_legal_segment_names_a_tool_or_a_group(register: Callable[[ToolSet, str], None], name: str) -> None:
    tools = ToolSet("t", control="none")
    register(tools, name)
    assert name in tools.catalog.tools or name in tools.catalog.index


@pytest.mark.spec("NAM-1")
@pytest.mark.parametrize("register", [a_tool, a_group], ids=["tool", "group"])
@given(name=st.text(max_size=70).filter(lambda text: "." not in text))
@example(name="")
@example(name="a" * 65)
@example(name="name\n")
@example(name="naïve")
@example(name="٣")
@example(name="a b")
@example(name="a/b")
def test_any_other_segment_is_refused_by_name(register: Callable[[ToolSet, str], None], name: str) -> None:
    tools = ToolSet("t", control="none")
    if re.fullmatch(f"[{LEGAL}]{{1,64}}", name):
        return
    with pytest.raises(InvalidName) as caught:
        register(tools, name)
    assert caught.value.part == name
    assert not tools.catalog.tools
    assert not tools.catalog.groups


@pytest.mark.spec("NAM-1")
def test_the_offending_segment_of_a_path_is_named() -> None:
    tools = with_groups("a")
    with pytest.raises(InvalidName, match=r"'b!' in 'a\.b!'") as caught:
        tools.register_group("a.b!")
    assert (caught.value.name, caught.value.part) == ("a.b!", "b!")


@pytest.mark.spec("NAM-1")
@pytest.mark.parametrize("name", ["a..b", ".a", "a.", "."])
def test_an_empty_segment_is_refused(name: str) -> None:
    tools = with_groups("a")
    with pytest.raises(InvalidName) as caught:
        tools.register_group(name)
    assert caught.value.part == ""
    with pytest.raises(InvalidName):
        tools.register(name, answer)


@pytest.mark.spec("NAM-1")
def test_a_full_name_has_at_most_128_characters() -> None:
    tools = ToolSet("t", control="none")
    tools.register_group("g" * 64)
    assert len(tools.register("t" * 63, answer, group="g" * 64).name) == 128
    with pytest.raises(InvalidName, match="129 characters"):
        tools.register("t" * 64, answer, group="g" * 64)


@pytest.mark.spec("NAM-1", "REG-1")
def test_a_group_whose_control_tools_would_have_too_long_a_name_is_refused() -> None:
    tools = ToolSet("t")
    tools.register_group("g" * 64)
    tools.register_group("h" * (128 - 65 - len(".deactivate")), parent="g" * 64)
    before = tools.catalog
    with pytest.raises(InvalidName):
        tools.register_group("i" * (128 - 65 - len(".activate")), parent="g" * 64)
    assert tools.catalog is before


@pytest.mark.spec("NAM-2")
@given(path=PATHS, base=st.text(LEGAL, min_size=1, max_size=20))
def test_qualified_name_returns_the_name_that_registration_gives(path: str, base: str) -> None:
    assert qualified_name(path, base) == ToolSet.qualified_name(path, base) == f"{path}.{base}"
    assert qualified_name("", base) == base


@pytest.mark.spec("NAM-1", "NAM-2")
@pytest.mark.parametrize("base", ["b.c", "", ".", "b c"])
def test_qualified_name_takes_no_base_that_is_no_segment(base: str) -> None:
    with pytest.raises(InvalidName):
        qualified_name("a", base)


@pytest.mark.spec("NAM-2")
def test_a_full_name_and_a_group_that_contradict_each_other_are_refused() -> None:
    tools = with_groups("a", "b")
    with pytest.raises(InvalidName):
        tools.register("a.x", answer, group="b")
    with pytest.raises(GroupNotFound):
        tools.register("c.x", answer)


@pytest.mark.spec("NAM-3")
@pytest.mark.parametrize(
    ("class_name", "segment"),
    [
        ("FileOps", "file_ops"),
        ("Network", "network"),
        ("HTTPServer", "http_server"),
        ("MyHTTP", "my_http"),
        ("Level2Tools", "level2_tools"),
        ("already_snake", "already_snake"),
    ],
)
def test_a_group_class_is_named_by_its_class_in_snake_case(class_name: str, segment: str) -> None:
    made = group(type(class_name, (), {}))
    tools = ToolSet("t")
    tools.include(made())
    assert tools.catalog.index.keys() == {segment}


@pytest.mark.spec("NAM-4")
async def test_a_users_activate_replaces_the_generated_one_and_activates_nothing() -> None:
    tools = with_groups("g")
    tools.register("activate", answer, group="g", description="my own", replaces_control=True)
    assert tools.list_tools().names == ("g.activate", "g.deactivate")
    assert tools.catalog.tools["g.activate"].description == "my own"
    assert (await tools.call_tool("g.activate")).text == "done"
    assert not tools.is_group_active("g")


@pytest.mark.spec("NAM-4")
@pytest.mark.parametrize(("base", "does"), [("activate", "opens"), ("deactivate", "closes")])
def test_a_tool_that_replaces_a_control_tool_is_warned_of_unless_that_is_meant(base: str, does: str) -> None:
    tools = with_groups("g", "h")
    problem = f"'g.{base}' takes the place of the one that {does} the group 'g'.*another name.*replaces_control=True"
    with pytest.warns(ToolfoldWarning, match=problem) as warned:
        component = tools.register(base, answer, group="g")
    assert [one.filename for one in warned] == [__file__]
    assert component.replaces_control
    assert tools.register(base, answer, group="h", replaces_control=True).replaces_control
    silent = ToolSet("t", control="open_group")
    silent.register_group("g")
    assert not silent.register(base, answer, group="g").replaces_control


@pytest.mark.spec("NAM-4")
@pytest.mark.parametrize("base", ["activate", "deactivate"])
def test_a_control_tool_can_be_replaced_only_once(base: str) -> None:
    tools = with_groups("g")
    tools.register(base, answer, group="g", replaces_control=True)
    with pytest.raises(DuplicateName, match=rf"g\.{base}"):
        tools.register(base, answer, group="g")


@pytest.mark.spec("NAM-4")
def test_a_replaced_control_tool_is_restored_when_the_replacement_is_unregistered() -> None:
    tools = with_groups("g")
    generated = tools.catalog.tools["g.activate"]
    mine = tools.register("activate", answer, group="g", replaces_control=True)
    assert tools.unregister("g.activate") is mine
    assert tools.catalog.tools["g.activate"].description == generated.description


@pytest.mark.spec("NAM-4")
@pytest.mark.parametrize(
    "rule",
    [Visibility.group("g"), ~Visibility.group("g"), Visibility.always() | Visibility.group("h")],
    ids=["group", "not group", "mentions a group"],
)
def test_a_replacement_must_not_depend_on_a_group(rule: Visibility) -> None:
    tools = with_groups("g", "h")
    before = tools.catalog
    with pytest.raises(InvalidDefinition, match=r"g\.activate"):
        tools.register("activate", answer, group="g", visibility=rule)
    assert tools.catalog is before


@pytest.mark.spec("NAM-4")
async def test_a_replacement_may_have_a_predicate() -> None:
    tools = with_groups("g")
    rule = Visibility.when(lambda view: "key" in view.facts)
    tools.register("activate", answer, group="g", visibility=rule, replaces_control=True)
    assert "g.activate" not in tools.list_tools().names
    with pytest.raises(ToolNotFound):
        await tools.call_tool("g.activate")
    tools.default_session.set_fact("key", 1)
    assert "g.activate" in tools.list_tools().names


@pytest.mark.spec("NAM-4", "REG-9")
def test_activate_is_an_ordinary_name_at_root_and_for_a_prompt() -> None:
    tools = with_groups("g")
    tools.register("activate", answer)
    tools.register_prompt("activate", answer, group="g")
    assert "activate" in tools.list_tools().names
    assert tools.default_session.list("prompt").names == ()


@pytest.mark.spec("NAM-5")
def test_a_dotted_name_can_not_be_flat() -> None:
    tools = with_groups("g")
    with pytest.raises(InvalidName):
        tools.register("g.x", answer, flat=True)


@pytest.mark.spec("NAM-6")
@given(names=st.sets(PATHS, max_size=12), separator=st.sampled_from([".", "_", "__", "-", "-.-"]))
@example(names={"a.b", "a_b"}, separator="_")
def test_wire_names_are_a_bijection_or_an_error_at_once(names: set[str], separator: str) -> None:
    wire = WireNames(separator, max_length=128)
    mapped = {name: name.replace(".", separator) for name in names}
    if len(set(mapped.values())) < len(names):
        with pytest.raises(ConfigError):
            wire.admit_all(sorted(names))
        return
    wire.admit_all(sorted(names))
    assert {name: wire.to_wire(name) for name in names} == mapped
    assert {wire.from_wire(seen): seen for seen in mapped.values()} == mapped


@pytest.mark.spec("NAM-6")
def test_an_unknown_wire_name_is_refused() -> None:
    wire = WireNames("_")
    wire.admit("a.b")
    assert wire.from_wire("a_b") == "a.b"
    for unknown in ("a.b", "a_c"):
        with pytest.raises(ToolNotFound):
            wire.from_wire(unknown)


@pytest.mark.spec("NAM-6")
@pytest.mark.parametrize("separator", ["", "/", " ", "a" * 9, "_\n"])
def test_a_separator_that_clients_would_refuse_is_an_error(separator: str) -> None:
    with pytest.raises(ConfigError, match="separate"):
        WireNames(separator)


@pytest.mark.spec("NAM-6", "REG-1")
def test_a_wire_collision_refuses_the_guard_or_the_later_registration() -> None:
    tools = ToolSet("t")
    tools.register("g_x", answer)
    tools.register_group("g")
    wire = WireNames("_", max_length=12)
    tools.guard_names(wire.admit, wire.release)
    before = tools.catalog
    with pytest.raises(ConfigError, match=r"'g_x' and 'g\.x'"):
        tools.register("x", answer, group="g")
    with pytest.raises(ConfigError, match="13 characters; this wire allows 12"):
        tools.register("a" * 13, answer)
    assert tools.catalog is before
    tools.register("y", answer, group="g")
    with pytest.raises(ConfigError):
        tools.guard_names(WireNames("_", max_length=11).admit)


@pytest.mark.spec("NAM-6")
def test_a_guard_covers_control_tools() -> None:
    seen: list[str] = []
    tools = ToolSet("t")
    tools.guard_names(seen.append)
    tools.register_group("g")
    assert seen == ["g.activate", "g.deactivate"]


def wire_of(tools: ToolSet, separator: str = "__") -> WireNames:
    wire = WireNames(separator)
    tools.guard_names(wire.admit, wire.release, wire.admit_control)
    return wire


def known_as(tools: ToolSet, wire: WireNames) -> list[str]:
    return [wire.to_wire(name) for name in tools.catalog.tools]


@pytest.mark.spec("NAM-6", "CTL-1")
def test_what_opens_and_closes_a_group_is_called_so_on_the_wire_and_by_its_older_name_too() -> None:
    tools = ToolSet("t")
    tools.register_group("files")
    wire = wire_of(tools)
    tools.register_group("files.edit")
    assert known_as(tools, wire) == ["files__open", "files__close", "files__edit__open", "files__edit__close"]
    for name in tools.catalog.tools:
        assert wire.from_wire(wire.to_wire(name)) == wire.from_wire(name.replace(".", "__")) == name


@pytest.mark.spec("NAM-6", "CTL-1")
def test_the_names_of_the_catalog_are_on_the_wire_where_the_dot_is() -> None:
    tools = ToolSet("t")
    tools.register_group("files")
    assert known_as(tools, wire_of(tools, ".")) == ["files.activate", "files.deactivate"]


@pytest.mark.spec("NAM-6", "REG-4")
@pytest.mark.parametrize("late", [False, True], ids=["before the server is built", "afterwards"])
def test_a_tool_of_the_author_that_is_called_open_has_that_name_on_the_wire(late: bool) -> None:
    tools = ToolSet("t")
    tools.register_group("files")
    wire = wire_of(tools) if late else None
    tools.register("open", answer, group="files")
    wire = wire or wire_of(tools)
    assert known_as(tools, wire) == ["files__activate", "files__close", "files__open"]
    assert wire.from_wire("files__open") == "files.open"
    assert wire.from_wire("files__activate") == "files.activate"


@pytest.mark.spec("NAM-4", "NAM-6")
def test_only_what_opens_and_closes_a_group_has_another_word_on_the_wire() -> None:
    tools = ToolSet("t", control="open_group")
    tools.register_group("alarm")
    tools.register("activate", answer, group="alarm")
    assert "alarm__activate" in known_as(tools, wire_of(tools))
    in_place = ToolSet("t")
    in_place.register_group("alarm")
    in_place.register("activate", answer, group="alarm", replaces_control=True)
    assert known_as(in_place, wire_of(in_place)) == ["alarm__open", "alarm__close"]


@pytest.mark.spec("NAM-6", "REG-1")
async def test_the_older_name_of_a_control_tool_is_free_for_others_and_gone_with_its_group() -> None:
    tools = ToolSet("t")
    tools.register_group("files")
    wire = wire_of(tools)
    tools.register("files__activate", answer)
    assert wire.from_wire("files__activate") == "files__activate"
    before = tools.catalog
    with pytest.raises(ConfigError, match=r"'files\.activate'"):
        tools.register("open", answer, group="files")  # neither name would be left for what opens the group
    assert tools.catalog is before
    assert wire.from_wire("files__open") == "files.activate"
    await tools.unregister_group("files")
    for gone in ("files__open", "files__close", "files__deactivate"):
        with pytest.raises(ToolNotFound):
            wire.from_wire(gone)


@pytest.mark.spec("NAM-6", "REG-1")
async def test_an_unregistered_name_is_free_again_on_the_wire() -> None:
    tools = ToolSet("t")
    wire = WireNames("_")
    tools.guard_names(wire.admit, wire.release)
    tools.register("a_deactivate", answer)
    with pytest.raises(ConfigError):
        tools.register_group("a")  # its activator would have fitted
    tools.register("a_activate", answer)

    tools.register_group("b")
    tools.register("x", answer, group="b")
    tools.unregister("b.x")
    tools.register("b_x", answer)
    await tools.unregister_group("b")
    tools.register("b_activate", answer)

    class Kit:
        @tool
        def c_x(self) -> None: ...

        @tool(name="a_activate")
        def taken(self) -> None: ...

    with pytest.raises(DuplicateName):
        tools.include(Kit())
    tools.register_group("c")
    assert tools.register("x", answer, group="c").name == wire.from_wire("c_x")
