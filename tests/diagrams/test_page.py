"""The page as a text: one file that requests nothing, the same each time, made from the data that drives the code."""

from __future__ import annotations

import base64
import re
from hashlib import sha256

import pytest

from tests.diagrams.pages import HOSTILE, HOSTILE_PATHS, Parsed, answer, hostile, large, scattered, wandered
from toolfold import Mode, Modes, Snapshot, ToolSet, TransitionRequest, Visibility
from toolfold.machine import TABLE
from toolfold_adapters.tokens import approximate_tokens
from toolfold_diagrams import page
from toolfold_diagrams.diagram import Source


def data_of(source: Source) -> dict[str, object]:
    found = Parsed(page(source)).data
    assert isinstance(found, dict)
    return found


@pytest.mark.spec("DIA-1")
@pytest.mark.parametrize(
    "source", [hostile(), scattered(4), Snapshot.of(ToolSet("empty").catalog)], ids=["hostile", "scattered", "empty"]
)
def test_a_page_is_one_file_that_requests_nothing(source: Source) -> None:
    text = page(source)
    parsed = Parsed(text)
    assert {tag for tag, _ in parsed.tags}.isdisjoint({"img", "iframe", "object", "embed", "base", "form", "a"})
    linked = [value for _, attributes in parsed.tags for name, value in attributes.items() if name in ("src", "href")]
    assert linked == ["data:,"]
    assert not [name for _, attributes in parsed.tags for name in attributes if name.startswith("on")]
    scripts = [attributes["type"] for tag, attributes in parsed.tags if tag == "script"]
    assert scripts == ["application/json", "module"]
    for code in (parsed.texts["script"][1], parsed.texts["style"][0]):
        assert not re.search(r"https?:|//\w|url\(|@import|\bimport\b|fetch\(|innerHTML|outerHTML|insertAdjacent", code)


@pytest.mark.spec("DIA-1")
def test_the_policy_allows_only_this_script_and_style() -> None:
    parsed = Parsed(page(hostile()))
    (policy,) = [attributes["content"] for _, attributes in parsed.tags if "http-equiv" in attributes]
    assert policy is not None
    rules = {name: values for name, *values in (rule.split() for rule in policy.split(";"))}
    assert rules["default-src"] == ["'none'"]
    for name, text in (("script-src", parsed.texts["script"][1]), ("style-src", parsed.texts["style"][0])):
        assert rules[name] == [f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"]
    assert rules["require-trusted-types-for"] == ["'script'"]


@pytest.mark.spec("DIA-2")
def test_a_page_is_made_from_the_table_of_the_core() -> None:
    table = data_of(scattered(1))["table"]
    assert isinstance(table, dict)
    received = {
        (state, event, row["guard"], row["target"], row["effect"])
        for state, events in table.items()
        for event, rows in events.items()
        for row in rows
    }
    assert received == {
        (state.value, event.value, row.guard.value, row.target.value, row.effect.value)
        for (state, event), rows in TABLE.items()
        for row in rows
    }


@pytest.mark.spec("DIA-1", "DIA-2")
@pytest.mark.parametrize("seed", range(6))
def test_groups_and_tools_of_a_page_are_those_of_the_catalog(seed: int) -> None:
    tools = scattered(seed)
    catalog, data = tools.catalog, Parsed(page(tools)).data
    paths = [group.path for group in catalog.groups]
    assert [group["path"] for group in data["groups"]] == paths
    for number, group in enumerate(data["groups"]):
        for key, mask in (
            ("ancestors", catalog.forest.ancestors[number]),
            ("partners", catalog.forest.partners[number]),
        ):
            assert sum(1 << other for other in group[key]) == mask
        assert sum(1 << other for other in [number, *group["descendants"]]) == catalog.forest.subtree[number]
        assert group["pinned"] is catalog.groups[number].pinned
    assert [tool["name"] for tool in data["tools"]] == sorted(map(catalog.spoken, catalog.tools))
    by_name = {catalog.spoken(name): component for name, component in catalog.tools.items()}
    for tool in data["tools"]:
        spec = by_name[tool["name"]]
        assert (tool["group"] is None and not spec.group) or paths[tool["group"]] == spec.group
        assert (tool["description"], tool["hidden"]) == (spec.description, spec.hidden)
    assert (data["limit"], data["evicts"]) == (catalog.max_active, catalog.evict_oldest)


@pytest.mark.spec("DIA-3")
def test_a_page_starts_from_the_state_that_it_is_given() -> None:
    for seed in (1, 2, 3):
        for snapshot in wandered(scattered(seed), seed, 20)[-4:]:
            data = Parsed(page(snapshot)).data
            numbers = range(len(snapshot.catalog.groups))
            assert data["states"] == [snapshot.configuration.state(number).value for number in numbers]
            assert data["order"] == list(snapshot.configuration.order)


@pytest.mark.spec("DIA-3")
async def test_a_page_of_a_session_starts_from_its_groups_and_knows_no_others() -> None:
    tools = scattered(1)
    first = tools.catalog.groups[0].path
    async with tools.open_session(active=[first]) as session:
        assert (
            page(session) == page(session.snapshot) == page(Snapshot.of(tools.catalog).after(TransitionRequest(first)))
        )
        assert page(session) != page(tools)


@pytest.mark.spec("GWY-5")
def test_tokens_are_those_of_the_reports() -> None:
    for source in (hostile(), scattered(3), large()):
        catalog = source.catalog
        by_name = {catalog.spoken(name): component for name, component in catalog.tools.items()}
        for tool in Parsed(page(source)).data["tools"]:
            assert tool["tokens"] == approximate_tokens(dict(by_name[tool["name"]].definition))


@pytest.mark.spec("DIA-1", "SAF-6")
def test_hostile_texts_are_data_and_nothing_else() -> None:
    tools = hostile()
    parsed, plain = Parsed(page(tools)), Parsed(page(ToolSet("plain", control="none")))
    assert parsed.tags[0] == plain.tags[0]
    assert [tag for tag, _ in parsed.tags] == [tag for tag, _ in plain.tags]
    assert {tool["description"] for tool in parsed.data["tools"]} > set(HOSTILE)
    assert [group["path"] for group in parsed.data["groups"]] == sorted(HOSTILE_PATHS, key=lambda path: path.split("."))
    assert parsed.texts["title"] == parsed.texts["h1"] == [HOSTILE[0]]


@pytest.mark.spec("DIA-1")
@pytest.mark.parametrize("title", HOSTILE)
def test_a_title_is_shown_without_what_can_not_be_printed(title: str) -> None:
    parsed = Parsed(page(ToolSet("plain"), title=title))
    shown = "".join(" " if char.isspace() else char for char in title if char not in "\u202e\u202c\0\a")
    assert [text.split() for text in parsed.texts["title"]] == [shown.split()]
    assert parsed.data["name"].split() == shown.split()


@pytest.mark.spec("DIA-1", "MOD-1")
def test_what_a_predicate_decides_is_marked_as_depending_on_the_program() -> None:
    tools = ToolSet("predicates", control="none")
    tools.register_group("a")
    moody = Modes("what", {"x": Mode(available=lambda view: False)})
    schema = {"type": "object", "properties": {"what": {"type": "string"}}}
    tools.register("sometimes", answer, visibility=Visibility.when(lambda view: True) & Visibility.group("a"))
    tools.register("moody", answer, modes=moody, input_schema=schema, group="a")
    tools.register("plain", answer, group="a")
    rules = {tool["name"]: (tool["rule"], tool["changing"]) for tool in Parsed(page(tools)).data["tools"]}
    assert rules == {
        "a.plain": (["group", 0], False),
        "a.moody": (["both", ["group", 0], ["when"]], True),
        "sometimes": (["both", ["when"], ["group", 0]], True),
    }


@pytest.mark.spec("DIA-1", "VIS-6")
def test_a_tool_that_is_hidden_under_a_rule_is_listed_while_the_rule_does_not_hold() -> None:
    tools = ToolSet("hiding", control="none")
    tools.register_group("a")
    tools.register("never", answer, hidden=True)
    tools.register("early", answer, hidden=Visibility.group("a"))
    tools.register("unlocked", answer, hidden=~Visibility.group("a"))
    tools.register("late", answer, group="a", hidden=Visibility.when(lambda view: True))
    received = {
        tool["name"]: (tool["hidden"], tool["rule"], tool["changing"]) for tool in Parsed(page(tools)).data["tools"]
    }
    assert received == {
        "never": (True, ["always"], False),
        "early": (False, ["not", ["group", 0]], False),
        "unlocked": (False, ["group", 0], False),
        "a.late": (False, ["both", ["group", 0], ["not", ["when"]]], True),
    }
