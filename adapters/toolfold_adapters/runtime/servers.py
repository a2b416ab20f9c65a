"""What a runtime says of the servers behind it: who shares which with whom, and what that saves (SPEC GWY-14)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..gateway.upstream.upstream import Upstream
from ..transport.processes import memory_of


def described(having: Mapping[Upstream, Sequence[str]]) -> dict[str, Any]:
    """Return data on servers, and on what is saved by not having a process of each for each relay.

    Args:
        having: The names of the relays that have each server.
    """
    memory = memory_of({process for one in having for process in one.processes})
    servers = [_one(upstream, relays, memory) for upstream, relays in having.items()]
    commands = [one for one in servers if one["command"]]
    spared = [(one, one["relays"] - one["processes"]) for one in commands]
    by_memory = sum(one["memory"] * count // one["processes"] for one, count in spared if one["processes"])
    return {
        "servers": servers,
        "saved": {"processes": sum(max(0, count) for _, count in spared), "memory": max(0, by_memory)},
    }


def _one(upstream: Upstream, relays: Sequence[str], memory: Mapping[int, int]) -> dict[str, Any]:
    status, sharing = upstream.status, upstream.sharing
    return {
        "name": upstream.key,
        "state": status.state,
        "connections": status.connections,
        "relays": len(relays),
        "of": sorted({*relays}),
        "command": upstream.config.command is not None,
        "processes": len(upstream.processes),
        "memory": sum(memory.get(process, 0) for process in upstream.processes),
        "shared": sharing.shared,
        "why": sharing.why,
    }


def called(agent: str | None, folder: str) -> str:
    """Return what people call a relay: its agent, or the folder of its host."""
    return agent or Path(folder).name
