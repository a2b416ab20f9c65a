"""Who asks is one value, whatever a request is authenticated by (SPEC DEL-6, GWY-19)."""

from __future__ import annotations

import getpass
from typing import Any

import pytest
from mcp import Client
from mcp.server.auth.provider import AccessToken

from tests.adapters.mcp.asgi import endpoint_of
from tests.adapters.mcp.support import build_server
from toolfold import Context, ToolSet
from toolfold_adapters.mcp.http.auth import KnownTokens, digest_of
from toolfold_adapters.mcp.principal import NOBODY, Principal, local_user, principal_of

pytestmark = pytest.mark.spec("DEL-6")

ERAS = ["legacy", "auto"]


def asking(seen: list[Principal]) -> ToolSet:
    """A tool set with a tool that notes who calls it."""
    tools = ToolSet("who")

    @tools.tool
    async def note(context: Context) -> str:
        """Note who asks."""
        seen.append(principal_of(context.request))
        return "noted"

    return tools


@pytest.mark.parametrize("era", ERAS)
async def test_over_http_it_is_whom_the_token_is_of(era: str) -> None:
    seen: list[Principal] = []
    async with endpoint_of(build_server(asking(seen)), authenticated=True) as endpoint:
        for token in ("ada", "app-here-ada"):
            async with Client(endpoint.target(authorization=f"Bearer {token}"), mode=era) as client:
                await client.call_tool("note", {})
    first, second = seen
    assert (first.name, first.issuer, first.client) == ("ada", "issuer", "client")
    assert (second.name, second.issuer, second.client, dict(second.claims)) == ("ada", "here", "app", {"iss": "here"})


@pytest.mark.parametrize("era", ERAS)
async def test_without_a_token_it_is_the_user_of_the_machine_and_over_http_nobody(era: str) -> None:
    seen: list[Principal] = []
    server = build_server(asking(seen))
    async with Client(server, mode=era) as client:
        await client.call_tool("note", {})
    async with endpoint_of(server) as endpoint, endpoint.client(era) as client:
        await client.call_tool("note", {})
    assert seen == [local_user(), NOBODY]
    assert [one.authenticated for one in seen] == [False, False]
    assert (str(seen[0]), str(seen[1])) == (getpass.getuser(), "nobody")


async def test_a_token_of_the_file_is_of_its_name_and_of_no_issuer() -> None:
    token = await KnownTokens({digest_of("a long token of ada's"): "ada"}).verify_token("a long token of ada's")
    assert token is not None
    assert Principal.of(token) == Principal("ada", None, "ada")


def token(subject: str | None, issuer: str | None, client: str = "app", **claims: Any) -> Principal:
    return Principal.of(
        AccessToken(token="t", client_id=client, scopes=[], subject=subject, claims={"iss": issuer, **claims})
    )


def test_a_person_is_the_same_through_every_client_and_nobody_elses_namesake() -> None:
    ada = token("ada", "here")
    assert ada == token("ada", "here", role="admin")
    assert ada.key != token("ada", "here", "other").key
    assert ada.identity == token("ada", "here", "other").identity
    others = [token("ada", "there"), token("ada", None), token("bob", "here"), token(None, "here", "ada"), NOBODY]
    assert len({ada.identity, *(other.identity for other in others)}) == 6
    assert len({ada.key, *(other.key for other in others)}) == 6


def test_what_a_token_says_is_not_in_what_is_logged_of_its_caller() -> None:
    ada = token("ada", "here", email="ada@example.org")
    assert "ada@" not in f"{ada!r}{ada}"


def test_a_user_without_a_name_is_known_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise OSError

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert local_user.__wrapped__() == Principal("user")
