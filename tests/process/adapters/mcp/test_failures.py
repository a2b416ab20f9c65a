"""Failing handlers and hooks affect only their own request, in both eras (SPEC SAF-2, SAF-3, CALL-3)."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp import faulty
from tests.adapters.mcp.faulty import EXPECTED, SECRET, make_faulty
from tests.adapters.mcp.support import PATIENCE, build_server, client_of, over_http
from tests.adapters.mcp.test_handle_delivery import text_of
from tests.preloaded import forked
from toolfold import Session

SHOWN = "caf\\udce9"
SECRETS = ("hunter2", "postgres", "Panic")
FAILING = ("leak", "leave", "panic", "cancel")
eras = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
transports = pytest.mark.parametrize("transport", ["memory", "stdio", "http"])


@asynccontextmanager
async def faulty_client(transport: str, era: str) -> AsyncGenerator[Client]:
    """Yield a client of the faulty tool set."""
    if transport == "http":
        async with over_http(make_faulty()) as url, client_of(url, era) as (client, _):
            yield client
        return
    path = ":".join(p for p in sys.path if p)
    command, *arguments = forked(faulty.__file__)
    process = StdioServerParameters(command=command, args=arguments, env={"PYTHONPATH": path})
    target: Any = process if transport == "stdio" else build_server(make_faulty())
    async with client_of(target, era) as (client, _):
        yield client


def both(names: tuple[str, ...]) -> list[str]:
    return [f"{prefix}{name}" for name in names for prefix in ("", "async_")]


def reading(client: Client, name: str) -> list[Callable[[], Awaitable[Any]]]:
    """Return how to ask for the prompt and the resource of a name."""
    return [partial(client.get_prompt, name), partial(client.read_resource, f"faulty:///{name}")]


async def refused(ask: Callable[[], Awaitable[Any]]) -> MCPError:
    with pytest.raises(MCPError) as raised:
        await ask()
    return raised.value


@pytest.mark.spec("SAF-2", "SAF-3", "CALL-3")
@eras
@transports
async def test_whatever_goes_wrong_is_answered_and_the_connection_goes_on(transport: str, era: str) -> None:
    with anyio.fail_after(6 * PATIENCE):
        async with faulty_client(transport, era) as client:
            for name in both((*FAILING, "answer_with_anything")):
                for ask in reading(client, name):
                    error = await refused(ask)
                    assert (error.code, error.data) == (-32603, None)
                    assert error.message.endswith("failed with an internal error; its operator can find it in the log.")
                    assert not any(secret in str(error) for secret in SECRETS)
            for name in both(FAILING):
                for tool in (name, f"group_{name}.activate"):
                    result = await client.call_tool(tool, {})
                    assert result.is_error
                    assert not any(secret in text_of(result) for secret in SECRETS)
            assert text_of(await client.call_tool("ping", {})) == "pong"


@pytest.mark.spec("CALL-3", "REG-9", "SAF-3")
@eras
@transports
async def test_what_was_meant_for_the_caller_reaches_it(transport: str, era: str) -> None:
    async with faulty_client(transport, era) as client:
        for name in both(("refuse",)):
            assert text_of(await client.call_tool(name, {})) == EXPECTED
            assert EXPECTED in text_of(await client.call_tool(f"group_{name}.activate", {}))
            for ask in reading(client, name):
                error = await refused(ask)
                assert (error.code, error.message, error.data) == (-32603, EXPECTED, None)


@pytest.mark.spec("SAF-2")
@eras
@transports
async def test_what_utf_8_can_not_carry_is_shown_and_the_connection_goes_on(transport: str, era: str) -> None:
    with anyio.fail_after(6 * PATIENCE):
        async with faulty_client(transport, era) as client:
            ready = await client.call_tool("ready", {})
            assert (text_of(ready), ready.structured_content) == (SHOWN, {SHOWN: [SHOWN]})
            assert text_of(await client.call_tool("answer_oddly", {})) == SHOWN
            assert SHOWN in str((await client.get_prompt("answer_oddly")).messages[0].content).replace("\\\\", "\\")
            contents = (await client.read_resource("faulty:///answer_oddly")).contents
            assert SHOWN in str(contents[0]).replace("\\\\", "\\")
            assert text_of(await client.call_tool("refuse_oddly", {})) == SHOWN
            assert SHOWN in text_of(await client.call_tool("group_refuse_oddly.activate", {}))
            for name, data in (("refuse_oddly", None), ("fail_oddly", {SHOWN: SHOWN})):
                for ask in reading(client, name):
                    error = await refused(ask)
                    assert (error.message, error.data) == (SHOWN, data)
            assert text_of(await client.call_tool("ping", {})) == "pong"


@pytest.mark.spec("SAF-3")
@eras
async def test_nothing_of_an_error_that_nobody_expected_goes_over_the_wire(
    era: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def list_(self: Session, *_: Any, **__: Any) -> Any:
        raise RuntimeError(SECRET)

    async with client_of(build_server(make_faulty()), era) as (client, _):
        await client.list_tools()
        monkeypatch.setattr("toolfold_adapters.mcp.answer.render.Renderer.page", list_)
        error = await refused(lambda: client.list_tools(cache_mode="bypass"))
        assert (error.code, error.message, error.data) == (-32603, "Internal error", None)
        assert "a request about 'tool' failed" in caplog.text
        assert SECRET in caplog.text
