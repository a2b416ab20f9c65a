"""Two people use what `deploy/callers` deploys, over TLS: run by `composed` beside it, and says `ok` in the end."""

from __future__ import annotations

import json
import os
import signal
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import uvicorn
from mcp import Client, MCPError

from tests.external.keycloak import Keycloak, Person
from tests.external.test_identity_provider import World, link_in, log_in, said, server_of
from tests.process.adapters.gateway.callers.test_each_as_himself import Personal

ROOT = Path("/data/caddy/pki/authorities/local/root.crt")
TOOLS, LOGIN = "https://tools.localhost", "https://login.localhost"
ATTEMPTS = 5
WIKI, WIKI_PORT = "172.30.5.1", 8123


async def main() -> None:
    """Do what two people do."""
    keycloak = Keycloak("http://issuer:8080", TOOLS, os.environ["GATEWAY_SECRET"])
    keycloak.passwords["alice"] = os.environ["FIRST_PASSWORD"]
    with keycloak.http:
        keycloak.log_in()
        keycloak.add_person("bob")
    while not ROOT.exists():  # noqa: ASYNC110, ASYNC240
        await anyio.sleep(0.1)
    trusted = ssl.create_default_context(cafile=str(ROOT))
    people = {name: Person(name, keycloak.passwords[name]) for name in ("alice", "bob")}
    for person in people.values():
        person.http = httpx2.AsyncClient(timeout=60, verify=trusted)
    world = World(keycloak, Path(), people, verify=trusted)
    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wiki().serve)
            await refused(people["alice"].http)
            await used(world)
            tasks.cancel_scope.cancel()
    print("ok")


def wiki() -> uvicorn.Server:
    """Return a server at which each has a token of his own."""
    options: Any = {"host": WIKI, "port": WIKI_PORT, "log_level": "error", "ws": "none"}
    personal = Personal({"alices-own": "alice", "bobs-own": "bob"})
    app = server_of("http://localhost/mcp", personal, "http://localhost", [])

    async def called(scope: Any, receive: Any, send: Any) -> None:
        """Have it take its address for a name of this machine, to which it listens alone."""
        if scope["type"] == "http":
            others = [(name, value) for name, value in scope["headers"] if name != b"host"]
            scope = {**scope, "headers": [*others, (b"host", b"127.0.0.1:8123")]}
        await app(scope, receive, send)

    return uvicorn.Server(uvicorn.Config(called, **options))


async def refused(http: httpx2.AsyncClient) -> None:
    """Check that nothing is served but what people use."""
    while True:
        with suppress(httpx2.TransportError):
            await http.get(f"{TOOLS}/live")
            break
    for url in (f"{TOOLS}/live", f"{TOOLS}/metrics", f"{TOOLS}/health", f"{LOGIN}/admin/", f"{LOGIN}/metrics"):
        assert (await http.get(url)).status_code == httpx2.codes.NOT_FOUND, url
    assert (await http.post(f"{TOOLS}/mcp")).status_code == httpx2.codes.UNAUTHORIZED


async def used(world: World) -> None:
    """Log in, call, give tokens, and go on after a replica was killed."""
    url = f"{TOOLS}/mcp"
    async with world.client("alice", url) as alice, world.client("bob", url, "legacy") as bob:
        mine, his = [await tools_of_the_shop(client) for client in (alice, bob)]
        assert his < mine, "she may use what destroys"
        links = {"alice": link_in(await said(alice, "wiki__whoami")), "bob": link_in(await said(bob, "wiki__whoami"))}
        assert links["alice"].startswith(f"{TOOLS}/login/")
        assert "another caller's" in await log_in(world, "bob", links["alice"], "bobs-own")
        for name, link in links.items():
            assert "logged in" in await log_in(world, name, link, f"{name}s-own")
        both = ["alice by c", "bob by c"]
        assert [await said(alice, "wiki__whoami"), await said(bob, "wiki__whoami")] == both
        replica = json.loads(os.environ["CONTAINERS"])["serve-1"]
        os.kill(replica, signal.SIGKILL)
        while not ended(replica):
            await anyio.lowlevel.checkpoint()
        for client in (alice, bob):  # What goes over a connection that the proxy had to it is answered with an error.
            with suppress(MCPError):
                await said(client, "wiki__whoami")
        for _ in range(ATTEMPTS):
            assert [await said(alice, "wiki__whoami"), await said(bob, "wiki__whoami")] == both


async def tools_of_the_shop(client: Client) -> set[str]:
    """Open the group of a server, and return its tools once a replica has been told by the server what they are."""
    while True:
        await client.call_tool("open_group", {"group": "shop"})
        tools = (await client.list_tools()).tools
        if found := {one.name for one in tools if one.name.startswith("shop__")}:
            return found


def ended(process: int) -> bool:
    """Return whether a process of this machine holds nothing any more."""
    return Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(") ")[2].startswith("Z")


if __name__ == "__main__":
    anyio.run(main)
