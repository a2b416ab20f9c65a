"""Document B's gate, by its example server: what opens it, for whom, how long, and the notifications (SES-6).

Driven in three ways: a session in this process, and real MCP clients of both eras.
"""

import json

import pytest
from mcp.shared.exceptions import MCPError

from examples.browser_telemetry import OBSERVE, page_tools
from examples.browser_telemetry.events import visit
from examples.browser_telemetry.telemetry import Telemetry
from tests.examples.callers import CHANGED, UNKNOWN, WAYS, Connect, OverMcp, in_process
from tests.examples.telemetry import ACTION, BODY, CONNECTION, ENTRY, ERROR, FRAME, SNAPSHOT, counts, observe

# The gate


@pytest.mark.spec("SES-6", "MOD-5", "CALL-1")
async def test_before_the_gate_opens_its_tools_do_not_exist(page: Telemetry, connect: Connect) -> None:
    """Document B, progressive disclosure and edge cases: listing is no observation, and neither is a failed call."""
    page.record(ACTION)
    async with connect(page_tools(page)) as client:
        for _ in range(3):  # listing is no observation
            assert await client.names() == ["observe", "query_dom"]
        assert await client.call("generate", {"format": "reproduction"}) == (True, UNKNOWN)
        assert not (await client.call("query_dom", {"path": ".//button"}))[0]
        assert (await client.call("observe", {"what": "vitals"}))[0]
        assert (await client.call("observe", {}))[0]
        assert await client.names() == ["observe", "query_dom"]


@pytest.mark.spec("SES-6", "MOD-5")
@pytest.mark.parametrize("mode", OBSERVE.modes)
async def test_document_b_gate_a_successful_observation_of_any_mode_opens_it(
    page: Telemetry, connect: Connect, mode: str
) -> None:
    page.record(ENTRY, ERROR, BODY, FRAME, CONNECTION, ACTION, SNAPSHOT)
    async with connect(page_tools(page)) as client:
        assert await client.names() == ["observe", "query_dom"]
        await observe(client, mode)
        assert await client.names() == ["analyze", "configure", "generate", "observe", "query_dom"]


@pytest.mark.spec("SES-6", "DEL-8")
@pytest.mark.parametrize("way", ["legacy", "modern"])
async def test_document_b_gate_an_observation_by_call_tool_opens_it_too(page: Telemetry, way: str) -> None:
    async with WAYS[way](page_tools(page)) as client:
        assert (await client.call("call_tool", {"name": "observe", "arguments": {"what": "vitals"}}))[0]
        assert await client.names() == ["observe", "query_dom"]
        assert not (await client.call("call_tool", {"name": "observe", "arguments": {"what": "logs"}}))[0]
        assert "generate" in await client.names()


@pytest.mark.spec("SES-6", "SES-1")
async def test_the_gate_stays_open_for_its_owner_and_is_shut_for_everybody_else(
    page: Telemetry, connect: Connect
) -> None:
    """Document B, progressive disclosure, for several clients of one server."""
    tools = page_tools(page)
    async with connect(tools) as client, connect(tools) as other:
        await observe(client)
        for event in (BODY, ACTION):  # messages come and go
            page.record(event)
            await observe(client)
            assert not (await client.call("configure", {"action": "clear"}))[0]
            assert "generate" in await client.names()
        assert await other.names() == ["observe", "query_dom"]
    async with connect(tools) as later:
        assert await later.names() == ["observe", "query_dom"]


@pytest.mark.spec("SES-6", "PER-4")
async def test_the_gate_is_shut_after_a_restart(page: Telemetry, connect: Connect) -> None:
    """Document B, progressive disclosure: the flag resets when the server restarts."""
    async with connect(page_tools(page)) as client:
        await observe(client)
        handle = getattr(client, "handle", None)
    async with connect(page_tools(page)) as client:
        assert await client.names() == ["observe", "query_dom"]
        if handle is not None:  # one of the modern era still has its handle, which is worth nothing now
            assert isinstance(client, OverMcp)
            client.handle = handle
            with pytest.raises(MCPError, match="handle"):
                await client.names()


@pytest.mark.spec("SES-6", "PER-4", "PER-1")
async def test_document_b_gate_is_not_in_a_snapshot_and_shut_in_what_is_restored_from_one(page: Telemetry) -> None:
    """Document B, progressive disclosure: the flag is not persisted; what else is in a snapshot comes back."""
    async with in_process(page_tools(page)) as client:
        await observe(client)
        client.session.set_fact("user", "ada")
        assert "generate" in await client.names()
        data = json.loads(json.dumps(client.session.dump()))
    assert data["active"] == []
    async with page_tools(page).restore_session(data) as session:
        assert session.facts == {"user": "ada"}
        assert session.list_tools().names == ("observe", "query_dom")
        assert not (await session.call("observe", {"what": "logs"})).is_error
        assert "generate" in session.list_tools().names


@pytest.mark.spec("SES-6")
async def test_the_gate_opens_only_by_an_observation_and_never_closes(page: Telemetry) -> None:
    """Document B, progressive disclosure: by nothing but an observation."""
    tools = page_tools(page)
    (gate,) = tools.catalog.groups
    assert (gate.controls, gate.transient, gate.opens_on) == (False, True, "observe")
    assert [spec.name for spec in tools.catalog.tools.values() if spec.control] == []


# Notifications


@pytest.mark.spec("NTF-1", "NTF-3", "DEL-1")
@pytest.mark.parametrize("way", ["in process", "legacy"])
async def test_a_client_is_notified_when_the_gate_opens_and_when_a_buffer_gets_its_first_entry(
    page: Telemetry, way: str
) -> None:
    tools = page_tools(page, visit(seed=7))
    async with WAYS[way](tools) as client:
        await observe(client)
        assert client.notified == [CHANGED]
        await observe(client)
        assert client.notified == [CHANGED]
        await client.call("configure", {"action": "visit", "amount": 200})
        assert client.notified == [CHANGED] * 2
        await client.call("configure", {"action": "visit", "amount": 10})
        assert client.notified == [CHANGED] * 2
        await client.call("configure", {"action": "clear"})
        assert client.notified == [CHANGED] * 3


@pytest.mark.spec("NTF-1", "MOD-2")
@pytest.mark.parametrize("way", ["in process", "legacy"])
async def test_a_client_is_not_notified_when_only_counts_change(page: Telemetry, way: str) -> None:
    async with WAYS[way](page_tools(page)) as client:
        await observe(client)
        page.record(ACTION)
        await observe(client)
        assert client.notified == [CHANGED] * 2
        page.record(ERROR, ACTION)
        await observe(client)
        assert (await counts(client))["observe"] == {"errors": 1, "logs": 1, "actions": 2}
        assert client.notified == [CHANGED] * 2
