"""Two people who log in at Keycloak call a gateway, and act at the servers behind it as themselves."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import jwt
import pytest
from attrs import define, field
from mcp import Client, MCPError
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from mcp_types import ToolAnnotations
from pydantic import AnyHttpUrl

from tests.external.keycloak import VARIABLE, Keycloak, Person, folder, running
from tests.preloaded import forked_toolfold
from tests.process.adapters.gateway.upstream.test_oauth import listening
from tests.process.ports import free_port
from tests.process.serving import ENVIRONMENT, SECONDS, serving
from toolfold_adapters.mcp.http.oauth import SignedTokens

pytestmark = [pytest.mark.spec("GWY-19"), pytest.mark.xdist_group("keycloak")]

DESK = "tests.adapters.mcp.desk:make_desk"
REDIRECT = "http://127.0.0.1:3117/callback"
RIGHTS = '[rights."claim:roles=admin"]\naccess = "destructive"\n\n[rights."*"]\naccess = "read"\n'


@pytest.fixture(scope="module")
def keycloak(tmp_path_factory: pytest.TempPathFactory) -> Generator[Keycloak]:
    """Keycloak, with the realm of `deploy/callers`; without it a test is skipped, or fails."""
    home = folder()
    if home is None:
        (pytest.fail if os.environ.get("TESTS_EXTERNAL") == "required" else pytest.skip)(
            f"{VARIABLE} names no Keycloak"
        )
    with (tmp_path_factory.mktemp("keycloak") / "log").open("wb") as log, running(home, os.environ, log) as keycloak:
        port = free_port()
        keycloak.tools_url = f"http://127.0.0.1:{port}"
        keycloak.set_up()
        yield keycloak


@define(eq=False)
class Kept:
    """Where a client keeps what it got."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@define(eq=False)
class World:
    """A gateway whose callers are people of Keycloak's, and these."""

    keycloak: Keycloak
    folder: Path
    people: dict[str, Person] = field(factory=dict[str, Person])
    kept: dict[str, Kept] = field(factory=dict[str, Kept])
    verify: Any = True

    @asynccontextmanager
    async def gateway(self, upstreams: str = "", *, introspection: bool = False) -> AsyncGenerator[str]:
        """Serve a gateway with some servers, or with none of them a desk, and yield the address of its endpoint."""
        keycloak, base = self.keycloak, self.keycloak.tools_url
        how = f'jwks = "{keycloak.endpoint}/certs"'
        if introspection:
            client = f'client_id = "toolfold"\nclient_secret = "{keycloak.gateway_secret}"'
            how = f'introspection = "{keycloak.endpoint}/token/introspect"\n{client}'
        login = (
            f'[oauth.login]\nauthorization_endpoint = "{keycloak.endpoint}/auth"\nclient_id = "toolfold"\n'
            f'token_endpoint = "{keycloak.endpoint}/token"\nclient_secret = "{keycloak.gateway_secret}"\n'
        )
        oauth = f'[oauth]\nissuer = "{keycloak.issuer}"\nresource = "{base}/mcp"\nscopes = ["tools"]\n{how}\n{login}'
        (self.folder / "auth.toml").write_text(oauth)
        (self.folder / "gateway.toml").write_text(f"{upstreams}\n{RIGHTS}")
        target = str(self.folder / "gateway.toml") if upstreams else DESK
        options = ["--http", "--port", base.rpartition(":")[2], "--auth", str(self.folder / "auth.toml")]
        command = [*forked_toolfold(), "serve", target, *options, "--delivery", "principal"]
        async with serving(command, "serving http", {**ENVIRONMENT, "XDG_DATA_HOME": str(self.folder)}):
            yield f"{base}/mcp"

    def provider(self, name: str, url: str) -> OAuthClientProvider:
        """Return what has somebody log in at Keycloak, by a client that registers there."""
        kept, came_back = self.kept.setdefault(name, Kept()), dict[str, list[str]]()

        async def browse(page: str) -> None:
            answer = await self.people[name].opened(page, until=REDIRECT)
            came_back.update(parse_qs(urlsplit(answer.headers["location"]).query))

        async def result() -> AuthorizationCodeResult:
            found = {key: values[0] for key, values in came_back.items()}
            return AuthorizationCodeResult(code=found["code"], state=found["state"], iss=found.get("iss"))

        metadata = OAuthClientMetadata(client_name="desk", redirect_uris=[AnyHttpUrl(REDIRECT)])
        return OAuthClientProvider(url, metadata, kept, browse, result)

    @asynccontextmanager
    async def client(self, name: str, url: str, mode: str = "auto") -> AsyncGenerator[Client]:
        """Yield a client of somebody's."""
        async with (
            httpx2.AsyncClient(auth=self.provider(name, url), timeout=SECONDS, verify=self.verify) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            yield client

    def token(self, name: str) -> str:
        """Return the token that somebody's client has got."""
        tokens = self.kept[name].tokens
        assert tokens is not None
        return tokens.access_token


@pytest.fixture
async def world(keycloak: Keycloak, tmp_path: Path) -> AsyncGenerator[World]:
    people = {name: Person(name, password) for name, password in keycloak.passwords.items()}
    yield World(keycloak, tmp_path, people)
    for person in people.values():
        await person.http.aclose()


def server_of(url: str, verifier: Any, issuer: str, scopes: list[str]) -> Any:
    """A server that says who asks, and by which client's token, and has a tool that destroys."""
    settings = AuthSettings(
        issuer_url=AnyHttpUrl(issuer),
        resource_server_url=AnyHttpUrl(url),
        required_scopes=scopes or None,
        validate_token_resource=False,  # that is what the verifier does
    )
    server = MCPServer[Any]("board", auth=settings, token_verifier=verifier)

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def whoami() -> str:
        token = get_access_token()
        return "" if token is None else f"{token.subject} by {token.client_id}"

    @server.tool(annotations=ToolAnnotations(destructive_hint=True))
    async def erase() -> str:
        return "erased"

    return server.streamable_http_app()


@define(eq=False)
class Verified:
    """Verifies tokens as our servers do; those in `ended` count no more."""

    verifier: SignedTokens
    ended: set[str] = field(factory=set[str])
    seen: list[str] = field(factory=list[str])

    async def verify_token(self, token: str) -> AccessToken | None:
        self.seen.append(token)
        return None if token in self.ended else await self.verifier.verify_token(token)


@asynccontextmanager
async def upstream(
    keycloak: Keycloak, name: str, *, audience: str | None = None
) -> AsyncGenerator[tuple[str, Verified]]:
    """Serve a server that takes Keycloak's tokens for itself, and yield its address and what verifies these."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    scopes = [] if audience else [name]
    if not audience:
        keycloak.add_optional_scope(name, url)
    verified = Verified(SignedTokens(jwt.PyJWKClient(f"{keycloak.endpoint}/certs"), keycloak.issuer, audience or url))
    async with listening(server_of(url, verified, keycloak.issuer, scopes), port):
        yield url, verified


async def said(client: Client, tool: str) -> str:
    await client.call_tool("open_group", {"group": tool.partition("__")[0]})
    result = await client.call_tool(tool, {})
    return "".join(getattr(block, "text", "") for block in result.content)


async def status(url: str, token: str) -> int:
    async with httpx2.AsyncClient(timeout=SECONDS, headers={"Authorization": f"Bearer {token}"}) as http:
        return (await http.post(url, json={})).status_code


async def test_people_log_in_by_their_clients_and_have_what_their_roles_say(world: World) -> None:
    keycloak = world.keycloak
    async with upstream(keycloak, "stock", audience="stock") as (stock, _):
        keycloak.add_server("stock")
        exchange = (
            f'{{ token_endpoint = "{keycloak.endpoint}/token", client_id = "toolfold", '
            f'client_secret = "{keycloak.gateway_secret}", audience = "stock" }}'
        )
        entry = f'[upstreams.stock]\nurl = "{stock}"\nexchange = {exchange}\n'
        async with (
            world.gateway(entry) as url,
            world.client("alice", url) as alice,
            world.client("bob", url, "legacy") as bob,
        ):
            for name, client in (("alice", alice), ("bob", bob)):
                assert await said(client, "stock__whoami") == f"{keycloak.subjects[name]} by toolfold"
            assert await said(alice, "stock__erase") == "erased"
            with pytest.raises(MCPError, match="Unknown tool"):
                await said(bob, "stock__erase")


@pytest.mark.spec("DEL-6")
async def test_a_token_counts_while_it_is_the_issuers_for_this_gateway_and_its_key_is_published(world: World) -> None:
    keycloak = world.keycloak
    async with world.gateway() as url:
        async with world.client("alice", url):
            before = world.token("alice")
        assert await status(url, before) != httpx2.codes.UNAUTHORIZED
        assert await status(url, keycloak.token_for("somebody else", "bob")) == httpx2.codes.UNAUTHORIZED
        keycloak.new_key()
        after = keycloak.token_for("desk", "bob", ["tools"])
        keys = [jwt.get_unverified_header(token)["kid"] for token in (before, after)]
        assert keys[0] != keys[1]
        while await status(url, after) == httpx2.codes.UNAUTHORIZED:  # keys are asked for each few seconds at most
            await anyio.lowlevel.checkpoint()
        assert await status(url, before) != httpx2.codes.UNAUTHORIZED
        keycloak.retire_keys()
    async with world.gateway() as url:
        assert await status(url, before) == httpx2.codes.UNAUTHORIZED
        assert await status(url, after) != httpx2.codes.UNAUTHORIZED


@pytest.mark.spec("DEL-6")
async def test_the_issuer_that_is_asked_about_tokens_ends_the_use_with_the_session_of_a_person(world: World) -> None:
    keycloak = world.keycloak
    async with (
        world.gateway(introspection=True) as url,
        world.client("alice", url) as alice,
        world.client("bob", url, "legacy") as bob,
    ):
        assert (await alice.list_tools()).tools
        tokens = [world.token(name) for name in ("alice", "bob")]
        keycloak.end_sessions("alice")
        assert await status(url, tokens[0]) == httpx2.codes.UNAUTHORIZED
        assert await status(url, tokens[1]) != httpx2.codes.UNAUTHORIZED
        assert (await bob.list_tools()).tools


async def test_people_log_in_at_a_server_of_the_issuer_and_their_logins_are_renewed_and_end(world: World) -> None:
    keycloak = world.keycloak
    async with (
        upstream(keycloak, "board") as (board, verified),
        world.gateway(f'[upstreams.board]\nurl = "{board}"\n') as url,
        world.client("alice", url) as alice,
        world.client("bob", url, "legacy") as bob,
    ):
        mine = {"alice": alice, "bob": bob}
        links = {name: link_in(await said(client, "board__whoami")) for name, client in mine.items()}
        assert "another caller's" in await log_in(world, "bob", links["alice"])
        for name, link in links.items():
            assert "logged in" in await log_in(world, name, link)
        # Each for her client, which asks for what outlives a session, and for the page, but not at the server.
        assert {name: person.asked for name, person in world.people.items()} == dict.fromkeys(mine, 2)
        first = {name: await said(client, "board__whoami") for name, client in mine.items()}
        assert {name: one.partition(" by ")[0] for name, one in first.items()} == keycloak.subjects
        own = {str(jwt.decode(world.token(name), options={"verify_signature": False})["azp"]) for name in mine}
        assert not own & {one.partition(" by ")[2] for one in first.values()}
        verified.ended |= set(verified.seen)
        assert {name: await said(client, "board__whoami") for name, client in mine.items()} == first
        keycloak.end_sessions("alice")
        verified.ended |= set(verified.seen)
        asked = await said(alice, "board__whoami")
        assert await said(bob, "board__whoami") == first["bob"]
        assert "logged in" in await log_in(world, "alice", link_in(asked))
        assert await said(alice, "board__whoami") == first["alice"]


async def log_in(world: World, name: str, link: str, token: str | None = None) -> str:
    """Do what somebody does with a link, and return what the page says that comes last."""
    person = world.people[name]
    page = await person.opened(link)
    found = re.search(r'name="csrf" value="([^"]+)"', page.text)
    if found is None:
        return page.text
    assert f"for <b>{name}</b> alone" in page.text
    given = {"csrf": found[1], **({} if token is None else {"token": token})}
    return (await person.opened(link, method="POST", data=given)).text


def link_in(text: str) -> str:
    found = re.search(r"https?://\S+/login/[\w-]+", text)
    assert found is not None, text
    return found[0]


BROWSER = """
import sys
import anyio
from tests.external.keycloak import Person
anyio.run(Person("bob", sys.argv[1]).opened, sys.argv[2])
"""
"""A program that opens a page as Bob, and logs in there."""


def stored_in(folder: Path) -> Any:
    (file,) = folder.rglob("tokens/*.json")
    return json.loads(file.read_text())


async def test_a_user_logs_in_by_the_shell_calls_and_logs_out_which_ends_the_grant_at_the_issuer(
    keycloak: Keycloak, tmp_path: Path
) -> None:
    script, file = tmp_path / "browser.py", tmp_path / "gateway.toml"
    script.write_text(BROWSER)
    environment = {
        **ENVIRONMENT,
        **{name: str(tmp_path / name) for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR")},
        "BROWSER": f"{sys.executable} {script} {keycloak.passwords['bob']} %s",
    }

    async def shell(*command: str) -> tuple[int, str, str]:
        with anyio.fail_after(SECONDS):
            done = await anyio.run_process([*forked_toolfold(), *command], env=environment, check=False)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    async with upstream(keycloak, "shelf") as (url, _):
        desk = '[profiles.desk]\navailable = ["shelf", "files"]\n'
        file.write_text(f'[upstreams.shelf]\nurl = "{url}"\n[upstreams.files]\ncommand = ["none-there"]\n{desk}')
        code, said, why = await shell("login", str(file), "--server", "shelf")
        assert (code, said) == (0, "Logged in at shelf.\n"), why
        assert re.search(r"\byou\b.*\bshelf\b.*\boauth\b", (await shell("logins"))[1])
        code, said, why = await shell("call", str(file), "shelf__whoami")
        assert keycloak.subjects["bob"] in said, why
        assert "asks you to log in" not in why
        kept = stored_in(tmp_path)
        code, said, why = await shell("logout", "shelf")
        assert (code, said) == (0, "1 login at shelf ended.\n"), why
        assert "Nobody is logged in." in (await shell("logins"))[1]
        given = {"grant_type": "refresh_token", "refresh_token": kept["tokens"]["refresh_token"]}
        client = {"client_id": kept["client"]["client_id"]}
        async with httpx2.AsyncClient(timeout=SECONDS) as http:
            answer = await http.post(f"{keycloak.endpoint}/token", data={**given, **client})
        assert (answer.status_code, answer.json()["error"]) == (httpx2.codes.BAD_REQUEST, "invalid_grant")
        code, said, why = await shell("call", str(file), "shelf__whoami")
        assert keycloak.subjects["bob"] in said, why
        assert "asks you to log in" in why
