"""`toolfold approve`, after `toolfold serve`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp import Client
from mcp_types import ToolListChangedNotification

from tests.cli.support import RAW, SECONDS, run, server

SERVER = """
import runpy, sys
sys.argv = [{raw!r}, open({state!r}).read()]
runpy.run_path({raw!r}, run_name="__main__")
"""


async def names(folder: Path) -> set[str]:
    with anyio.fail_after(SECONDS):
        async with Client(server("serve", "gateway.toml", cwd=folder), mode="legacy") as client:
            await client.call_tool("find_tools", {"query": "one"})  # this waits for the server
            return {tool.name for tool in (await client.list_tools()).tools}


def served_from(folder: Path, state: Path) -> None:
    """Configure a server that behaves as a file says when it is started."""
    script = folder / "server.py"
    script.write_text(SERVER.format(raw=RAW[1], state=str(state)))
    command = json.dumps([RAW[0], str(script)])
    (folder / "gateway.toml").write_text(f'on_change = "quarantine"\n[upstream]\ncommand = {command}\n')


@pytest.mark.spec("GWY-11")
async def test_approve_shows_what_changed_since_a_server_was_first_served_and_approves_it(tmp_path: Path) -> None:
    state = tmp_path / "state"
    served_from(tmp_path, state)
    state.write_text("plain")
    assert {"answer", "one", "two"} <= await names(tmp_path)
    state.write_text("full")
    shown = run("approve", "gateway.toml", "--dry-run", cwd=tmp_path)
    said, *lines = shown.stdout.splitlines()
    assert (shown.returncode, said) == (0, "upstream: 1 change since it was approved: tool 'full'.")
    assert any(line.startswith('    +  "name": "full"') for line in lines)
    inspected = run("inspect", "gateway.toml", cwd=tmp_path)
    assert "The tool 'full' has not been approved as it is now, and is withheld" in inspected.stderr
    approved = run("approve", "gateway.toml", cwd=tmp_path)
    assert approved.returncode == 0
    assert approved.stdout.startswith("upstream: 1 change since it was approved: tool 'full'. All is approved.\n")
    assert (
        run("approve", "gateway.toml", cwd=tmp_path).stdout
        == "upstream: 0 changes since it was approved. All is approved.\n"
    )


@pytest.mark.spec("GWY-11")
async def test_a_gateway_that_runs_serves_what_is_approved(tmp_path: Path) -> None:
    state = tmp_path / "state"
    served_from(tmp_path, state)
    state.write_text("plain")
    await names(tmp_path)
    state.write_text("full")
    changed = anyio.Event()

    async def observe(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            changed.set()

    with anyio.fail_after(SECONDS):
        async with Client(
            server("serve", "gateway.toml", cwd=tmp_path), mode="legacy", message_handler=observe
        ) as client:
            await client.call_tool("one")
            await changed.wait()
            assert not {"one", "full"} & {tool.name for tool in (await client.list_tools()).tools}
            changed = anyio.Event()
            await anyio.to_thread.run_sync(lambda: run("approve", "gateway.toml", cwd=tmp_path))
            await changed.wait()
            assert [tool.name for tool in (await client.list_tools()).tools] == ["full"]


@pytest.mark.spec("GWY-11")
def test_tools_that_are_no_other_servers_need_no_approval(tmp_path: Path) -> None:
    refused = run("approve", "shop:tools", cwd=tmp_path)
    assert refused.returncode == 2
    assert "shop:tools has tools of its own; there is nothing to approve." in refused.stderr


def replaced_by_a_file(above: Path, name: str) -> Path:
    (folder,) = above.rglob(name)
    folder.rename(above / "before")
    folder.touch()
    return folder


@pytest.mark.spec("GWY-11")
async def test_what_can_not_be_stored_is_not_served_and_approve_says_so(tmp_path: Path) -> None:
    state = tmp_path / "state"
    served_from(tmp_path, state)
    state.write_text("plain")
    await names(tmp_path)
    folder = replaced_by_a_file(tmp_path, "approved")
    assert not {"one", "two"} & await names(tmp_path)
    failed = run("approve", "gateway.toml", cwd=tmp_path)
    assert failed.returncode == 1
    assert f"upstream: what is approved can't be stored in {folder}:" in " ".join(failed.stderr.split())
    status = run("status", "gateway.toml", cwd=tmp_path)
    assert (status.returncode, "what is approved can't be stored (" in " ".join(status.stdout.split())) == (1, True)
