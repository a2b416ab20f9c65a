"""The guards of HTTP: loopback, Host, Origin, the size of a request; and the command that serves (SPEC DEL-10)."""

from __future__ import annotations

import json
import socket

import httpx2
import pytest

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import RawLegacy, build_server, modern_body, modern_headers, over_http
from toolfold import ConfigError
from toolfold_adapters.mcp import serve
from toolfold_adapters.mcp.serve import security_settings

pytestmark = pytest.mark.spec("DEL-10")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://localhost:5173"}, 200),
        ({"origin": "https://evil.example"}, 403),
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example:80", "origin": "http://localhost"}, 421),
    ],
)
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_only_requests_for_and_from_this_machine_are_answered(
    headers: dict[str, str], status: int, era: str
) -> None:
    async with over_http(make_desk()) as url, httpx2.AsyncClient() as http:
        if era == "modern":
            body, base = modern_body("tools/list"), modern_headers("tools/list")
        else:
            base = RawLegacy(http, url).headers
            info = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": info}
        response = await http.post(url, json=body, headers={**base, **headers})
        assert response.status_code == status


async def test_a_request_above_the_limit_is_refused_and_the_server_goes_on() -> None:
    async with over_http(make_desk(), max_request_bytes=2000) as url, httpx2.AsyncClient() as http:
        body = modern_body("tools/call", {"name": "ping", "arguments": {"x": "y" * 3000}})
        refused = await http.post(url, json=body, headers=modern_headers("tools/call", "ping"))
        assert refused.status_code == 413
        fine = await http.post(url, json=modern_body("tools/list"), headers=modern_headers("tools/list"))
        assert fine.status_code == 200


async def test_the_address_is_loopback_unless_told_otherwise() -> None:
    async with over_http(make_desk()) as url:
        assert url.startswith("http://127.0.0.1:")


def test_another_address_needs_the_names_that_it_is_reached_by() -> None:
    with pytest.raises(ConfigError, match="--allow-host"):
        security_settings("0.0.0.0")
    allowed = security_settings("0.0.0.0", ["tools.example:*"], ["https://tools.example"])
    assert allowed.allowed_hosts == ["tools.example:*"]
    assert allowed.enable_dns_rebinding_protection


async def test_a_port_that_is_taken_is_an_error_that_names_it() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"127\.0\.0\.1:{port} can't be bound"):
            await serve(make_desk(), transport="http", port=port)


async def test_wrong_settings_are_named() -> None:
    with pytest.raises(ConfigError, match="carrier pigeon"):
        await serve(make_desk(), transport="carrier pigeon")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"must start with /, as in '/mcp'; it is 'mcp'\."):
        await serve(make_desk(), transport="http", path="mcp")
    with pytest.raises(ConfigError, match="delivery 'psychic'"):
        build_server(make_desk(), delivery="psychic")
    with pytest.raises(ConfigError, match="no profile 'nobody'"):
        build_server(make_desk(), profile="nobody")


async def test_what_is_not_json_is_refused() -> None:
    async with over_http(make_desk()) as url, httpx2.AsyncClient() as http:
        headers = {**modern_headers("tools/list"), "content-type": "application/json"}
        response = await http.post(url, content=b"{", headers=headers)
        assert response.status_code == 400
        assert "error" in json.loads(response.content)
