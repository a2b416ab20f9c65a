"""What a runtime says of the servers behind it, and how the status prints it (SPEC GWY-14)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.gateway.inprocess import Clock, House
from toolfold_adapters.gateway import GatewayConfig, Runtime, UpstreamConfig, open_gateway
from toolfold_adapters.gateway.upstream.upstream import Upstream
from toolfold_adapters.runtime import servers
from toolfold_adapters.runtime.servers import called, described
from toolfold_adapters.transport import processes
from toolfold_adapters.transport.processes import memory_of
from toolfold_cli import status

pytestmark = pytest.mark.spec("GWY-14")


def given(name: str, config: dict[str, Any], processes: tuple[int, ...], *, one_user: bool = True) -> Upstream:
    """Return a server whose processes have some numbers."""
    gateway = open_gateway(GatewayConfig(upstreams={name: UpstreamConfig(**config)}), wait=False)
    runtime = Runtime(clock=Clock(), transport=House().transport, one_user=one_user)
    entry = gateway.config.entry(name)

    class Numbered(Upstream):
        @property
        def processes(self) -> tuple[int, ...]:
            return processes

    async def changed(_: Upstream) -> None:
        return

    return Numbered(entry, runtime, None, changed, lambda: False)  # type: ignore[arg-type]


def test_what_is_said_of_servers_is_who_shares_them_why_and_what_it_saves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "memory_of", lambda leaders: {one: one * 1_000_000 for one in leaders})
    said = described(
        {
            given("time", {"command": ["uvx", "mcp-server-time"]}, (30,)): ["review", "shop", "shop"],
            given("browser", {"command": ["browser"]}, (40, 60)): ["review", "shop", "shop"],
            given("idle", {"command": ["idle"]}, ()): ["review"],
            given("web", {"url": "https://example.com/mcp"}, ()): ["review", "shop"],
        }
    )
    assert [(one["name"], one["processes"], one["memory"], one["shared"]) for one in said["servers"]] == [
        ("time", 1, 30_000_000, True),
        ("browser", 2, 100_000_000, False),
        ("idle", 0, 0, False),
        ("web", 0, 0, True),
    ]
    assert said["servers"][0]["of"] == ["review", "shop"]
    assert said["saved"] == {"processes": 2 + 1 + 1, "memory": 2 * 30_000_000 + 50_000_000}


def test_the_status_says_it_in_a_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    data = described({given("time", {"command": ["uvx", "mcp-server-time"]}, (1,)): [str(n) for n in range(7)]})
    data["servers"][0]["memory"], data["saved"]["memory"] = 30_000_000, 180_000_000
    said = {"version": "1", "process": 9, "relays": [], **json.loads(json.dumps(data))}
    monkeypatch.setattr(status, "asked_runtime", lambda folder, what: said)
    runtime, server = (line["text"] for line in status._of_runtime())  # pyright: ignore[reportPrivateUsage]
    assert runtime == (
        "version 1, process 9, 0 relays; 6 processes and 180 MB less than with one of each server for each"
    )
    assert server == (
        "1 process for 7 relays (0, 1, 2, 3, 4, and 2 more), 30 MB; shared: it is known to keep nothing of a session"
    )


def test_a_relay_is_called_by_its_agent_or_by_the_folder_of_its_host() -> None:
    assert [called("review", "/home/me/shop"), called(None, "/home/me/shop")] == ["review", "shop"]


def test_the_memory_of_a_process_is_that_of_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for process, leader, memory in ((10, 10, 3), (11, 10, 4), (12, 12, 5), (13, 10, None)):
        folder = tmp_path / str(process)
        folder.mkdir()
        (folder / "stat").write_text(f"{process} (a) b) S 1 {leader} {leader} 0")
        if memory is not None:  # else it has ended
            (folder / "smaps_rollup").write_text(
                f"00-ff ---p [rollup]\nRss: 99 kB\nPss:   {memory} kB\nPss_Dirty: 1 kB\n"
            )
    monkeypatch.setattr(processes, "PROCESSES", tmp_path)
    assert memory_of({10}) == {10: 7 * 1024}
    monkeypatch.setattr(processes, "PROCESSES", tmp_path / "none")
    assert memory_of({10}) == {}
