"""The automation hub with the servers that its hooks start."""

from __future__ import annotations

import anyio
import pytest

from tests.adapters.mcp.support import PATIENCE
from tests.examples.callers import CHANGED, Answer, Connect
from tests.examples.hub import AT_FIRST, FILE_TOOLS, Hub, done, open_groups, opened, refused
from tests.examples.test_automation_hub import answers


@pytest.mark.spec("CTL-1", "LST-1", "NAM-2", "KIT-7")
async def test_menu_based_discovery_lists_only_the_tools_that_open_categories(hub: Hub, connect: Connect) -> None:
    """Document A, menu-based discovery, the names that its automation hub derives, and test_list_tools_ordering."""
    async with connect(hub.tools) as client:
        assert await client.names() == AT_FIRST
        await opened(client, "network", "file_ops", "database", "database.read", "database.write")
        assert await client.names() == sorted(
            [
                *AT_FIRST,
                *FILE_TOOLS,
                "database.read.query",
                "database.write.insert",
                "database.write.roll_back",
                "export_records",
                "network.address",
                "network.fetch_url",
            ]
        )


@pytest.mark.spec("HOOK-1", "HOOK-2")
async def test_activation_hooks(hub: Hub, connect: Connect) -> None:
    """Document A, test_activation_hooks: opening the group starts a server, closing it stops it."""
    (hub.files / "page.txt").write_text("a page")
    async with connect(hub.tools) as client:
        await opened(client, "network")
        url = (await done(client, "network.address")).text
        assert await answers(url)
        assert (await done(client, "network.fetch_url", url=f"{url}page.txt")).text == "a page"
        await done(client, "network.deactivate")
        assert not await answers(url)


@pytest.mark.spec("HOOK-9", "SES-3")
async def test_resources_of_hooks_are_closed_when_the_client_is_gone(hub: Hub, connect: Connect) -> None:
    async with connect(hub.tools) as client:
        await opened(client, "network", "database", "database.write")
        url = (await done(client, "network.address")).text
        await done(client, "database.write.insert", name="colour", value="blue")
    with anyio.fail_after(PATIENCE):
        while hub.tools.sessions:  # a server ends its sessions when it has noticed
            await anyio.lowlevel.checkpoint()
    assert not await answers(url)
    async with connect(hub.tools) as client:
        await opened(client, "database", "database.read", "database.write")
        assert (await done(client, "database.read.query")).structured == {"colour": "blue"}


@pytest.mark.spec("SES-2", "ACT-3", "NTF-1", "HOOK-1")
async def test_concurrent_activation(hub: Hub, connect: Connect) -> None:
    """Document A, test_concurrent_activation: ten at once, of which two change something."""
    async with connect(hub.tools) as client:
        await opened(client, "plugins")  # a client without a session has a handle to work under from here
        client.notified.clear()
        answers: list[Answer] = []

        async def activate(path: str) -> None:
            answers.append(await done(client, f"{path}.activate"))

        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(activate, "network" if number % 2 else "file_ops")
        changed = sorted(one.structured["group"] for one in answers if one.structured["changed"])
        assert changed == ["file_ops", "network"]
        assert await open_groups(client) == ["file_ops", "network", "plugins"]
        has_session = getattr(client, "handle", None) is None
        assert client.notified == [CHANGED] * (2 if has_session else 0)


@pytest.mark.spec("SES-1", "SES-2", "HOOK-1")
async def test_concurrent_clients_never_see_or_affect_each_other(hub: Hub, connect: Connect) -> None:
    async with connect(hub.tools) as one, connect(hub.tools) as other:
        await opened(one, "network", "database", "database.read", "database.write")
        await done(one, "database.write.insert", name="colour", value="blue")
        assert (await done(one, "database.read.query")).structured == {"colour": "blue"}
        assert await open_groups(other) == []
        assert await other.names() == AT_FIRST
        assert other.notified == []

        await opened(other, "network", "database", "database.read")
        assert (await done(other, "database.read.query")).structured == {}  # not saved, so not seen
        await opened(other, "database.maintenance")
        assert "Another client is writing" in await refused(other, "database.maintenance.compact")
        url = (await done(other, "network.address")).text
        await done(other, "network.deactivate")
        assert await answers(url)  # the first client still has it open

        await done(one, "database.write.roll_back")
        assert (await done(one, "database.read.query")).structured == {}
        await done(one, "database.write.insert", name="colour", value="red")
        assert "There is a record 'colour' already." in await refused(
            one, "database.write.insert", name="colour", value="green"
        )
        await done(one, "database.write.deactivate")
        assert (await done(other, "database.read.query")).structured == {"colour": "red"}
