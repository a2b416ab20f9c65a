"""The live page of a server over HTTP: whose it is, and what it shows of both eras (SPEC DEL-6, DEL-10)."""

from __future__ import annotations

import base64
from typing import Any

import httpx2
import pytest

from tests.adapters.mcp.asgi import Endpoint
from tests.adapters.mcp.desk import make_desk
from tests.diagrams.live.watching import get, post, quick, steps, watching
from toolfold import ConfigError, ToolSet
from toolfold_adapters.mcp import Authentication, http_app
from toolfold_adapters.mcp.http.auth import digest_of
from toolfold_adapters.stores import MemoryStore
from toolfold_diagrams import live

PAGE = "http://127.0.0.1:8000/live/"
TOKENS = {name: digest_of(name * 8) for name in ("alice", "bob")}
WITH_OPERATOR = Authentication.by_tokens(TOKENS, operators=["alice"])


def basic(password: str) -> dict[str, str]:
    return {"authorization": f"Basic {base64.b64encode(f'anyone:{password}'.encode()).decode()}"}


async def status(tools: ToolSet, headers: dict[str, str], url: str = PAGE, **options: Any) -> httpx2.Response:
    """Return the response of a server with a live page."""
    app = http_app(tools, live=live(tools), **options)
    async with app.lifespan(), httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as http:
        return await http.get(url, headers=headers)


@pytest.mark.spec("DEL-10")
async def test_on_loopback_the_page_is_beside_the_endpoint() -> None:
    response = await status(make_desk(), {})
    assert (response.status_code, "desk, live" in response.text) == (200, True)
    assert (await status(make_desk(), {}, "http://127.0.0.1:8000/livelier")).status_code == 404


@pytest.mark.spec("DEL-10")
async def test_requests_for_other_hosts_and_of_other_pages_are_refused() -> None:
    assert (await status(make_desk(), {}, "http://evil.example/live/")).status_code == 421
    other = await status(make_desk(), {"origin": "http://localhost:3000"})
    assert (other.status_code, "access-control-allow-origin" in other.headers) == (403, False)


@pytest.mark.spec("DEL-6")
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 401),
        (basic("alice" * 8), 200),
        ({"authorization": f"Bearer {'alice' * 8}"}, 200),
        (basic("bob" * 8), 401),
        (basic("wrong"), 401),
        ({"authorization": "Basic ?"}, 401),
        ({"authorization": "Basic"}, 401),
    ],
    ids=str,
)
async def test_behind_authentication_the_page_is_for_operators(headers: dict[str, str], expected: int) -> None:
    url = "https://tools.example.org/live/"
    options = {"host": "0.0.0.0", "allowed_hosts": ["tools.example.org"], "auth": WITH_OPERATOR}
    response = await status(make_desk(), headers, url, **options)
    assert response.status_code == expected
    assert response.headers.get("www-authenticate", "Basic").startswith("Basic")


@pytest.mark.spec("DEL-6")
async def test_an_operator_needs_the_scopes_of_the_server_too() -> None:
    auth = Authentication.by_oauth(
        WITH_OPERATOR.verifier,
        issuer="https://i.example",
        resource="https://r.example",
        scopes=["x"],
        operators=["alice"],
    )
    auth.settings.validate_token_resource = False
    assert (await status(make_desk(), basic("alice" * 8), auth=auth)).status_code == 401


@pytest.mark.spec("DEL-6", "DEL-10", "ERR-2")
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"host": "0.0.0.0", "allowed_hosts": ["a.example"]},
            r"0\.0\.0\.0 can be reached from other machines: say with",
        ),
        ({"auth": Authentication.by_tokens(TOKENS)}, "names no operators"),
        ({"path": "/live"}, "the path of the endpoint can't be /live"),
    ],
)
def test_it_is_not_served_unless_it_is_the_operators_alone(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        http_app(make_desk(), live=live(make_desk()), **options)


@pytest.mark.spec("DEL-1", "DIA-3")
async def test_a_legacy_client_is_a_session_of_its_own() -> None:
    tools = make_desk()
    app, page_app = http_app(tools, separator="."), quick(tools)
    async with app.lifespan(), watching(page_app) as page, Endpoint(app).client("legacy") as client:
        await client.list_tools()
        await client.call_tool("mode_a.activate", {})
        row = await page.until(lambda: next((row for row in page.rows.values() if row["active"] == ["mode_a"]), None))
        assert (row["session"], page.lists["lists"]) == (True, 1)


@pytest.mark.spec("DEL-2", "DEL-3", "DIA-3")
@pytest.mark.parametrize("stored", [False, True])
async def test_requests_with_handles_are_shown_and_no_handle_is(stored: bool) -> None:
    tools = ToolSet("handles")
    tools.register_group("one")
    tools.register("do", lambda: "done", group="one", description="Do it")
    options: dict[str, Any] = {"handles": "stored", "store": MemoryStore()} if stored else {}
    app, page_app = http_app(tools, separator=".", **options), quick(tools)
    async with app.lifespan(), watching(page_app) as page, Endpoint(app).client("2026-07-28") as client:
        await client.list_tools()
        opened = await client.call_tool("one.activate", {})
        handle = _text(opened).partition("Handle: ")[2].partition("\n")[0]
        called = await client.call_tool("call_tool", {"name": "one.do", "arguments": {}, "handle": handle})
        assert _text(called).startswith("done")
        await page.until(lambda: sum(bool(row["last"]) for row in page.rows.values()) == 1 + stored)
        seen = [(await get(page_app, f"/sessions/{key}")).text for key in page.rows]
        titles = [step["title"] for key in page.rows for step in await steps(page_app, key)]
    assert len(handle) > 20
    assert handle not in "".join((*seen, *map(str, page.rows.values())))
    assert [row["session"] for row in page.rows.values() if row["last"]] == ([False, True] if stored else [False])
    assert {"call one.open", "call one.do"} <= set(titles)


@pytest.mark.spec("STO-2", "DIA-3")
@pytest.mark.parametrize("stored", [False, True])
async def test_a_group_that_the_operator_opens_is_open_for_the_client(stored: bool) -> None:
    tools = make_desk()
    options: dict[str, Any] = {"store": MemoryStore()} if stored else {}
    app = http_app(tools, separator=".", **options)
    page_app = quick(tools, control=True)
    async with app.lifespan(), watching(page_app) as page, Endpoint(app).client("legacy") as client:
        await client.call_tool("mode_a.activate", {})
        row = await page.until(lambda: next((row for row in page.rows.values() if row["active"] == ["mode_a"]), None))
        response = await post(page_app, f"/sessions/{row['key']}", {"group": "database", "open": True})
        assert (response.status, response.json) == (200, {"changed": True})
        assert "ran" in _text(await client.call_tool("database.query", {"sql": "select 1"}))
        assert "database.query" in [tool.name for tool in (await client.list_tools()).tools]


def _text(result: Any) -> str:
    return str(result.content[0].text) if len(result.content) == 1 else "\n".join(one.text for one in result.content)
