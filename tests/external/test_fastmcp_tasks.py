"""Tasks of FastMCP behind a gateway, for clients that know them and for those that do not (SPEC GWY-18)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.adapters.gateway.inprocess import Clock, wired
from tests.external.support import PATIENCE
from tests.external.test_fastmcp import HERE
from toolfold_adapters.gateway import GatewayConfig, Runtime, UpstreamConfig, open_gateway
from toolfold_adapters.gateway.serving.tasks import EXTENSION
from toolfold_adapters.gateway.upstream.handshake import ConnectMode
from toolfold_adapters.gateway.upstream.wire import Wire
from toolfold_adapters.mcp import build_server

pytestmark = pytest.mark.spec("GWY-18")

ASKED: dict[str, Any] = {"elicitation": {"form": {}}}
KNOWS = {**ASKED, "extensions": {EXTENSION: {}}}
ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])


async def answering(method: str, params: Mapping[str, Any], cause: object) -> Mapping[str, Any]:
    assert method == "elicitation/create"
    return {"action": "accept", "content": {"value": 3}}


@asynccontextmanager
async def client_of(python: str, era: ConnectMode, able: Mapping[str, Any]) -> AsyncGenerator[Wire]:
    config = GatewayConfig(upstreams={"slow": UpstreamConfig(command=(python, str(Path(HERE, "tasks.py"))))})
    gateway = open_gateway(config, runtime=Runtime(clock=Clock()))
    with anyio.fail_after(PATIENCE):
        async with gateway as tools:
            active = [group.path for group in tools.catalog.groups]
            front = build_server(tools, active=active, handles="stored", extend=gateway.extend)
            async with wired(front, era, able, answering, lambda method, params, cause: None) as client:
                yield client


async def called(client: Wire, name: str, **arguments: Any) -> dict[str, Any]:
    return await client.request("tools/call", {"name": f"slow__{name}", "arguments": arguments})


def text_of(result: Mapping[str, Any]) -> str:
    return str(result["content"][0]["text"])


@ERAS
async def test_a_client_that_knows_no_tasks_gets_the_results(fastmcp_python: str, era: ConnectMode) -> None:
    async with client_of(fastmcp_python, era, ASKED) as client:
        assert text_of(await called(client, "only", n=1)) == "did 1"
        assert text_of(await called(client, "also", n=2)) == "did 2, too"
        answer = await called(client, "asks")
        if era == "auto":
            ((name, asked),) = answer["inputRequests"].items()
            assert asked["params"]["message"] == "How many?"
            again = {"inputResponses": {name: await answering(asked["method"], {}, None)}}
            given = {"name": "slow__asks", "arguments": {}, **again, "requestState": answer["requestState"]}
            answer = await client.request("tools/call", given)
        assert text_of(answer) == "accept 3"


async def test_a_client_that_knows_tasks_polls_answers_and_cancels_them(fastmcp_python: str) -> None:
    async with client_of(fastmcp_python, "auto", KNOWS) as client:
        states: dict[str, list[str]] = {}
        for name in ("only", "asks", "never"):
            state = await called(client, name, **({"n": 1} if name == "only" else {}))
            assert state["resultType"] == "task"
            task, seen = state["taskId"], states.setdefault(name, [])
            while state["status"] not in ("completed", "cancelled"):
                await anyio.sleep(0.1)
                state = await client.request("tasks/get", {"taskId": task})
                seen += [] if seen[-1:] == [state["status"]] else [state["status"]]
                if questions := state.get("inputRequests"):
                    responses = {key: await answering(one["method"], {}, None) for key, one in questions.items()}
                    await client.request("tasks/update", {"taskId": task, "inputResponses": responses})
                if name == "never":
                    await client.request("tasks/cancel", {"taskId": task})
            if name != "never":
                assert text_of(state["result"]) == ("did 1" if name == "only" else "accept 3")
        assert states["asks"][-1] == "completed"
        assert "input_required" in states["asks"]
        assert states["never"][-1] == "cancelled"
