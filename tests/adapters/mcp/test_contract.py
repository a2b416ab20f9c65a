"""What the experiment on deterministic groups asks of a server, as tests of ours (SPEC DEL-5).

`tests/external/test_contract.py` runs the working group's own checks on the same adapter.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from hashlib import sha256
from typing import Any

import pytest
from mcp_types import INVALID_PARAMS

from tests.adapters.mcp.contract import EXPERIMENT, Adapter, Json, adapter_of

pytestmark = pytest.mark.spec("DEL-5")


def tool(name: str, *groups: str, runs: bool = True, **schema: Any) -> Json:
    return {
        "name": name,
        "description": f"Do {name}.",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False, **schema},
        "annotations": {"readOnlyHint": True},
        "_meta": {EXPERIMENT: {"groups": list(groups), "callable": runs}},
    }


def garage(*tools: Json, garden: str = "Outside") -> Json:
    return {"groups": {"house": "Inside", "garden": garden}, "tools": list(tools)}


CLEAN, DIG, LAMP = tool("clean", "house"), tool("dig", "garden"), tool("lamp", "house", "garden")
FIXTURE = garage(CLEAN, DIG, LAMP)
ALL = ("clean", "dig", "lamp")


def opened(allowed: Sequence[str] = ALL, **options: Any) -> AbstractAsyncContextManager[Adapter]:
    return adapter_of(FIXTURE, allowed, options)


async def answer(adapter: Adapter, method: str, **params: Any) -> Json:
    response = await adapter.request({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
    assert (response["jsonrpc"], response["id"]) == ("2.0", 7)
    return dict(response["result"])


async def refused(adapter: Adapter, method: str, **params: Any) -> Json:
    """Return what a refusal says as data."""
    error = (await adapter.request({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}))["error"]
    assert error["code"] == INVALID_PARAMS
    return dict(error["data"])


async def revision(adapter: Adapter) -> str:
    return str((await answer(adapter, "experimental/groups/list"))["revision"])


async def members(adapter: Adapter, group: str) -> list[Json]:
    at = await revision(adapter)
    expanded = await answer(adapter, "experimental/groups/expand", id=group, revision=at)
    assert expanded["revision"] == at
    return list(expanded["entries"])


def assert_describes(entry: Json, definition: Json) -> None:
    """See that an entry is of a definition, by bytes that were not made by the library under test."""
    text = json.dumps(definition, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert (entry["size"], entry["digest"]) == (len(text), f"sha256:{sha256(text).hexdigest()}")
    assert entry.keys() == {"name", "size", "digest", "annotations"}


async def test_list_manifest_and_descriptions_are_of_the_same_tools() -> None:
    async with opened() as adapter:
        listed = {one["name"]: one for one in (await answer(adapter, "tools/list"))["tools"]}
        entries = (await answer(adapter, "tools/manifest"))["entries"]
        described = (await answer(adapter, "tools/describe", names=[one["name"] for one in entries]))["tools"]
        assert [one["name"] for one in entries] == sorted(ALL) == sorted(listed)
        for entry, definition in zip(entries, described, strict=True):
            assert (
                definition == listed[entry["name"]] == next(t for t in FIXTURE["tools"] if t["name"] == entry["name"])
            )
            assert_describes(entry, definition)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], {"reason": "empty"}),
        ("clean", {"reason": "names"}),
        (["clean", "none", "dig", "nor"], {"unknownNames": ["none", "nor"]}),
        (["clean"] * 51, {"maxNames": 50}),
    ],
)
async def test_descriptions_are_whole_or_refused(names: Any, said: Json) -> None:
    async with opened() as adapter:
        assert await refused(adapter, "tools/describe", names=names) == said
        assert len((await answer(adapter, "tools/describe", names=["clean"] * 50))["tools"]) == 50


async def test_what_is_hidden_is_as_what_is_absent() -> None:
    async with opened(["clean"]) as adapter:
        directory = await answer(adapter, "experimental/groups/list")
        assert directory["groups"] == [{"id": "house", "description": "Inside", "count": 1}]
        for method, key in (("tools/list", "tools"), ("tools/manifest", "entries")):
            assert [one["name"] for one in (await answer(adapter, method))[key]] == ["clean"]
        for name in ("dig", "none"):
            assert await refused(adapter, "tools/describe", names=[name]) == {"unknownNames": [name]}
        requests = [
            {"jsonrpc": "2.0", "id": 1, "method": "experimental/groups/expand", "params": {"id": group, "revision": at}}
            for group in ("garden", "none")
            for at in (directory["revision"], "old")
        ]
        first, *others = [await adapter.request(request) for request in requests]
        assert all(other == first for other in others)


@pytest.mark.parametrize(
    ("next_fixture", "allowed", "after"),
    [
        (garage(tool("clean", "garden"), DIG, LAMP), ALL, ["lamp"]),
        (garage(tool("clean", "house", title="Updated"), DIG, LAMP), ALL, ["clean", "lamp"]),
        (garage(CLEAN, DIG, LAMP, garden="Out there"), ALL, ["clean", "lamp"]),
        (garage(tool("clean", "house", runs=False), DIG, LAMP), ALL, ["clean", "lamp"]),
        (FIXTURE, ("dig", "lamp"), ["lamp"]),
    ],
    ids=["membership", "schema", "text", "availability", "authorization"],
)
async def test_a_revision_is_stale_after_any_change_of_what_the_caller_may_see(
    next_fixture: Json, allowed: Sequence[str], after: list[str]
) -> None:
    async with opened() as adapter:
        before = await revision(adapter)
        assert await revision(adapter) == before
        await adapter.replace_fixture(next_fixture)
        await adapter.set_allowed(allowed)
        expand = partial(refused, adapter, "experimental/groups/expand")
        assert await expand(id="house", revision=before) == {"reason": "staleView"}
        assert [one["name"] for one in await members(adapter, "house")] == after
        await adapter.replace_fixture(FIXTURE)
        await adapter.set_allowed(ALL)
        assert await revision(adapter) == before
