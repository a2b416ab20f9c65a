"""`http_app`: MCP mounted in an application of one's own, lifespan included (SPEC INT-1, DEL-10)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import anyio
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.existing import shop
from tests.adapters.mcp.faulty import BreakingStore
from tests.adapters.mcp.support import RawLegacy, modern_body, modern_headers
from toolfold import ConfigError, ToolSet
from toolfold_adapters.mcp import group_server, http_app
from toolfold_adapters.mcp.http.operation import Operation

URL = "http://localhost/tools/mcp"


def grouped_shop() -> Any:
    return group_server(shop(), {"database": "db_*"})


@pytest.mark.spec("STO-8")
async def test_health_fails_once_the_background_work_has_died() -> None:
    store = BreakingStore()
    app = http_app(make_desk(), store=store)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(Operation(app)), base_url="http://localhost") as http:
        with suppress(ExceptionGroup):
            async with app.lifespan():
                assert (await http.get("/health")).status_code == 200
                store.broken.set()
                await anyio.sleep_forever()
        for probe in ("/health", "/ready"):
            response = await http.get(probe)
            assert (response.status_code, response.json()) == (503, {"status": "failed"})


@pytest.mark.spec("INT-1", "DEL-10")
@pytest.mark.parametrize(("make", "shown"), [(make_desk, "database__open"), (shop, "db_row"), (grouped_shop, "ping")])
async def test_an_application_that_mounts_it_serves_both_eras_and_runs_its_lifespan(make: Any, shown: str) -> None:
    app = http_app(make())
    outer = Starlette(routes=[Mount("/tools", app)], lifespan=app.lifespan)
    async with (
        outer.router.lifespan_context(outer),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(outer)) as http,
    ):
        legacy = RawLegacy(http, URL)
        await legacy.initialize()
        answers = [(await legacy.request("tools/list"))[-1]]
        response = await http.post(URL, json=modern_body("tools/list"), headers=modern_headers("tools/list"))
        answers.append(response.json())
    for answer in answers:
        assert shown in [tool["name"] for tool in answer["result"]["tools"]]


@pytest.mark.spec("DEL-10")
@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
@pytest.mark.parametrize("mount", ["", "/tools"])
async def test_the_endpoint_answers_with_and_without_a_slash_at_its_end(path: str, mount: str) -> None:
    app = http_app(make_desk(), path=path)
    outer = Starlette(routes=[Mount(mount, app)], lifespan=app.lifespan) if mount else app
    async with app.lifespan(), httpx2.AsyncClient(transport=httpx2.ASGITransport(outer)) as http:
        for asked in ("/mcp", "/mcp/"):
            url, headers = f"http://localhost{mount}{asked}", modern_headers("tools/list")
            response = await http.post(url, json=modern_body("tools/list"), headers=headers)
            assert (response.status_code, "location" in response.headers) == (200, False)
        assert (await http.post(f"http://localhost{mount}/other/mcp/", json={})).status_code == 404


@pytest.mark.spec("INT-1", "ERR-2")
async def test_a_lifespan_that_was_forgotten_is_named_with_the_remedy() -> None:
    outer = Starlette(routes=[Mount("/tools", http_app(make_desk()))])
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(outer)) as http:
        with pytest.raises(ConfigError, match=r"FastAPI\(lifespan=app\.lifespan\)"):
            await http.post(URL, json=modern_body("tools/list"))


@pytest.mark.spec("INT-1", "ERR-2")
@pytest.mark.parametrize(
    ("served", "options", "message"),
    [
        (shop(), {"separator": "."}, "separator is an option for tool sets; MCPServer is a server"),
        ("shop", {}, "str can't be served: give a ToolSet"),
        (ToolSet("t"), {"path": "mcp"}, "must start with /"),
    ],
)
def test_what_cannot_be_served_is_refused(served: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        http_app(served, **options)
