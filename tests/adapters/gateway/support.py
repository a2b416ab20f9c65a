"""What the gateway's tests share: upstreams as real processes, and waits that end."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from tests.preloaded import forked
from toolfold import Session
from toolfold_adapters.gateway import Gateway, GatewayConfig, UpstreamConfig, open_gateway

UPSTREAMS = Path(__file__).parent / "upstreams"
SECONDS = 60


def command(script: str, *arguments: str) -> tuple[str, ...]:
    program = (str(UPSTREAMS / script), *arguments)
    return (sys.executable, *program) if script == "raw.py" else forked(*program)


def raw(behaviour: str, *arguments: str, **settings: Any) -> GatewayConfig:
    return GatewayConfig().with_upstream(UpstreamConfig(command=command("raw.py", behaviour, *arguments), **settings))


def proper(**settings: Any) -> GatewayConfig:
    return GatewayConfig().with_upstream(UpstreamConfig(command=command("proper.py"), **settings))


@asynccontextmanager
async def opened(config: GatewayConfig) -> AsyncGenerator[tuple[Gateway, Session]]:
    """A gateway and a session in which all its groups are open; the block has to end in time."""
    gateway = open_gateway(config)
    with anyio.fail_after(SECONDS):
        async with gateway as tools, tools.open_session(active=[g.path for g in tools.catalog.groups]) as session:
            yield gateway, session


def is_running(pid_file: Path) -> bool:
    try:
        os.kill(int(pid_file.read_text()), 0)
    except ProcessLookupError:
        return False
    return True
