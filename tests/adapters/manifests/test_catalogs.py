"""Catalogs as data: what a file of TOML or JSON describes, and how problems are reported (SPEC GRP-2, ERR-2)."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from toolfold import ConfigError, ManifestError, ToolSet
from toolfold_adapters.manifests.catalogs import is_catalog, load_catalog

SHOP = """
name = "the shop"
exclusions = [["orders", "cellar.stock"]]

[groups."orders.returns"]
tools = [{ name = "take_back", description = "Take an item back", annotations = { readOnlyHint = false } }]

[groups.orders]
title = "Orders"
description = "Take orders"
tools = ["cancel", { name = "place", parameters = { type = "object", required = ["item"] } }]

[groups.stock]
parent = "cellar"

[groups.cellar]
pinned = true
tools = [{ name = "count", flat = true }]

[[tools]]
name = "hours"

[profiles.till]
active = ["orders"]
available = ["*"]

[options]
max_active = 3
evict = "oldest"
"""


def write(folder: Path, text: str, name: str = "shop.toml") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def refusal(file: Path) -> str:
    with pytest.raises((ConfigError, ManifestError)) as caught:
        load_catalog(file)
    return str(caught.value).replace(str(file), file.name)


@pytest.mark.spec("DIA-1", "GRP-2")
@pytest.mark.parametrize("form", ["toml", "json"])
def test_a_file_describes_a_tool_set(form: str, tmp_path: Path) -> None:
    text = SHOP if form == "toml" else json.dumps(tomllib.loads(SHOP))
    file = write(tmp_path, text, f"shop.{form}")
    assert is_catalog(file)
    tools = load_catalog(file, max_active=5)
    catalog = tools.catalog
    assert catalog.name == "the shop"
    assert [group.path for group in catalog.groups] == ["cellar", "cellar.stock", "orders", "orders.returns"]
    assert (catalog.group("orders").display_name, catalog.group("orders").description) == ("Orders", "Take orders")
    assert {"cancel", "hours", "place"} & {name.rpartition(".")[2] for name in catalog.tools} == {
        "cancel",
        "hours",
        "place",
    }
    assert {"orders.cancel", "orders.place", "orders.returns.take_back", "count", "hours"} <= catalog.tools.keys()
    assert catalog.tools["orders.place"].input_schema["required"] == ["item"]
    assert catalog.exclusions == (frozenset({"orders", "cellar.stock"}),)
    assert (catalog.max_active, catalog.evict_oldest) == (5, True)
    assert catalog.profiles["till"].active == ("orders",)


@pytest.mark.spec("GRP-2")
async def test_a_call_returns_an_error_unless_handlers_are_given(tmp_path: Path) -> None:
    file = write(tmp_path, SHOP)

    async def answer(tools: ToolSet) -> tuple[bool, str]:
        async with tools.open_session(active=["orders"]) as session:
            result = await session.call("orders.cancel", {})
            return result.is_error, result.content[0]["text"]

    refused = "This is a preview: shop.toml describes 'cancel', and no program runs it."
    assert await answer(load_catalog(file)) == (True, refused)
    assert await answer(load_catalog(file, handlers=lambda name: lambda **_: f"did {name}")) == (False, "did cancel")
    assert "there is no handler for 'hours'" in refusal_with(file, {"cancel": print})


def refusal_with(file: Path, handlers: dict[str, object]) -> str:
    with pytest.raises(ConfigError) as caught:
        load_catalog(file, handlers=handlers)  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.spec("GRP-1")
def test_a_manifest_is_a_catalog_of_one_group_and_a_stored_list_one_of_none(tmp_path: Path) -> None:
    manifest = write(tmp_path, '[{"_meta": true, "display_name": "Web"}, {"name": "fetch"}]', "web.json")
    assert is_catalog(manifest)
    assert [group.display_name for group in load_catalog(manifest).catalog.groups] == ["Web"]
    stored = write(
        tmp_path, '{"nextCursor": "2", "tools": [{"name": "fetch", "inputSchema": {"type": "object"}}]}', "list.json"
    )
    assert is_catalog(stored)
    assert "fetch" in load_catalog(stored).catalog.tools


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.toml", '[upstream]\ncommand = ["x"]\n[groups.a]\ntools = ["*"]\n'),
        ("a.json", '{"mcpServers": {}}'),
        ("a.json", '{"trace": "x"}'),
        ("a.json", "5"),
        ("a.toml", "not toml"),
    ],
)
def test_configurations_of_servers_and_unreadable_files_are_no_catalogs(name: str, text: str, tmp_path: Path) -> None:
    assert not is_catalog(write(tmp_path, text, name))
    assert not is_catalog(tmp_path / "missing.toml")


@pytest.mark.spec("GRP-2", "ERR-2", "SAF-7")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[groups.a]\ntools = ['x y']", "shop.toml, [groups.a], entry 1 (x y): 'x y' is not a valid name"),
        ("[groups.a]\ntools = ['get_*']", "'get_*' is a pattern: name a tool, or add [upstream], whose tools it is to"),
        ("[groups.a]\ntools = 'x'", "shop.toml, [groups.a]: tools must be a list."),
        ("[groups.a]\ntools = [5]", "shop.toml, [groups.a], entry 1: a tool must be an object."),
        ("[groups.a]\ncolour = 'red'", "shop.toml, [groups.a]: it has the unknown option 'colour'"),
        ("[groups]\na = 5", "shop.toml, [groups]: a must be a table."),
        ("groups = 5", "shop.toml, the top of the file: groups must be a table."),
        ('[groups."a.b"]', 'shop.toml, [groups."a.b"]: There is no group'),
        (
            "tools = [{ name = 'x', descripton = 'y' }]",
            "shop.toml, [[tools]], entry 1 (x): descripton is not known here: remove it, or use one of name, descri",
        ),
        ("[groups.a]\n[option]", "the top of the file: option is not known here: remove it, or use one of name, exclu"),
        ("tools = ['x']\nexclusions = [['a', 'b']]", "shop.toml, exclusions, set 1: There is no group 'a'"),
        ("tools = ['x']\nexclusions = [5]", "shop.toml, exclusions, set 1: the set must be a list of texts."),
        ("tools = ['x', 'x']", "shop.toml, [[tools]], entry 2 (x): A tool named 'x' is registered already"),
        ("tools = ['x']\n[options]\ncontrol = 'wheel'", "shop.toml, [options]: "),
        (
            "tools = ['x']\n[options]\nsize = 1",
            "shop.toml, [options]: size is not known here: remove it, or use one of",
        ),
        ("tools = ['x']\n[profiles.p]\nactive = ['no']", "shop.toml, [profiles.p]: "),
        ("tools = ['x']\n[profiles.p]\nopen = ['no']", "shop.toml, [profiles.p]: open is not known here"),
        ("tools = ['x']\n[profiles.p]\nwithin = 1", "shop.toml, [profiles.p]: within must be the name of a profile"),
        (
            "tools = ['x']\n[profiles.p]\nwithin = 'q'",
            "shop.toml, [profiles]: The profile 'p' is within 'q', which does not exist; there are: none.",
        ),
        (
            "tools = ['x']\n[profiles.p]\nwithin = 'q'\n[profiles.q]\nwithin = 'p'",
            "shop.toml, [profiles]: The profile 'q' is within 'p', which is within it",
        ),
        ("tools = [", "shop.toml: it is not valid TOML: Invalid value (at end of document); correct it there."),
    ],
)
def test_a_problem_is_reported_in_a_sentence_with_file_and_place(text: str, problem: str, tmp_path: Path) -> None:
    received = refusal(write(tmp_path, text))
    assert problem in received
    assert "\n" not in received


@pytest.mark.spec("GRP-2")
def test_every_problem_is_reported_on_a_line_of_its_own(tmp_path: Path) -> None:
    file = write(tmp_path, "colour = 1\n[groups.a]\ntools = ['x y', 'z']\n[groups.b]\nb = 1\n")
    assert [line.partition(":")[0] for line in refusal(file).splitlines()] == [
        "shop.toml, the top of the file",
        "shop.toml, [groups.b]",
        "shop.toml, [groups.a], entry 1 (x y)",
    ]


@pytest.mark.spec("GWY-16", "GRP-2")
def test_a_profile_of_a_catalog_can_be_within_another_one_that_comes_later(tmp_path: Path) -> None:
    more = '\n[profiles.child]\navailable = ["*"]\nwithin = "parent"\n[profiles.parent]\navailable = ["orders"]\n'
    profiles = load_catalog(write(tmp_path, SHOP + more)).catalog.profiles
    assert profiles["child"].within == profiles["parent"]
    assert [path for path in ("orders", "cellar") if profiles["child"].admits(path)] == ["orders"]
