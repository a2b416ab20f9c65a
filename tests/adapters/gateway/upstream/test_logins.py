"""Whose a login is, and which addresses a server may have the gateway ask for one."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from attrs import define, field
from mcp.shared.auth import AuthorizationCodeResult

from toolfold_adapters.gateway import UpstreamConfig
from toolfold_adapters.gateway.config.settings import OAuthConfig
from toolfold_adapters.gateway.upstream import redirect
from toolfold_adapters.gateway.upstream.life import LoginFailed
from toolfold_adapters.gateway.upstream.logins import login_at, login_key
from toolfold_adapters.gateway.upstream.redirect import Reach

pytestmark = pytest.mark.spec("GWY-8")

URL = "https://mcp.example.org/mcp"
HOSTS: Mapping[str, Sequence[str]] = {
    "mcp.example.org": ["93.184.216.34"],
    "login.example.org": ["93.184.216.35", "2606:2800:220:1::1"],
    "inside.example.org": ["10.1.2.3"],
    "both.example.org": ["93.184.216.35", "127.0.0.1"],
    "localhost": ["127.0.0.1", "::1"],
}


async def addresses(host: str) -> Sequence[str]:
    return HOSTS.get(host, [])


@pytest.mark.parametrize(
    ("first", "second", "one"),
    [
        ({}, {}, True),
        ({}, {"headers": {"X-Tenant": "a"}}, False),
        ({"headers": {"X-Tenant": "a"}}, {"headers": {"X-Tenant": "b"}}, False),
        ({"headers": {"X-Tenant": "a", "Y": "1"}}, {"headers": {"y": "1", "x-tenant": "a"}}, True),
        ({}, {"oauth": OAuthConfig(client_id="a")}, False),
        ({"oauth": OAuthConfig(client_id="a")}, {"oauth": OAuthConfig(client_id="b")}, False),
        ({"oauth": OAuthConfig(client_id="a")}, {"oauth": OAuthConfig(client_id="a", callback_port=1)}, True),
    ],
)
def test_two_entries_share_a_login_only_if_they_ask_as_the_same(
    first: dict[str, Any], second: dict[str, Any], one: bool
) -> None:
    keys = {login_key(URL, UpstreamConfig(url=URL, **each)) for each in (first, second)}
    assert (len(keys) == 1) is one


def test_callers_and_urls_have_logins_of_their_own_and_old_ones_are_found_by_their_url() -> None:
    config = UpstreamConfig(url=URL)
    assert login_key(URL, config) == URL
    assert len({login_key(URL, config), login_key(f"{URL}/", config), login_key(URL, config, "alice")}) == 3


@pytest.mark.parametrize(
    ("server", "asked", "why"),
    [
        (URL, "https://login.example.org/x", None),
        (URL, "https://mcp.example.org/x", None),
        (URL, "https://unknown.example.org/x", None),
        (URL, "http://127.0.0.1:6379/", "loopback"),
        (URL, "http://localhost/", "loopback"),
        (URL, "http://0.0.0.0/", "loopback"),
        (URL, "http://[::1]/", "loopback"),
        (URL, "http://[::ffff:127.0.0.1]/", "loopback"),
        (URL, "http://169.254.169.254/latest/meta-data", "link-local"),
        (URL, "http://[fe80::1%25eth0]/", "link-local"),
        (URL, "http://192.168.0.1/", "private"),
        (URL, "http://100.64.0.1/", "private"),
        (URL, "http://[fd00::1]/", "private"),
        (URL, "https://inside.example.org/", "private"),
        (URL, "https://both.example.org/", "loopback"),
        (URL, "file:///etc/passwd", "no address of a web server"),
        (URL, "javascript:alert(1)", "no address of a web server"),
        ("http://localhost:9000/mcp", "http://127.0.0.1:9001/", None),
        ("http://localhost:9000/mcp", "https://inside.example.org/", None),
        ("https://inside.example.org/mcp", "http://10.9.9.9/", None),
        ("https://inside.example.org/mcp", "http://127.0.0.1/", "loopback"),
        ("http://10.0.0.1/mcp", "http://169.254.169.254/", "link-local"),
    ],
)
async def test_a_server_elsewhere_has_nothing_asked_on_this_machine_or_its_networks(
    server: str, asked: str, why: str | None
) -> None:
    reach = Reach(server, addresses)
    if why is None:
        await reach.check(asked)
        return
    with pytest.raises(LoginFailed, match=why):
        await reach.check(asked)


METADATA = {"resource": URL, "authorization_servers": ["http://127.0.0.1:8500"]}
ELSEWHERE = {"resource": URL, "authorization_servers": ["https://login.example.org"]}
LOCAL_ENDPOINT = {
    "issuer": "https://login.example.org",
    "authorization_endpoint": "https://login.example.org/a",
    "token_endpoint": "https://login.example.org/t",
    "registration_endpoint": "http://169.254.169.254/register",
}


@pytest.mark.parametrize(
    ("challenge", "bodies", "host"),
    [
        ('Bearer resource_metadata="http://127.0.0.1:8500/v1/kv"', [], "127.0.0.1"),
        ("Bearer", [METADATA], "127.0.0.1"),
        ("Bearer", [ELSEWHERE, LOCAL_ENDPOINT], "169.254.169.254"),
    ],
)
async def test_a_login_ends_before_an_address_of_this_machine_is_asked(
    tmp_path: Path, challenge: str, bodies: list[Any], host: str
) -> None:
    asked: list[str] = []
    answers = [httpx2.Response(401, headers={"www-authenticate": challenge}) for _ in range(2)]
    answers += [httpx2.Response(200, content=json.dumps(one).encode()) for one in bodies]

    async def play() -> None:
        flow = login_at(URL, UpstreamConfig(url=URL), tmp_path, None, addresses).async_auth_flow(
            httpx2.Request("POST", URL)
        )
        sent = await anext(flow)
        for answer in answers:
            asked.append(str(sent.url.host))
            answer.request = sent
            sent = await flow.asend(answer)

    with pytest.raises(LoginFailed, match=f"a login at {host}"):
        await play()
    assert asked
    assert host not in asked


SERVER = {
    "issuer": "https://login.example.org",
    "authorization_endpoint": "https://login.example.org/authorize",
    "token_endpoint": "https://login.example.org/renewed",
    "response_types_supported": ["code"],
}
CLIENT = {"client_id": "c", "redirect_uris": ["http://127.0.0.1:1/callback"], "token_endpoint_auth_method": "none"}
OLD = {"access_token": "old", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "again"}


def stored(folder: Path, **more: Any) -> None:
    """Store a login of an earlier run."""
    name = hashlib.sha256(URL.encode()).hexdigest()
    (folder / f"{name}.json").write_text(json.dumps({"tokens": OLD, "client": CLIENT, "server": SERVER, **more}))


async def sent_by(folder: Path, refused: int) -> list[tuple[str, str]]:
    """Return what is sent for one request: where, and with which token; `refused` tells how often it gets a 401."""
    sent: list[tuple[str, str]] = []
    flow = login_at(URL, UpstreamConfig(url=URL), folder, None, addresses).async_auth_flow(httpx2.Request("POST", URL))
    with suppress(StopAsyncIteration):
        request = await anext(flow)
        while True:
            sent.append((str(request.url), request.headers.get("Authorization", "")))
            at_server = str(request.url) == URL
            status = 401 if at_server and refused else 200
            refused -= at_server and refused > 0
            new = {"access_token": "new", "token_type": "Bearer", "expires_in": 3600}
            request = await flow.asend(httpx2.Response(status, json=None if at_server else new, request=request))
    return sent


@pytest.mark.spec("GWY-8")
@pytest.mark.parametrize(
    ("since", "sent"),
    [
        (-8 * 3600, [(URL, ""), (SERVER["token_endpoint"], ""), (URL, "Bearer new")]),
        (+3600, [(URL, ""), (URL, "Bearer old")]),
    ],
    ids=["expired", "valid"],
)
async def test_a_login_of_an_earlier_run_is_refreshed_once_it_has_expired_and_nobody_is_asked(
    since: float, sent: list[tuple[str, str]], tmp_path: Path
) -> None:
    stored(tmp_path, expires_at=time.time() + since)
    assert await sent_by(tmp_path, refused=1) == sent
    if since < 0:
        assert await sent_by(tmp_path, refused=1) == [(URL, ""), (URL, "Bearer new")]


@pytest.mark.spec("GWY-8")
async def test_a_token_that_is_refused_before_its_time_is_refreshed_too(tmp_path: Path) -> None:
    stored(tmp_path, expires_at=time.time() + 3600)
    flow = login_at(URL, UpstreamConfig(url=URL), tmp_path, None, addresses)
    for refused, last in ((1, "Bearer old"), (1, "Bearer new")):
        request, sent = httpx2.Request("POST", URL), list[httpx2.Request]()
        steps, left = flow.async_auth_flow(request), refused
        with suppress(StopAsyncIteration):
            sent.append(await anext(steps))
            while True:
                at_server = str(sent[-1].url) == URL
                status, left = (401, left - 1) if at_server and left else (200, left)
                body = None if at_server else {**OLD, "access_token": "new"}
                sent.append(await steps.asend(httpx2.Response(status, json=body, request=sent[-1])))
        assert sent[-1].headers["Authorization"] == last


SECRET = "the-secret-of-the-client"
FIRST, SECOND, OWN = "https://login.example.org", "https://evil.example.com", "https://mcp.example.org"


def named(**more: Any) -> UpstreamConfig:
    return UpstreamConfig(url=URL, oauth=OAuthConfig(client_id="team", client_secret=SECRET, **more))


@define
class World:
    """A server that answers 401 and says to log in at one of some servers, and all of these; `asked` has what came."""

    advertised: Sequence[str]
    asked: list[httpx2.Request] = field(factory=list)
    token: str = field(factory=token_hex)

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        path, origin = request.url.path, f"https://{request.url.host}"
        if request.headers.get("authorization") == f"Bearer {self.token}":
            return httpx2.Response(200)
        if "oauth-protected-resource" in path:
            if not self.advertised:
                return httpx2.Response(404)
            return httpx2.Response(200, json={"resource": URL, "authorization_servers": list(self.advertised)})
        if ".well-known" in path:
            found = {name: f"{origin}/{name}" for name in ("authorization_endpoint", "token_endpoint")}
            return httpx2.Response(200, json={"issuer": origin, "response_types_supported": ["code"], **found})
        if path == "/token_endpoint":
            return httpx2.Response(200, json={"access_token": self.token, "token_type": "Bearer"})
        return httpx2.Response(401)

    @property
    def trusted(self) -> set[str]:
        """The servers that got the secret."""
        return {f"https://{one.url.host}" for one in self.asked if SECRET in one.content.decode()}


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pages that the user was sent to, from which they come back at once."""
    shown: list[str] = []

    async def back(redirect: Any) -> AuthorizationCodeResult:
        shown.append(redirect._page)
        return AuthorizationCodeResult(code="c", state=parse_qs(urlsplit(redirect._page).query)["state"][0])

    monkeypatch.setattr(redirect.Redirect, "result", back)
    return shown


async def log_in(folder: Path, config: UpstreamConfig, world: World) -> None:
    """Have a server asked whose answer is 401, by a gateway that has just started."""
    request = httpx2.Request("POST", URL)
    flow = login_at(URL, config, folder, None, addresses).async_auth_flow(request)
    with suppress(StopAsyncIteration):
        sent = await anext(flow)
        while True:
            answer = world.answer(sent)
            answer.request = sent
            if sent is request:
                sent.headers.pop("authorization", None)
            sent = await flow.asend(answer)


@pytest.mark.parametrize(
    ("issuer", "advertised", "trusted"),
    [
        (None, [FIRST], FIRST),
        (None, [], OWN),
        (FIRST, [FIRST], FIRST),
        (f"{FIRST}/", [FIRST], FIRST),
        (FIRST, [SECOND, FIRST], FIRST),
        (FIRST, [SECOND], FIRST),
        (FIRST, [], None),
        (OWN, [SECOND], OWN),
    ],
)
async def test_the_secret_of_a_client_is_sent_to_the_issuer_of_its_entry_alone(
    tmp_path: Path, pages: list[str], issuer: str | None, advertised: list[str], trusted: str | None
) -> None:
    world = World(advertised)
    if trusted is None:
        with pytest.raises(LoginFailed, match=f"a login at {OWN}.*oauth.issuer = '{FIRST}'"):
            await log_in(tmp_path, named(issuer=issuer), world)
    else:
        await log_in(tmp_path, named(issuer=issuer), world)
    assert world.trusted == ({trusted} if trusted else set())
    assert len(pages) == len(world.trusted)


@pytest.mark.parametrize(("first", "later"), [([FIRST], [SECOND]), ([FIRST], []), ([], [SECOND])])
async def test_a_server_that_names_another_issuer_later_gets_neither_the_secret_nor_the_user_there(
    tmp_path: Path, pages: list[str], first: list[str], later: list[str]
) -> None:
    await log_in(tmp_path, named(), World(first))
    world = World(later)
    before, now = (first or [OWN])[0], (later or [OWN])[0]
    with pytest.raises(LoginFailed, match=f"a login at {now}.*logged in at {before}.*add issuer = '{now}'"):
        await log_in(tmp_path, named(), world)
    assert world.trusted == set()
    assert len(pages) == 1
    await log_in(tmp_path, named(issuer=now), world)
    assert world.trusted == {now}


async def test_the_issuer_of_the_first_login_is_used_again_wherever_it_stands_among_others(
    tmp_path: Path, pages: list[str]
) -> None:
    await log_in(tmp_path, named(), World([FIRST]))
    world = World([SECOND, FIRST])
    await log_in(tmp_path, named(), world)
    assert world.trusted == {FIRST}
    assert len(pages) == 2
