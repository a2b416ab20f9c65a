"""Document A's example server: the document's test listings and flows, as clients of both eras see them.

Each is driven in three ways: a session in this process, and real MCP clients of both eras.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest

from tests.adapters.mcp.support import build_server, schemas_in
from tests.examples.callers import CHANGED, UNKNOWN, WAYS, Connect, connected
from tests.examples.hub import AT_FIRST, FILE_TOOLS, GROUPS, Hub, done, open_groups, opened, refused

NOTIFIED = ["in process", "legacy"]
"""The clients that are notified of a changed list; in the modern era lists do not change through calls."""


# Discovery


@pytest.mark.spec("CTL-1", "VIS-2", "CALL-1", "KIT-7")
async def test_progressive_activation(hub: Hub, connect: Connect) -> None:
    """Document A, test_progressive_activation."""
    async with connect(hub.tools) as client:
        names = await client.names()
        assert "file_ops.activate" in names
        assert "file_ops.read_file" not in names
        assert await client.call("file_ops.read_file", {"path": "a"}) == (True, UNKNOWN)
        await done(client, "file_ops.activate")
        assert "file_ops.read_file" in await client.names()
        await done(client, "file_ops.write_file", path="a", text="b")
        assert (await done(client, "file_ops.read_file", path="a")).text == "b"


@pytest.mark.spec("CTL-1", "CTL-4", "NTF-1", "DEL-1")
@pytest.mark.parametrize("way", NOTIFIED)
async def test_the_activation_flow_where_clients_have_sessions(hub: Hub, way: str) -> None:
    """Document A, activation flow, steps 1 to 5, and test_tool_list_changed_notification."""
    async with WAYS[way](hub.tools) as client:
        first = await client.names()  # 1
        answer = await done(client, "file_ops.activate")  # 2
        assert client.notified == [CHANGED]  # 3
        assert answer.structured["active"] == ["file_ops"]
        assert answer.structured["tools"] == FILE_TOOLS
        second = await client.names()  # 4
        assert sorted(set(second) - set(first)) == FILE_TOOLS
        await done(client, "file_ops.list_files")  # 5
        await done(client, "file_ops.activate")
        await opened(client, "database")  # it has no tools of its own
        assert client.notified == [CHANGED]
        await done(client, "file_ops.deactivate")
        assert client.notified == [CHANGED] * 2


@pytest.mark.spec("DEL-2", "DEL-7", "DEL-11")
async def test_the_activation_flow_where_clients_have_none(hub: Hub) -> None:
    """Document A, activation flow, steps 1 to 5: step 3 gives a handle, since no call may change the list."""
    server = build_server(hub.tools)
    async with connected(server, "auto") as client, connected(server, "auto") as other:
        first = await client.listed()  # 1
        answer = await done(client, "file_ops.activate")  # 2 and 3
        assert client.handle == answer.structured["handle"]
        assert json.dumps(await other.listed()) == json.dumps(first)
        assert client.notified == []
        second = await client.listed()  # 4
        assert answer.structured["tools"] == FILE_TOOLS
        assert list(schemas_in(answer.text).values()) == [second[name]["inputSchema"] for name in FILE_TOOLS]
        await done(client, "file_ops.list_files")  # 5
        through = {"name": "file_ops.list_files", "handle": answer.structured["handle"]}
        assert (await done(other, "call_tool", **through)).text == "[]"


# Groups


@pytest.mark.spec("CTL-1", "ACT-5", "VIS-5", "CALL-1")
async def test_deactivation(hub: Hub, connect: Connect) -> None:
    """Document A, test_deactivation."""
    async with connect(hub.tools) as client:
        await done(client, "file_ops.activate")
        assert await open_groups(client) == ["file_ops"]
        await done(client, "file_ops.deactivate")
        assert await open_groups(client) == []
        assert await client.names() == AT_FIRST
        assert await client.call("file_ops.list_files", {}) == (True, UNKNOWN)


@pytest.mark.spec("ACT-4", "ACT-7", "CTL-4", "HOOK-1")
async def test_mutual_exclusion_is_visible_in_the_answer_and_in_the_groups(hub: Hub, connect: Connect) -> None:
    """Document A, test_mutual_exclusion; error handling, exclusion conflict: observable via list_groups."""
    async with connect(hub.tools) as client:
        await opened(client, "database", "database.read", "database.write")
        await done(client, "database.write.insert", name="colour", value="blue")
        answer = await opened(client, "database.maintenance")
        assert answer.structured["displaced"] == ["database.write"]
        assert "Closed to make room: database.write." in answer.text
        assert await open_groups(client) == ["database", "database.maintenance", "database.read"]
        assert await client.call("database.write.insert", {"name": "a", "value": "b"}) == (True, UNKNOWN)
        assert (await done(client, "database.maintenance.compact")).text == "The database is ok, and compact."
        assert (await done(client, "database.read.query")).structured == {"colour": "blue"}  # its hook has saved it
        await opened(client, "database.write")
        assert await open_groups(client) == ["database", "database.read", "database.write"]


@pytest.mark.spec("ACT-2", "ACT-5", "ACT-8", "CTL-5", "HOOK-3")
async def test_hierarchical_groups(hub: Hub, connect: Connect) -> None:
    """Document A, test_hierarchical_groups; error handling, parent inactive: says which to activate first."""
    async with connect(hub.tools) as client:
        received = await refused(client, "database.write.activate")
        assert received == "Group 'database.write' can't be opened yet: call database.activate first."
        assert await open_groups(client) == []
        await opened(client, "database", "database.write")
        assert await open_groups(client) == ["database", "database.write"]
        await done(client, "database.write.insert", name="colour", value="blue")
        answer = await done(client, "database.deactivate")
        assert "Closed with it: database.write." in answer.text
        assert await open_groups(client) == []
        await opened(client, "database")
        assert await open_groups(client) == ["database"]
        await opened(client, "database.read")
        assert (await done(client, "database.read.query", pattern="col%")).structured == {"colour": "blue"}


@pytest.mark.spec("VIS-2", "VIS-3", "VIS-7")
async def test_when_visibility(hub: Hub, connect: Connect) -> None:
    """Document A, test_when_visibility, with a predicate that asks which groups are active."""
    async with connect(hub.tools) as client:
        for path in ("file_ops", "database"):
            await opened(client, path)
            assert "export_records" not in await client.names()
            assert await client.call("export_records", {"path": "a"}) == (True, UNKNOWN)
        await opened(client, "database.read")
        assert "export_records" in await client.names()
        await done(client, "export_records", path="out/records.txt")
        assert json.loads((await done(client, "file_ops.list_files")).text) == ["out/records.txt"]
        await done(client, "file_ops.deactivate")
        assert "export_records" not in await client.names()


@pytest.mark.spec("CTL-1", "CALL-1", "ACT-5")
async def test_hidden_deactivator(hub: Hub, connect: Connect) -> None:
    """Document A, test_hidden_deactivator: the tool does not exist, though the group can be closed otherwise."""
    async with connect(hub.tools) as client:
        names = await client.names()
        assert "database.maintenance.activate" in names
        assert "database.maintenance.deactivate" not in names
        await opened(client, "database", "database.maintenance")
        assert await client.call("database.maintenance.deactivate", {}) == (True, UNKNOWN)
        assert await open_groups(client) == ["database", "database.maintenance"]
        await done(client, "database.deactivate")
        assert await open_groups(client) == []


@pytest.mark.spec("LST-4", "VIS-1", "KIT-7")
async def test_list_groups_and_root_is_not_one(hub: Hub, connect: Connect) -> None:
    """Document A, test_list_groups and test_root_not_listed, by the hub's own `list_capabilities`."""
    async with connect(hub.tools) as client:
        await opened(client, "file_ops")
        received: list[Mapping[str, Any]] = (await done(client, "list_capabilities")).structured["groups"]
        assert [one["name"] for one in received] == list(GROUPS)
        groups = {one["name"]: (one["description"], one["active"], one["tools"]) for one in received}
        assert groups["file_ops"] == ("Read and write the files of the workspace", True, 4)
        assert groups["network"] == ("Look at the files as web pages", False, 2)


# Hooks


async def answers(url: str) -> bool:
    """Return whether a server listens at a URL."""
    try:
        stream = await anyio.connect_tcp(urlsplit(url).hostname or "", urlsplit(url).port or 0)
    except OSError:
        return False
    await stream.aclose()
    return True


@pytest.mark.spec("HOOK-4", "CTL-5", "NTF-1", "SES-1")
async def test_a_hook_failure_is_reported_and_leaves_the_groups_unchanged(hub: Hub, connect: Connect) -> None:
    """Document A, error handling, hook failures: a second writer finds the lock taken."""
    async with connect(hub.tools) as client, connect(hub.tools) as writer:
        await opened(writer, "database", "database.write")
        await opened(client, "database", "database.maintenance")
        client.notified.clear()
        received = await refused(client, "database.write.activate")
        assert "Nothing was changed: opening group database.write failed." in received
        assert "Another client is writing; it has to close database.write first." in received
        assert await open_groups(client) == ["database", "database.maintenance"]
        assert client.notified == []
        assert "database.write.insert" not in await client.names()
        await done(writer, "database.write.deactivate")
        await opened(client, "database.write")
        assert await open_groups(client) == ["database", "database.write"]


@pytest.mark.spec("ACT-1", "CTL-5", "CALL-1", "GRP-3")
async def test_an_unknown_group_is_never_created(hub: Hub, connect: Connect, tmp_path: Path) -> None:
    """Document A, error handling, unknown group: an unknown tool here, a refusal in words by a loader."""
    async with connect(hub.tools) as client:
        assert await client.call("file_op.activate", {}) == (True, UNKNOWN)
        assert await open_groups(client) == []
    async with connect(Hub.at(tmp_path / "other", control="expand_tools").tools) as client:
        received = await refused(client, "expand_tools", group="file_op")
        assert "There is no group 'file_op'. Did you mean 'file_ops'?" in received
        assert "already" not in received
        assert await open_groups(client) == []
        await done(client, "expand_tools", group="file_ops")
        assert await open_groups(client) == ["file_ops"]


# Concurrency
