"""SPEC PRO-1, PRO-3: sessions under a profile, for which other groups do not exist."""

from typing import Any

import pytest

from tests.core.support import answer
from toolfold import (
    ConfigError,
    DuplicateName,
    ExclusionConflict,
    GroupNotFound,
    InvalidName,
    Profile,
    ToolfoldError,
    ToolNotFound,
    ToolSet,
    Visibility,
)
from toolfold._toolset.control import ControlName
from toolfold._toolset.prompts import prompt_section


def desk(control: ControlName = "per_group") -> ToolSet:
    tools = ToolSet("desk", control=control)
    for path in ("a", "a.x", "a.y", "b", "c"):
        tools.register_group(path, f"About {path}")
        tools.register("t", answer, group=path, annotations={"readOnlyHint": path == "b"})
        tools.register_prompt("p", answer, group=path)
    tools.register("ping", answer)
    tools.register_exclusion("b", "c")
    return tools


@pytest.mark.spec("PRO-1")
async def test_a_profile_activates_groups_and_excludes_what_it_does_not_name() -> None:
    tools = desk()
    tools.register_profile(Profile(name="p", active=("a",), available=("a.x", "b")))
    async with tools.open_session("p") as session:
        assert session.active == ("a",)
        assert [info.name for info in session.list_groups()] == ["a", "a.x", "b"]
        assert session.list_tools().names == (
            *("a.activate", "a.deactivate", "a.t", "a.x.activate", "a.x.deactivate"),
            *("b.activate", "b.deactivate", "ping"),
        )
        with pytest.raises(GroupNotFound) as caught:
            await session.activate("c")
        assert "'c'" not in str(caught.value).partition(".")[2]
        for name in ("c.activate", "c.t", "a.y.t"):
            with pytest.raises(ToolNotFound):
                await session.call(name)
        assert await session.activate("a.x")
        assert (await session.call("a.x.t")).text == "done"


@pytest.mark.spec("PRO-1")
async def test_the_ancestors_of_an_admitted_group_exist_too() -> None:
    tools = desk()
    async with tools.open_session(Profile(name="p", available=("a.x",))) as session:
        assert [info.name for info in session.list_groups()] == ["a", "a.x"]
        assert await session.activate("a")
        assert await session.activate("a.x")


@pytest.mark.spec("PRO-1", "CTL-3", "ERR-2")
async def test_a_loader_under_a_profile_names_only_its_groups() -> None:
    tools = desk("expand_tools")
    async with tools.open_session(Profile(name="p", available=("a",))) as session:
        loader = session.catalog.tools["expand_tools"]
        assert loader.description.splitlines()[1:] == ["Groups:", "- a: About a"]
        result = await session.call("expand_tools", {"group": "c"})
        assert (result.is_error, result.text) == (True, "There is no group 'c'. The groups are 'a'.")


@pytest.mark.spec("PRO-1")
async def test_unregistered_profiles_of_one_name_are_distinct() -> None:
    tools = desk()
    async with (
        tools.open_session(Profile(name="p", available=("a",))) as one,
        tools.open_session(Profile(name="p", available=("b",))) as two,
        tools.open_session(Profile(name="p", available=("a",))) as three,
    ):
        assert [info.name for info in one.list_groups()] == ["a"]
        assert [info.name for info in two.list_groups()] == ["b"]
        assert three.catalog is one.catalog


@pytest.mark.spec("PRO-1", "REG-7")
async def test_a_session_under_a_profile_sees_registrations_that_concern_it() -> None:
    tools = desk()
    async with tools.open_session(Profile(name="p", active=("a",), available=("d",))) as session:
        tools.register("new", answer, group="a")
        tools.register_group("d")
        tools.register_group("e")
        assert "a.new" in session.list_tools().names
        assert [info.name for info in session.list_groups()] == ["a", "d"]
        assert session.active == ("a",)


@pytest.mark.spec("PRO-1", "REG-1")
@pytest.mark.parametrize(
    ("profile", "error"),
    [
        (Profile(name="p", active=("nope",)), GroupNotFound),
        (Profile(name="p", available=("a", "nope")), GroupNotFound),
        (Profile(name="p", active=("a.x",)), ConfigError),
        (Profile(name="p", active=("b", "c")), ExclusionConflict),
        (Profile(name="not ok"), InvalidName),
        (Profile(name="taken"), DuplicateName),
    ],
    ids=["active unknown", "available unknown", "parent left out", "exclusive", "name", "duplicate"],
)
def test_a_profile_that_could_not_be_opened_is_refused(profile: Profile, error: type[ToolfoldError]) -> None:
    tools = desk()
    tools.register_profile(Profile(name="taken"))
    before = tools.catalog
    with pytest.raises(error):
        tools.register_profile(profile)
    assert tools.catalog is before


@pytest.mark.spec("PRO-1", "ERR-2")
def test_an_unknown_profile_is_refused_with_the_list() -> None:
    tools = desk()
    with pytest.raises(ConfigError, match="none"):
        tools.open_session("p")
    for name in ("two", "one"):
        tools.register_profile(Profile(name=name))
    with pytest.raises(ConfigError, match=r"'three'.*: one, two"):
        tools.open_session("three")


@pytest.mark.spec("PRO-1")
def test_a_catalog_under_a_profile_does_not_change_the_catalog() -> None:
    tools = desk()
    catalog = tools.catalog
    restricted = catalog.under(Profile(name="p", available=("b",)))
    assert restricted.index.keys() == {"b"}
    assert restricted.exclusions == ()
    assert {spec.group for spec in restricted.tools.values()} == {None, "b"}
    assert len(catalog.groups) == 5
    assert restricted.under(Profile(name="q")).index == {}


@pytest.mark.spec("PRO-1")
async def test_prompts_resources_and_templates_of_other_groups_do_not_exist() -> None:
    tools = desk()
    for path in ("a", "c"):
        tools.register_resource(f"notes:{path}", answer, group=path, name=path)
        tools.register_resource_template(f"{path}:{{item}}", lambda given: "done", group=path, name=path)
    async with tools.open_session(Profile(name="p", active=("a",), available=("b",))) as session:
        await session.activate("b")
        assert session.list("prompt").names == ("a.p", "b.p")
        assert session.list("resource").names == ("notes:a",)
        assert session.list("resource_template").names == ("a:{item}",)
        assert await session.read("a:one")
        for uri in ("notes:c", "c:one"):
            with pytest.raises(ToolNotFound):
                await session.read(uri)
        with pytest.raises(ToolNotFound):
            await session.get_prompt("c.p")


@pytest.mark.spec("PRO-1", "VIS-2")
async def test_a_group_outside_of_the_profile_is_never_active_for_rules() -> None:
    tools = desk()
    tools.register("with_c", answer, visibility=Visibility.group("c"))
    tools.register("without_c", answer, visibility=~Visibility.group("c"))
    tools.register("flat_c", answer, group="c", flat=True, visibility=Visibility.always())
    tools.register("either", answer, visibility=Visibility.group("c") | Visibility.group("b"))
    async with tools.open_session(Profile(name="p", active=("b",))) as session:
        names = set(session.list_tools().names)
        assert {"without_c", "either"} <= names
        assert not {"with_c", "flat_c"} & names
        for name in ("with_c", "flat_c"):
            with pytest.raises(ToolNotFound):
                await session.call(name)


A_FIRST = "it needs the group a: call a.activate first"


@pytest.mark.spec("PRO-1", "CALL-1")
async def test_a_hint_names_no_group_outside_of_the_profile() -> None:
    tools = ToolSet("desk", on_hidden="hint")
    for path in ("a", "c"):
        tools.register_group(path)
    tools.register("with_c", answer, visibility=Visibility.group("c"))
    tools.register("with_both", answer, visibility=Visibility.group("a") & Visibility.group("c"))
    tools.register("with_a", answer, visibility=Visibility.group("a"))
    hints = {}
    for profile in (None, Profile(name="p", available=("a",))):
        async with tools.open_session(profile) as session:
            for name in ("with_a", "with_both", "with_c"):
                with pytest.raises(ToolNotFound) as caught:
                    await session.call(name)
                hints[name, profile and profile.name] = caught.value.hint
    assert hints == {
        ("with_a", None): A_FIRST,
        ("with_both", None): A_FIRST,
        ("with_c", None): "it needs the group c: call c.activate first",
        ("with_a", "p"): A_FIRST,
        ("with_both", "p"): "did you mean 'with_a'?",
        ("with_c", "p"): "did you mean 'with_a'?",
    }


@pytest.mark.spec("PRO-1", "REG-3", "ACT-10")
async def test_a_group_outside_neither_excludes_nor_counts_nor_opens_on_an_event() -> None:
    ran: list[str] = []
    tools = ToolSet("desk", max_active=1, evict="oldest")
    for path in ("a", "b", "c"):
        tools.register_group(path, on_activate=lambda context: ran.append(context.group))
    tools.register_group("d", opens_on="ping", on_activate=lambda context: ran.append(context.group))
    tools.register("ping", answer)
    tools.register_exclusion("a", "c")
    async with tools.open_session(Profile(name="p", active=("a",), available=("b",))) as session:
        await session.call("ping")
        assert session.active == ("a",)
        assert await session.activate("b")
        assert session.active == ("b",)
        with pytest.raises(GroupNotFound):
            await session.transition(activate=["a"], deactivate=["c"])
        assert session.active == ("b",)
    assert ran == ["a", "b"]


@pytest.mark.spec("PRO-1", "GRP-5")
def test_the_section_of_a_system_prompt_names_only_the_groups_of_the_profile() -> None:
    for control in ("per_group", "load_tool_group", "expand_tools"):
        tools = desk(control)
        section = prompt_section(tools.open_session(Profile(name="p", active=("b",), available=("a",))))
        assert [line for line in section.splitlines() if line.startswith("- ")] == ["- a: About a", "- b: About b"]
        assert prompt_section(tools.open_session(Profile(name="none"))) == ""


@pytest.mark.spec("PRO-1", "PER-1", "PER-2")
async def test_a_session_restored_under_a_profile_is_restricted_to_it() -> None:
    tools = desk()
    tools.register_profile(Profile(name="narrow", active=("a",), available=("b",)))
    async with tools.open_session(active=["a", "a.x", "c"]) as free:
        wide = free.dump()
    async with tools.restore_session(wide, "narrow") as session:
        assert (session.active, session.discarded) == (("a",), ("a.x", "c"))
        with pytest.raises(GroupNotFound):
            await session.activate("c")
        assert session.dump()["profile"] == "narrow"


@pytest.mark.spec("PRO-1", "REG-5")
async def test_a_profile_remains_without_a_group_that_is_unregistered() -> None:
    tools = desk()
    given = tools.register_profile(Profile(name="p", active=("a", "b"), available=("a.x",)))
    tools.register_profile(Profile(name="all", active=("a",), available="*"))
    async with tools.open_session("p") as old:
        await tools.unregister_group("a")
        assert old.active == ("b",)
        async with tools.open_session("p") as session, tools.open_session("all") as other:
            assert session.active == ("b",)
            assert [info.name for info in session.list_groups()] == ["b"]
            assert other.active == ()
            assert [info.name for info in other.list_groups()] == ["b", "c"]
        assert tools.catalog.profiles["p"] == Profile(name="p", active=("b",))
        async with tools.open_session(given) as session:  # what a server holds that was built before
            assert session.active == ("b",)
    tools.register_group("a")
    async with tools.open_session("p") as session:
        with pytest.raises(GroupNotFound):
            await session.activate("a")


@pytest.mark.spec("PRO-1")
async def test_a_profile_that_names_a_group_that_never_existed_is_refused() -> None:
    for profile in (Profile(name="p", active=("nope",)), Profile(name="registered", active=("nope", "a"))):
        tools = desk()
        tools.register_profile(Profile(name="registered", active=("b",)))
        with pytest.raises(GroupNotFound, match="'nope'"):
            await tools.open_session(profile).start()


@pytest.mark.spec("PRO-3")
@pytest.mark.parametrize(("read_only", "admitted"), [(None, "rwn"), (True, "r"), (False, "wn")])
async def test_a_tool_is_read_only_if_it_is_annotated_as_such(read_only: bool | None, admitted: str) -> None:
    tools = ToolSet("desk", control="expand_tools")
    tools.register_group("g")
    tools.register("r", answer, group="g", flat=True, annotations={"readOnlyHint": True, "openWorldHint": True})
    tools.register("w", answer, group="g", flat=True, annotations={"readOnlyHint": False})
    tools.register("n", answer, group="g", flat=True)
    tools.register_resource("notes:all", answer, name="notes")
    async with tools.open_session(Profile(name="p", active=("g",), read_only=read_only)) as session:
        assert session.list_tools().names == tuple(sorted(["expand_tools", *admitted]))
        for name in "rwn":
            if name in admitted:
                assert (await session.call(name)).text == "done"
            else:
                with pytest.raises(ToolNotFound):
                    await session.call(name)
        assert session.list("resource").names == ("notes:all",)


@pytest.mark.spec("PRO-1")
def test_a_profile_is_named_by_its_first_argument() -> None:
    assert Profile("reader", active="a") == Profile(name="reader", active=["a"])


@pytest.mark.spec("GWY-16", "PRO-1")
@pytest.mark.parametrize(
    ("child", "parent", "active", "groups"),
    [
        ({"active": ("a", "b")}, {"available": ("a.x",)}, ("a",), ["a"]),
        ({"active": ("b",), "available": ("*",)}, {"available": ("a.x", "b")}, ("b",), ["a", "a.x", "b"]),
        ({"available": ("a.x",)}, {"available": ("a.y",)}, (), ["a"]),
        ({"available": ("a.x",)}, {"available": ("*",)}, (), ["a", "a.x"]),
        ({"available": ("*",)}, {}, (), []),
    ],
)
async def test_a_profile_within_that_of_a_parent_has_what_both_have(
    child: dict[str, Any], parent: dict[str, Any], active: tuple[str, ...], groups: list[str]
) -> None:
    profile = Profile("child", **child, within=Profile("parent", **parent))
    async with desk().open_session(profile) as session:
        assert session.active == active
        assert [info.name for info in session.list_groups()] == groups
        for path in {"a", "a.x", "a.y", "b", "c"} - {*groups}:
            with pytest.raises(GroupNotFound):
                await session.activate(path)


@pytest.mark.spec("GWY-16", "PRO-3")
@pytest.mark.parametrize("parent", [None, True, False])
@pytest.mark.parametrize("child", [None, True, False])
async def test_a_tool_exists_for_a_child_where_it_does_for_its_parent_and_under_its_own_profile(
    child: bool | None, parent: bool | None
) -> None:
    outer = Profile("parent", active=("a", "b"), read_only=parent)
    async with desk().open_session(Profile("child", active=("a", "b"), read_only=child, within=outer)) as session:
        listed = {name for name in session.list_tools().names if name.endswith(".t")}
    kept = {
        name for name, reads in (("a.t", False), ("b.t", True)) if all(one in (None, reads) for one in (child, parent))
    }
    assert listed == kept


@pytest.mark.spec("GWY-16")
async def test_a_child_of_a_child_is_bounded_by_all_and_a_fork_by_what_its_parent_is() -> None:
    inner = Profile("b", available=("*",), within=Profile("a", available=("a.x",)))
    async with desk().open_session(Profile("c", available=("*",), within=inner)) as session:
        assert [info.name for info in session.list_groups()] == ["a", "a.x"]
        async with session.fork() as child:
            assert [info.name for info in child.list_groups()] == ["a", "a.x"]


@pytest.mark.spec("GWY-16", "REG-5")
async def test_a_profile_is_without_groups_that_were_removed_also_where_its_parent_names_them() -> None:
    tools = desk()
    parent = Profile("parent", available=("b", "c"))
    tools.register_profile(Profile("child", available=("b",), within=parent))
    await tools.unregister_group("c")
    await tools.unregister_group("b")
    tools.register_group("b", "Another")
    assert tools.catalog.profiles["child"].named == frozenset()
    async with tools.open_session("child") as session:
        assert session.list_groups() == ()
