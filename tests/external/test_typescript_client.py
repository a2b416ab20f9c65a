"""The clients of the TypeScript SDK, its first and its second major version, before `toolfold serve`."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_types import INVALID_PARAMS

from tests.external.support import DESK, names_in, served, typescript
from toolfold_adapters.names import CHANGE_META

pytestmark = pytest.mark.usefixtures("node_packages")

LIST = ["listTools"]


def call(name: str, /, **arguments: Any) -> list[Any]:
    return ["callTool", {"name": name, "arguments": arguments}]


def progress_in(step: Any) -> list[tuple[float, float, str]]:
    return [(update["progress"], update["total"], update["message"]) for update in step["progress"]]


@pytest.mark.spec("DEL-1", "DEL-9", "DEL-10", "NTF-1", "NTF-4", "CALL-1")
@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("package", ["sdk", "client"])
async def test_a_legacy_client_is_notified_once_of_each_change_and_can_use_open_groups(
    package: str, transport: str
) -> None:
    query = call("database.query", sql="select 1")
    async with served(transport, *DESK) as server:
        said = await typescript(
            package,
            "legacy",
            server,
            LIST,
            query,
            call("database.activate"),
            LIST,
            call("database.activate"),
            query,
            call("database.deactivate"),
            LIST,
            query,
        )
    closed, refused, opening, opened, again, used, closing, after, late = said["steps"]
    assert said["capabilities"]["tools"] == {"listChanged": True}
    assert refused["error"]["code"] == late["error"]["code"] == INVALID_PARAMS
    assert "Unknown tool: database.query" in refused["error"]["message"]
    assert not any(step["result"].get("isError") for step in (opening, again, closing))
    assert names_in(opened["result"]) - names_in(closed["result"]) == {"database.query"}
    assert used["result"]["structuredContent"] == {"ran": "select 1"}
    # This client forgets a call's progress handler as soon as it reads the answer, and so loses what came just before.
    assert progress_in(used) in ([], [(1, 2, "half")])
    assert after["result"] == closed["result"]
    assert [step["received"] for step in said["steps"]] == [0, 0, 1, 1, 1, 1, 2, 2, 2]
    assert said["received"] == 2


@pytest.mark.spec("DEL-2", "DEL-3", "DEL-7", "DEL-9", "DEL-10", "DEL-12")
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_modern_client_always_gets_the_same_list_and_calls_by_handle(transport: str) -> None:
    async with served(transport, *DESK) as server:
        said = await typescript(
            "client",
            "2026-07-28",
            server,
            ["listen", {"toolsListChanged": True}],
            LIST,
            call("database.activate"),
            LIST,
            call("call_tool", handle="last", name="database.query", arguments={"sql": "select 1"}),
            LIST,
            call("ping"),
            call("database.query", sql="select 1"),
        )
    listening, first, opened, second, used, third, ping, direct = said["steps"]
    assert "error" not in listening
    assert first["result"]["tools"] == second["result"]["tools"] == third["result"]["tools"]
    assert opened["result"]["_meta"][CHANGE_META]["tools"] == ["database.query"]
    assert "structuredContent" not in opened["result"]
    assert used["result"]["structuredContent"] == {"ran": "select 1"}
    assert ping["result"]["content"] == [{"type": "text", "text": "pong"}]
    if transport == "stdio":  # where the process has one client, which needs no handle (SPEC DEL-12)
        assert direct["result"]["structuredContent"] == {"ran": "select 1"}
    else:
        assert direct["error"]["code"] == INVALID_PARAMS
    assert said["received"] == 0
