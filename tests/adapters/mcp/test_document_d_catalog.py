"""Document D's catalog tool through real clients of both eras: its arguments, one by one and combined (SPEC 16)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product
from typing import Any, Literal

import pytest

from tests.adapters.mcp.support import build_server
from tests.core.document_d import SECTIONS, WRONG_ARGUMENTS, names, shop
from tests.examples.callers import WAYS, Caller, connected

Era = Literal["legacy", "auto"]


@pytest.fixture(params=["legacy", "auto"])
def era(request: pytest.FixtureRequest) -> Era:
    chosen: Era = request.param
    return chosen


async def ask(client: Caller, arguments: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return what the catalog tool answers; its text says the same as its structured content."""
    answer = await client.answer("catalog", arguments)
    assert not answer.is_error, answer.text
    assert json.loads(answer.text) == answer.structured
    sections: dict[str, list[dict[str, Any]]] = answer.structured
    return sections


@pytest.mark.spec("CAT-1", "CALL-2")
@pytest.mark.parametrize(("arguments", "place"), WRONG_ARGUMENTS)
async def test_document_d_catalog_wrong_arguments_are_refused_with_their_place(
    era: Era, arguments: dict[str, Any], place: str
) -> None:
    async with connected(build_server(shop()), era) as client:
        failed, text = await client.call("catalog", arguments)
        assert failed
        assert place in text


STOCKED: list[tuple[str, str, str, str | None, bool]] = [
    ("tools", "catalog", "Look it up", None, True),
    ("tools", "plain", "", None, False),
    ("tools", "search", "Find an ITEM", "Goods", False),
    ("tools", "wipe", "", "Admin", True),
    ("prompts", "insult", "", None, True),
    ("prompts", "review", "Review an item", None, False),
    ("resources", "all", "shop://items", None, False),
    ("resources", "books", "shop://ledger", None, True),
    ("resource_templates", "one", "shop://items/{id}", None, False),
]
"""What a client may find in the shop: section, name, further text, category, whether it is hidden."""


def expected_of(asked: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what document D's table makes of these arguments."""
    kind = asked.get("type", "all")
    query, category = asked.get("query", "").lower(), asked.get("category")
    return {
        section: [
            name
            for where, name, text, own, hidden in STOCKED
            if where == section
            and (query in name or query in text.lower())
            and (category is None or section != "tools" or (own or "").lower() == category.lower())
            and (asked.get("include_hidden", True) or not hidden)
        ]
        for section in SECTIONS
        if kind in (section, "all")
    }


@pytest.mark.spec("CAT-1", "CAT-2")
@pytest.mark.parametrize("way", WAYS)
async def test_document_d_catalog_all_arguments_can_be_combined(way: str) -> None:
    values: dict[str, tuple[Any, ...]] = {
        "type": (None, *SECTIONS, "all"),
        "query": (None, "", "IT", "wi", "shop://", "zzz"),
        "category": (None, "goods", "ADMIN", "good"),
        "include_hidden": (None, True, False),
    }
    async with WAYS[way](shop(description="Look it up")) as client:
        for chosen in product(*values.values()):
            asked = {name: value for name, value in zip(values, chosen, strict=True) if value is not None}
            assert names(await ask(client, asked)) == expected_of(asked), asked


@pytest.mark.spec("CAT-1")
async def test_document_d_catalog_entries_extend_those_of_the_lists(era: Era) -> None:
    """Document D, the result of the catalog tool: the wire definition plus `hidden`, and a tool's `category`."""
    async with connected(build_server(shop()), era) as caller:
        client, sections = caller.client, await ask(caller, {"include_hidden": False})
        lists: dict[str, list[Any]] = {
            "tools": [one for one in (await client.list_tools()).tools if one.name != "call_tool"],
            "prompts": (await client.list_prompts()).prompts,
            "resources": (await client.list_resources()).resources,
            "resource_templates": (await client.list_resource_templates()).resource_templates,
        }
        for section, shown in lists.items():
            wire = [one.model_dump(by_alias=True, exclude_none=True, mode="json") for one in shown]
            assert sections[section] == [{**one, "hidden": False, **one.get("_meta", {})} for one in wire]
