"""SPEC GRP-1, GRP-2: manifests, with document C's tests of its loader of manifests."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.adapters.manifests.support import BAD_ENTRIES, BAD_FILES, META, SCHEMA, but_one, entry, every, load, write
from toolfold import ManifestError, ToolSet, WireNames, prompt_section
from toolfold_adapters.manifests import ManifestReport, load_manifests


def errors(report: ManifestReport) -> list[tuple[str, str, str]]:
    return [(Path(error.file).name, error.position, error.problem) for error in report.errors]


def contents(tools: ToolSet) -> dict[str, list[str]]:
    return {group.path: [spec.name for spec in tools.group_tools(group.path)] for group in tools.groups()}


@pytest.mark.spec("GRP-1")
@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        ([META], ("Google Gmail", "Email tools")),
        ([], ("My Tools", "Tools from my_tools group")),
        ([{"_meta": True}], ("My Tools", "Tools from my_tools group")),
        ([{"_meta": True, "display_name": "Mine"}], ("Mine", "Tools from my_tools group")),
        ([{"_meta": True, "description": "All mine"}], ("My Tools", "All mine")),
    ],
)
def test_document_c_manifest_a_meta_element_or_else_the_file_name_describes_the_group(
    tmp_path: Path, meta: list[dict[str, Any]], expected: tuple[str, str]
) -> None:
    """Document C, its two tests of groups, and step 6a: the defaults of a missing name or description."""
    write(tmp_path, my_tools=[*meta, entry("tool1"), entry("tool2")])
    tools, report = load(tmp_path)
    assert report.ok
    [group] = tools.groups()
    assert (group.path, group.display_name, group.description) == ("my_tools", *expected)
    assert contents(tools) == {"my_tools": ["tool1", "tool2"]}


@pytest.mark.spec("GRP-1", "SAF-6")
def test_texts_of_a_manifest_are_data(tmp_path: Path) -> None:
    text = "{0.__class__} {tools} %s %(x)s [bold]b[/bold] ../../etc \x1b[31m"
    meta = {**META, "display_name": text, "description": text}
    write(tmp_path, evil=[meta, {**entry("tool1"), "description": text}, {**entry("../../etc/passwd")}])
    tools, report = load(tmp_path)
    [group] = tools.groups()
    assert (group.display_name, group.description) == (text, text)
    assert tools.catalog.tools["tool1"].definition["description"] == text
    assert contents(tools) == {"evil": ["tool1"]}
    assert len(report.errors) == 1
    assert text in (tools.catalog.tools["load_tool_group"].definition["description"])


@pytest.mark.spec("GRP-1")
@pytest.mark.parametrize("more", [{}, entry("test_tool")], ids=["plain", "that looks like a tool"])
def test_document_c_manifest_the_meta_element_is_never_a_tool(tmp_path: Path, more: dict[str, Any]) -> None:
    write(tmp_path, test=[{**more, **META}, entry("test_tool")])
    tools, report = load(tmp_path)
    assert report.ok
    assert [spec.name for spec in report.tools] == ["test_tool"]
    assert set(tools.catalog.tools) == {"test_tool", "load_tool_group"}


@pytest.mark.spec("GRP-1", "GRP-4")
async def test_a_file_with_one_object_is_a_core_tool_and_folders_and_files_are_read_in_order(tmp_path: Path) -> None:
    """Document C, steps 5d and 6b: which files are groups."""
    write(tmp_path, read_file=entry("read_file"), pdf=[entry("pdf_info")], google_gmail=[META, entry("gmail_search")])
    (tmp_path / "notes.txt").write_text("no manifest")
    single = tmp_path / "single.tool"
    single.write_text(json.dumps(entry("exec")), encoding="utf-8-sig")
    tools = ToolSet("assistant", control="load_tool_group")
    report = load_manifests(tools, tmp_path, str(single), handlers=every)
    assert report.ok
    assert [group.path for group in report.groups] == ["google_gmail", "pdf"]
    assert [spec.name for spec in report.tools] == ["gmail_search", "pdf_info", "read_file", "exec"]
    assert [spec.name for spec in tools.core_tools()] == ["exec", "load_tool_group", "read_file"]
    assert prompt_section(tools).endswith("- google_gmail: Email tools\n- pdf: Tools from pdf group")
    assert (await tools.call_tool("read_file", {"query": "x"})).text == "read_file: {'query': 'x'}"


@pytest.mark.spec("GRP-1")
@pytest.mark.parametrize("more", [{}, {"parameters": None}, {"inputSchema": None}], ids=["absent", "null", "null too"])
async def test_an_entry_without_parameters_is_a_tool_without_arguments(tmp_path: Path, more: dict[str, Any]) -> None:
    write(tmp_path, mail=[{"name": "count_mail", **more}], clock={"name": "clock", **more})
    tools, report = load(tmp_path, {"count_mail": lambda: "7", "clock": lambda arguments: f"noon {arguments}"})
    assert report.ok
    closed = {"type": "object", "properties": {}, "additionalProperties": False}
    assert [component.input_schema for component in report.tools] == [closed, closed]
    async with tools.open_session(active=["mail"]) as session:
        assert (await session.call("count_mail")).text == "7"
        assert (await session.call("clock", {})).text == "noon {}"
        assert (await session.call("clock", {"zone": "UTC"})).is_error
    write(tmp_path, clock={"name": "clock", "parameters": None, "inputSchema": SCHEMA})
    assert SCHEMA in [component.input_schema for component in load(tmp_path)[1].tools]


@pytest.mark.spec("GRP-1", "NAM-5")
def test_tools_can_be_qualified_by_their_group_and_groups_nested_by_their_files(tmp_path: Path) -> None:
    write(tmp_path, **{"web.search": [entry("find")], "web": [entry("fetch")]})
    tools, report = load(tmp_path, flat=False)
    assert report.ok
    assert contents(tools) == {"web": ["web.fetch"], "web.search": ["web.search.find"]}
    assert [group.display_name for group in tools.groups()] == ["Web", "Search"]


@pytest.mark.spec("GRP-1")
async def test_the_definition_of_a_tool_has_the_fields_of_the_entry(tmp_path: Path) -> None:
    said = {
        "title": "Search",
        "annotations": {"readOnlyHint": True},
        "category": "Mail",
        "_meta": {"example/cost": 2},
        "outputSchema": {"type": "object", "required": ["found"]},
        "icons": [{"src": "data:image/png;base64,AA=="}],
    }
    received = {"name": "gmail_search", "inputSchema": SCHEMA, "timeoutSeconds": 5, "requiredPermissions": [], **said}
    write(tmp_path, mail=[{**received, "hidden": True, "tags": ["read"]}])
    tools, report = load(tmp_path, {"gmail_search": lambda arguments: {"found": arguments["query"]}})
    assert report.ok
    [spec] = report.tools
    assert spec.definition == {
        **{key: value for key, value in said.items() if key not in ("category", "_meta")},
        "name": "gmail_search",
        "description": "",
        "inputSchema": SCHEMA,
        "_meta": {"example/cost": 2, "category": "Mail"},
    }
    assert (spec.hidden, spec.tags) == (True, ("read",))
    await tools.activate_group("mail")
    assert (await tools.call_tool("gmail_search", {"query": "x"})).structured == {"found": "x"}


@pytest.mark.spec("GRP-1")
@pytest.mark.parametrize(
    "handlers",
    [
        {"t": every("by name"), "js_t": every("by function")},
        {"js_t": every("by name")},
        lambda name: every("by name") if name == "t" else None,
        lambda name: {"js_t": every("by name")}[name],
    ],
    ids=["name first", "function", "a function that answers none", "a function that raises"],
)
async def test_a_handler_is_found_by_the_name_of_the_tool_or_by_its_function(tmp_path: Path, handlers: Any) -> None:
    write(tmp_path, group=[entry("t")])
    tools, report = load(tmp_path, handlers)
    assert report.ok
    await tools.activate_group("group")
    assert (await tools.call_tool("t")).text == "by name: {}"


@pytest.mark.spec("GRP-2")
@pytest.mark.parametrize("kind", BAD_ENTRIES)
def test_a_bad_entry_is_reported_with_its_place_and_affects_no_other(tmp_path: Path, kind: str) -> None:
    bad, position, problem = BAD_ENTRIES[kind]
    write(tmp_path, group=[entry("a"), bad, entry("z")], other=[entry("x")])
    tools, report = load(tmp_path, but_one)
    [(file, where, what)] = errors(report)
    assert (file, where) == ("group.json", position)
    assert problem in what
    assert contents(tools) == {"group": ["a", "z"], "other": ["x"]}
    assert str(report.errors[0]) == f"{tmp_path / 'group.json'}, {position}: {what}."


@pytest.mark.spec("GRP-2")
@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_bad_file_is_reported_and_affects_no_other(tmp_path: Path, kind: str) -> None:
    content, position, problem = BAD_FILES[kind]
    write(tmp_path, bad=content, other=[entry("x")])
    tools, report = load(tmp_path)
    [(file, where, what)] = errors(report)
    assert (file, where) == ("bad.json", position)
    assert problem in what
    assert contents(tools) == {"other": ["x"]}


@pytest.mark.spec("GRP-2")
def test_files_that_cannot_be_read_and_empty_folders_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.json").mkdir()
    write(tmp_path, b=[entry("x")])
    empty = tmp_path / "empty"
    empty.mkdir()
    tools = ToolSet("t")
    report = load_manifests(tools, tmp_path / "missing.json", tmp_path, empty, handlers=every)
    assert [(file, where) for file, where, _ in errors(report)] == [
        ("missing.json", "file"),
        ("a.json", "file"),
        ("empty", "folder"),
    ]
    assert contents(tools) == {"b": ["x"]}
    assert str(report).startswith("1 group(s) and 1 tool(s) loaded, 3 error(s)\n")


@pytest.mark.spec("GRP-2", "SAF-2")
def test_a_pipe_among_manifests_is_reported_instead_of_waited_for(tmp_path: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("there are no pipes among files")
    write(tmp_path, pdf=[entry("pdf_info")])
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "linked.json").symlink_to(tmp_path / "pipe.json")
    report = load_manifests(ToolSet("assistant"), tmp_path, handlers=every)
    assert [group.path for group in report.groups] == ["pdf"]
    assert errors(report) == [(name, "file", "it is not a regular file") for name in ("linked.json", "pipe.json")]


@pytest.mark.spec("GRP-2")
def test_a_folder_that_cannot_be_read_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(Path, "iterdir", refuse)  # who runs the tests may read any folder
    tools = ToolSet("t")
    report = load_manifests(tools, tmp_path, handlers=every)
    assert [(where, what) for _, where, what in errors(report)] == [("folder", "it can't be read: Permission denied")]


@pytest.mark.spec("GRP-2", "REG-4")
def test_duplicates_across_files_and_with_what_was_registered_are_reported_and_the_first_stays(tmp_path: Path) -> None:
    write(tmp_path, a=[entry("x")], b=[entry("x"), entry("y")], known=[entry("z")])
    tools = ToolSet("t", control="load_tool_group")
    tools.register_group("known", "By hand")
    report = load_manifests(tools, tmp_path, tmp_path / "a.json", handlers=every)
    assert [(file, where) for file, where, _ in errors(report)] == [
        ("b.json", "entry 1 (x)"),
        ("known.json", "group"),
        ("a.json", "group"),
    ]
    assert contents(tools) == {"a": ["x"], "b": ["y"], "known": []}
    assert tools.catalog.group("known").description == "By hand"


@pytest.mark.spec("GRP-2")
def test_a_group_with_an_invalid_name_is_reported(tmp_path: Path) -> None:
    write(tmp_path, **{"my group": [entry("x")], "a.b": [entry("y")]})
    tools, report = load(tmp_path)
    assert [(file, where) for file, where, _ in errors(report)] == [("a.b.json", "group"), ("my group.json", "group")]
    assert contents(tools) == {}


@pytest.mark.spec("GRP-1", "GRP-2")
@pytest.mark.parametrize("wrong", [5, ["x"], "\ud800"], ids=["number", "list", "half a character"])
def test_an_invalid_field_of_a_meta_element_affects_nothing_else(tmp_path: Path, wrong: Any) -> None:
    write(tmp_path, my_tools=[{**META, "display_name": wrong}, entry("t")])
    tools, report = load(tmp_path)
    [(_, where, what)] = errors(report)
    assert where == "entry 1"
    assert "display_name" in what
    [group] = tools.groups()
    assert (group.display_name, group.description) == ("My Tools", "Email tools")


@pytest.mark.spec("GRP-2", "REG-1")
def test_a_group_without_a_single_good_tool_leaves_nothing_behind(tmp_path: Path) -> None:
    write(tmp_path, group=[META, {"name": "a", "parameters": []}, 5])
    tools, report = load(tmp_path)
    assert [where for _, where, _ in errors(report)] == ["entry 2 (a)", "entry 3", "group"]
    assert (report.groups, report.tools, contents(tools)) == ((), (), {})


@pytest.mark.spec("GRP-2", "NAM-6")
def test_a_name_that_is_invalid_on_the_wire_is_reported_and_not_registered(tmp_path: Path) -> None:
    wire = WireNames("_", max_length=20)
    tools = ToolSet("t", control="none")
    tools.guard_names(wire.admit, wire.release)
    write(tmp_path, group=[entry("a" * 21), entry("b")])
    report = load_manifests(tools, tmp_path, handlers=every)
    assert [where for _, where, _ in errors(report)] == [f"entry 1 ({'a' * 21})"]
    assert contents(tools) == {"group": ["b"]}


@pytest.mark.spec("GRP-2", "REG-1")
def test_strict_loading_raises_the_first_error_with_the_others_as_notes_and_registers_nothing(tmp_path: Path) -> None:
    write(tmp_path, a=[entry("x"), 5], b="", c=[entry("z")])
    tools = ToolSet("t")
    before = tools.catalog
    with pytest.raises(ManifestError) as caught:
        load_manifests(tools, tmp_path, handlers=every, strict=True)
    assert (Path(caught.value.file).name, caught.value.position) == ("a.json", "entry 2")
    assert [note.partition(",")[0] for note in caught.value.__notes__] == [str(tmp_path / "b.json")]
    assert tools.catalog is before
    (tmp_path / "a.json").unlink()
    (tmp_path / "b.json").unlink()
    assert load_manifests(tools, tmp_path, handlers=every, strict=True).ok


OPTIONAL = ("title", "outputSchema", "icons", "annotations", "category", "tags", "_meta")
KEYS = (
    *OPTIONAL,
    "name",
    "display_name",
    "description",
    "parameters",
    "inputSchema",
    "hidden",
    "function",
    "type",
    "src",
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3) | st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=25,
)
SCHEMAS = st.sampled_from([{"type": "object"}, {"type": "object", "properties": {"x": True}}])
ENTRIES = st.fixed_dictionaries(
    {"name": st.sampled_from("abc") | st.text(max_size=4), "parameters": SCHEMAS | JSON},
    optional=dict.fromkeys(OPTIONAL, JSON),
)


@pytest.mark.spec("GRP-2")
@settings(max_examples=3 * settings().max_examples, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.lists(ENTRIES | JSON, max_size=5) | JSON)
def test_whatever_a_file_contains_the_others_are_loaded(tmp_path: Path, content: Any) -> None:
    write(tmp_path, any=content, good=[entry("good_tool")])
    tools, report = load(tmp_path)
    assert contents(tools)["good"] == ["good_tool"]
    loaded = [spec.name for spec in report.tools]
    assert sorted(loaded) == sorted(set(tools.catalog.tools) - {"load_tool_group"})
    assert report.errors or "any" in contents(tools) or len(loaded) == 2
    json.dumps([dict(spec.definition) for spec in report.tools], allow_nan=False)
