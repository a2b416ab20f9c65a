"""Whose a login is, and which addresses a server may have the gateway ask for one."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import httpx2
import pytest
from attrs import define, field
from mcp.shared.auth import AuthorizationCodeResult

from toolfold_adapters.gateway import UpstreamConfig
from toolfold_adapters.gateway.config.settings import OAuthConfig
from toolfold_adapters.gateway.stored import Files
from toolfold_adapters.gateway.upstream import redirect
from toolfold_adapters.gateway.upstream.http import to_address
from toolfold_adapters.gateway.upstream.life import LoginFailed
from toolfold_adapters.gateway.upstream.logins import Login, forget_own, login_at, login_key
from toolfold_adapters.gateway.upstream.redirect import Reach
from toolfold_adapters.gateway.upstream.tokens import STORED

pytestmark = pytest.mark.spec("GWY-8")

URL = "https://mcp.example.org/mcp"
NAME = "board"
HOSTS: Mapping[str, Sequence[str]] = {
    "mcp.example.org": ["93.184.216.34"],
    "login.example.org": ["93.184.216.35", "2606:2800:220:1::1"],
    "inside.example.org": ["10.1.2.3"],
    "both.example.org": ["93.184.216.35", "127.0.0.1"],
    "localhost": ["127.0.0.1", "::1"],
    "evil.example.com": ["93.184.216.36"],
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
    keys = {login_key(NAME, UpstreamConfig(url=URL, **each)) for each in (first, second)}
    assert (len(keys) == 1) is one


def test_callers_urls_and_entries_have_logins_of_their_own() -> None:
    config, slash = UpstreamConfig(url=URL), UpstreamConfig(url=f"{URL}/")
    keys = [login_key("work", config), login_key("home", config), login_key("work", slash)]
    assert len({*keys, login_key("work", config, "alice")}) == 4


@pytest.mark.parametrize(
    ("server", "asked", "why"),
    [
        (URL, "https://login.example.org/x", None),
        (URL, "https://mcp.example.org/x", None),
        (URL, "https://unknown.example.org/x", "no address"),
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
        (URL, "http://LOCALHOST./", "loopback"),
        (URL, "http://any.localhost/", "loopback"),
        (URL, "http://[64:ff9b::7f00:1]/", "loopback"),
        (URL, "http://[2002:a9fe:a9fe::1]/", "link-local"),
        (URL, "http://[2001:0:4136:e378:8000:63bf:80ff:fffe]/", "loopback"),
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


async def test_what_only_a_proxy_can_find_is_left_to_it() -> None:
    reach = Reach(URL, addresses, lambda url: True)
    assert await reach.check("https://unknown.example.org/x") is None
    assert await reach.check("https://login.example.org/x") is None
    with pytest.raises(LoginFailed, match="private"):
        await reach.check("https://inside.example.org/x")


class Rebound:
    """Addresses that change: a name stands for each of its addresses once, and then for the last one."""

    def __init__(self, *found: Sequence[str]) -> None:
        self.found = list(found)

    async def __call__(self, host: str) -> Sequence[str]:
        return self.found.pop(0) if len(self.found) > 1 else self.found[0]


class Peer:
    """The connection over which a server has answered."""

    def __init__(self, address: str) -> None:
        self.address = address

    def get_extra_info(self, name: str) -> tuple[str, int]:
        assert name == "server_addr"
        return self.address, 443


async def sent_to(
    asked: str, found: Rebound, folder: Path, *, peer: str = "93.184.216.34", answers: int = 2
) -> list[httpx2.Request]:
    """Return what is sent after some answers of a server that wants a login at an address, and of that."""
    flow = login_at(NAME, UpstreamConfig(url=URL), folder, None, found).async_auth_flow(httpx2.Request("POST", URL))
    challenge, sent = {"www-authenticate": f'Bearer resource_metadata="{asked}"'}, list[httpx2.Request]()
    request = await anext(flow)
    for _ in range(answers):
        status = 401 if str(request.url) == URL else 404
        answer = httpx2.Response(status, headers=challenge, request=request, extensions={"network_stream": Peer(peer)})
        request = await flow.asend(answer)
        sent += [request] if str(request.url) != URL else []
    await flow.aclose()
    return sent


async def test_what_is_asked_for_a_login_is_the_address_that_was_checked(tmp_path: Path) -> None:
    (sent, *_) = await sent_to("https://login.example.org/x", Rebound(["93.184.216.35"], ["127.0.0.1"]), tmp_path)
    assert sent.url.host == "login.example.org"
    await to_address(sent)
    assert (sent.url.host, sent.headers["host"]) == ("93.184.216.35", "login.example.org")
    assert sent.extensions["sni_hostname"] == "login.example.org"
    assert sent.headers["connection"] == "close"


@pytest.mark.parametrize(
    ("asked", "found", "peer", "why"),
    [
        ("https://login.example.org/x", [["127.0.0.1"]], "93.184.216.34", "loopback"),
        ("https://login.example.org/x", [["10.0.0.1"]], "93.184.216.34", "private"),
        ("https://mcp.example.org:8443/x", [["127.0.0.1"]], "93.184.216.34", "loopback"),
        ("https://mcp.example.org:8443/x", [["169.254.169.254"]], "93.184.216.34", "link-local"),
        ("https://login.example.org/x", [["127.0.0.1"], ["127.0.0.1"]], "10.0.0.1", "loopback"),
        ("https://login.example.org/x", [["93.184.216.35"], ["127.0.0.1"]], "93.184.216.34", "loopback"),
        ("https://login.example.org/x", [[]], "93.184.216.34", "no address"),
    ],
    ids=["other", "private", "own name", "own name link-local", "from a network", "second time", "none"],
)
async def test_a_name_that_has_come_to_stand_for_this_machine_is_not_asked(
    asked: str, found: list[list[str]], peer: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(LoginFailed, match=why):
        await sent_to(asked, Rebound(*found), tmp_path, peer=peer, answers=3)


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
        flow = login_at(NAME, UpstreamConfig(url=URL), tmp_path, None, addresses).async_auth_flow(
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
OLD: dict[str, Any] = {"access_token": "old", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "again"}


def stored(folder: Path, key: str = URL, **more: Any) -> None:
    """Store a login of an earlier run, by default of an earlier version."""
    name = hashlib.sha256(key.encode()).hexdigest()
    (folder / f"{name}.json").write_text(json.dumps({"tokens": OLD, "client": CLIENT, "server": SERVER, **more}))


async def sent_by(folder: Path, refused: int) -> list[tuple[str, str]]:
    """Return what is sent for one request: where, and with which token; `refused` tells how often it gets a 401."""
    sent: list[tuple[str, str]] = []
    flow = login_at(NAME, UpstreamConfig(url=URL), folder, None, addresses).async_auth_flow(httpx2.Request("POST", URL))
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
    flow = login_at(NAME, UpstreamConfig(url=URL), tmp_path, None, addresses)
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
    """A server that answers 401 and says to log in at one of some servers, and all of these; `asked` has what came.

    All that a server gives has the name of its host; `alive` has what of it counts. Those that are `silent` have no
    metadata, and one that registers clients gives them the secret `registered`, if there is one.
    """

    advertised: Sequence[str]
    silent: bool = False
    registered: str | None = None
    asked: list[httpx2.Request] = field(factory=list)
    alive: set[str] = field(factory=set)

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        path, host = request.url.path, request.url.host
        if request.headers.get("authorization", "").removeprefix("Bearer ") in self.alive:
            return httpx2.Response(200)
        if "oauth-protected-resource" in path:
            if not self.advertised:
                return httpx2.Response(404)
            return httpx2.Response(200, json={"resource": URL, "authorization_servers": list(self.advertised)})
        if ".well-known" in path:
            return httpx2.Response(404) if self.silent else httpx2.Response(200, json=metadata_of(f"https://{host}"))
        given = parse_qs(request.content.decode()) if request.method == "POST" else {}
        if path == "/registration_endpoint":
            secret = self.registered and f"{self.registered}-of-{host}"
            client = {**json.loads(request.content), "client_id": f"client-of-{host}", "client_secret": secret}
            return httpx2.Response(201, json={**client, "token_endpoint_auth_method": method_of(secret)})
        if path == "/token_endpoint":
            if (again := given.get("refresh_token", [""])[0]) and again not in self.alive:
                return httpx2.Response(400, json={"error": "invalid_grant"})
            return httpx2.Response(200, json=self.tokens(host))
        return httpx2.Response(401)

    def tokens(self, host: str) -> dict[str, str]:
        """Give new tokens."""
        new = {name: f"{name}-{token_hex()}-of-{host}" for name in ("access_token", "refresh_token")}
        self.alive.update(new.values())
        return {**new, "token_type": "Bearer"}

    def end(self, kinds: str) -> None:
        """Have tokens of these kinds count no more."""
        self.alive = {one for one in self.alive if not one.startswith(tuple(kinds.split()))}

    @property
    def trusted(self) -> set[str]:
        """The servers that got the secret."""
        return {f"https://{one.url.host}" for one in self.asked if SECRET in one.content.decode()}

    @property
    def strayed(self) -> set[tuple[str, str]]:
        """What one server gave, and another one got: where the requests went, and whose it was."""
        sent = [(one, unquote(f"{one.url} {one.headers} {one.content.decode()}")) for one in self.asked]
        got = {(one.url.host, host) for one, text in sent for host in HOSTS if f"-of-{host}" in text}
        return {(at, host) for at, host in got if at != host and at != urlsplit(URL).hostname}


def metadata_of(issuer: str) -> dict[str, Any]:
    found = ("authorization_endpoint", "token_endpoint", "registration_endpoint")
    return {"issuer": issuer, "response_types_supported": ["code"], **{name: f"{issuer}/{name}" for name in found}}


def method_of(secret: str | None) -> str:
    return "none" if secret is None else "client_secret_post"


@define
class Pages:
    """The pages that the user was sent to, from which they come back at once, unless they stay `away`."""

    shown: list[str] = field(factory=list)
    away: bool = False

    def __len__(self) -> int:
        return len(self.shown)

    def __iter__(self) -> Iterator[str]:
        return iter(self.shown)

    async def back(self, shown: Any) -> AuthorizationCodeResult:
        self.shown.append(shown._page)
        if self.away:
            raise LoginFailed("away")
        parts = urlsplit(shown._page)
        return AuthorizationCodeResult(code=f"code-of-{parts.hostname}", state=parse_qs(parts.query)["state"][0])


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Pages:
    pages = Pages()

    async def back(shown: Any) -> AuthorizationCodeResult:
        return await pages.back(shown)

    monkeypatch.setattr(redirect.Redirect, "result", back)
    return pages


async def asked(login: Login, world: World) -> int:
    """Return the status that a request ends with."""
    request = httpx2.Request("POST", URL)
    flow = login.async_auth_flow(request)
    status = 0
    with suppress(StopAsyncIteration):
        sent = await anext(flow)
        while True:
            answer = world.answer(httpx2.Request(sent.method, sent.url, headers=sent.headers, content=sent.content))
            answer.request = sent
            status = answer.status_code
            sent = await flow.asend(answer)
    return status


async def log_in(folder: Path, config: UpstreamConfig, world: World) -> None:
    """Have a server asked whose tokens have ended, by a gateway that has just started."""
    world.end("access_token refresh_token")
    assert await asked(login_at(NAME, config, folder, None, addresses), world) == 200


@pytest.mark.parametrize(
    ("issuer", "advertised", "trusted"),
    [
        (None, [FIRST], FIRST),
        (None, [], OWN),
        (FIRST, [FIRST], FIRST),
        (f"{FIRST}/", [FIRST], FIRST),
        (FIRST, [SECOND, FIRST], FIRST),
        (FIRST, [SECOND], FIRST),
        (FIRST, [], FIRST),
        (OWN, [SECOND], OWN),
    ],
)
async def test_the_secret_of_a_client_is_sent_to_the_issuer_of_its_entry_alone(
    tmp_path: Path, pages: Pages, issuer: str | None, advertised: list[str], trusted: str
) -> None:
    world = World(advertised)
    await log_in(tmp_path, named(issuer=issuer), world)
    assert world.trusted == {trusted}
    assert len(pages) == 1


@pytest.mark.parametrize(("first", "later"), [([FIRST], [SECOND]), ([FIRST], []), ([], [SECOND])])
async def test_a_server_that_names_another_issuer_later_gets_neither_the_secret_nor_the_user_there(
    tmp_path: Path, pages: Pages, first: list[str], later: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    before, now = (first or [OWN])[0], (later or [OWN])[0]
    await log_in(tmp_path, named(), World(first))
    world = World(later)
    await log_in(tmp_path, named(), world)
    assert world.trusted == {before}
    assert [urlsplit(page).hostname for page in pages] == [urlsplit(before).hostname] * 2
    assert not later or f"a login at {now}, and its tokens are from {before}, where it stays" in caplog.text
    await log_in(tmp_path, named(issuer=now), world)
    assert world.trusted == {before, now}


def forget_metadata(folder: Path) -> None:
    """Have a stored login not say where its tokens are refreshed."""
    (path,) = folder.iterdir()
    path.write_text(json.dumps({**json.loads(path.read_text()), "server": None}))


@pytest.mark.parametrize(
    ("first", "oauth", "why"),
    [
        ([FIRST], {}, "where its tokens are from"),
        ([], {"issuer": FIRST}, "as its entry says: oauth.issuer"),
    ],
)
async def test_a_login_whose_issuer_is_gone_is_sent_nowhere_else(
    tmp_path: Path, pages: Pages, first: list[str], oauth: Mapping[str, str], why: str
) -> None:
    world = World(first)
    if not oauth:
        await log_in(tmp_path, named(), world)
        forget_metadata(tmp_path)
    world = World(first, silent=True)
    shown = len(pages)
    with pytest.raises(LoginFailed, match=rf"its login is at {FIRST} \({why}\).*nothing was sent to {OWN}.*issuer in"):
        await log_in(tmp_path, named(**oauth), world)
    assert (world.trusted, len(pages)) == (set(), shown)


async def test_the_issuer_of_the_first_login_is_used_again_wherever_it_stands_among_others(
    tmp_path: Path, pages: Pages
) -> None:
    await log_in(tmp_path, named(), World([FIRST]))
    world = World([SECOND, FIRST])
    await log_in(tmp_path, named(), world)
    assert world.trusted == {FIRST}
    assert len(pages) == 2


# -- what an issuer has given ------------------------------------------------------------------------------------------

CLIENTS: Mapping[str, tuple[OAuthConfig, str | None]] = {
    "registered": (OAuthConfig(), None),
    "registered with a secret": (OAuthConfig(), "secret"),
    "a URL": (OAuthConfig(client_id="https://client.example.org/me.json"), None),
    "named": (OAuthConfig(client_id="team"), None),
    "named with a secret": (OAuthConfig(client_id="team", client_secret=SECRET), None),
}
REFRESHED, AGAIN, RESTARTED = "refreshed", "again", "restarted"
MOMENTS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "a first login": ([FIRST], []),
    "a refresh": ([FIRST], [REFRESHED]),
    "a restart": ([FIRST], [RESTARTED, REFRESHED]),
    "a 401": ([SECOND], [AGAIN]),
    "a 401 and a refresh": ([SECOND], [AGAIN, REFRESHED]),
    "a 401 after a restart": ([SECOND], [RESTARTED, AGAIN, REFRESHED]),
    "a restart after a 401": ([SECOND], [AGAIN, RESTARTED, REFRESHED]),
    "a refresh after a 401 that led nowhere": ([SECOND], ["away", "refreshable", RESTARTED, REFRESHED]),
    "a login after one that led nowhere": ([SECOND], ["away", AGAIN]),
    "a 401 that says nothing": ([], [AGAIN, RESTARTED, REFRESHED, "away", AGAIN]),
}


@pytest.mark.parametrize("storable", [True, False], ids=["stored", "in memory"])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("kind", CLIENTS)
async def test_what_an_issuer_has_given_is_sent_to_it_alone_and_the_login_goes_on_there(
    tmp_path: Path, pages: Pages, kind: str, moment: str, storable: bool
) -> None:
    oauth, secret = CLIENTS[kind]
    config, folder = UpstreamConfig(url=URL, oauth=oauth), tmp_path / "tokens"
    if not storable:
        folder.touch()
    later, steps = MOMENTS[moment]
    world = World([FIRST], registered=secret)
    login = login_at(NAME, config, folder, None, addresses)
    assert await asked(login, world) == 200
    world.advertised = later
    for step in steps:
        if step == RESTARTED:
            login = login_at(NAME, config, folder, None, addresses) if storable else login
            continue
        world.end("access_token" if step in (REFRESHED, "refreshable") else "access_token refresh_token")
        pages.away = step == "away"
        if pages.away:
            with pytest.raises(LoginFailed, match="away"):
                await asked(login, world)
        else:
            assert await asked(login, world) == 200
    assert world.strayed == set()
    assert {one.url.host for one in world.asked} == {"mcp.example.org", "login.example.org"}
    assert world.trusted <= {FIRST}
    assert {urlsplit(page).hostname for page in pages} == {"login.example.org"}
    assert SECOND not in "".join(path.read_text() for path in folder.glob("*"))


async def test_a_client_that_one_issuer_registered_is_not_sent_to_another_before_the_first_login_either(
    tmp_path: Path, pages: Pages
) -> None:
    world, pages.away = World([FIRST], registered="secret"), True
    with pytest.raises(LoginFailed, match="away"):
        await log_in(tmp_path, UpstreamConfig(url=URL), world)
    world.silent, pages.away = True, False
    with pytest.raises(LoginFailed, match=rf"at {FIRST} \(which registered its client\)"):
        await log_in(tmp_path, UpstreamConfig(url=URL), world)
    assert world.strayed == set()
    world.silent, world.advertised = False, [SECOND]
    await log_in(tmp_path, UpstreamConfig(url=URL), world)
    assert world.strayed == set()


async def test_what_was_obtained_elsewhere_is_left_alone_where_the_entry_names_another_issuer(
    tmp_path: Path, pages: Pages
) -> None:
    world = World([FIRST], registered="secret")
    await log_in(tmp_path, UpstreamConfig(url=URL), world)
    world.end("access_token")
    there = UpstreamConfig(url=URL, oauth=OAuthConfig(issuer=SECOND))
    for _ in range(2):
        assert await asked(login_at(NAME, there, tmp_path, None, addresses), world) == 200
    assert world.strayed == set()
    assert [urlsplit(page).hostname for page in pages] == ["login.example.org", "evil.example.com"]


async def test_a_refresh_token_of_which_nothing_says_whose_it_is_is_sent_nowhere(tmp_path: Path, pages: Pages) -> None:
    stored(tmp_path, server=None, expires_at=1.0)
    world = World([FIRST])
    assert await asked(login_at(NAME, UpstreamConfig(url=URL), tmp_path, None, addresses), world) == 200
    assert not [
        one for one in world.asked if OLD["refresh_token"] in parse_qs(one.content.decode()).get("refresh_token", [])
    ]
    assert len(pages) == 1


# -- two entries of one URL --------------------------------------------------------------------------------------------


async def used(folder: Path, name: str, config: UpstreamConfig, world: World) -> str:
    """Return the token that an entry sends at last, by a gateway that has just started."""
    assert await asked(login_at(name, config, folder, None, addresses), world) == 200
    return world.asked[-1].headers["authorization"]


async def test_two_entries_of_one_url_log_in_for_themselves_and_keep_their_logins(tmp_path: Path, pages: Pages) -> None:
    world, config = World([FIRST]), UpstreamConfig(url=URL)
    first = {name: await used(tmp_path, name, config, world) for name in ("work", "home")}
    assert (len(set(first.values())), len(pages)) == (2, 2)
    assert {name: await used(tmp_path, name, config, world) for name in ("home", "work")} == first
    assert len(pages) == 2
    world.end(first["home"].removeprefix("Bearer "))
    assert await used(tmp_path, "work", config, world) == first["work"]
    assert await used(tmp_path, "home", config, world) not in first.values()


@pytest.mark.parametrize("again", [False, True], ids=["out", "out and in"])
async def test_a_running_gateway_sends_no_token_of_a_login_that_its_user_has_ended(
    tmp_path: Path, pages: Pages, again: bool
) -> None:
    world, config = World([FIRST]), UpstreamConfig(url=URL)
    login = login_at(NAME, config, tmp_path, None, addresses)
    assert await asked(login, world) == await asked(login, world) == 200
    ended = world.asked[-1].headers["authorization"]
    assert forget_own(tmp_path, NAME)
    world.advertised = [SECOND]
    if again:
        await used(tmp_path, NAME, config, world)
    before, shown = len(world.asked), len(pages)
    assert await asked(login, world) == 200
    assert ended not in [one.headers.get("authorization") for one in world.asked[before:]]
    assert len(pages) - shown == (not again)
    now = world.asked[-1].headers["authorization"]
    assert await used(tmp_path, NAME, config, world) == now
    ((_, left),) = Files(tmp_path, "stored tokens", STORED).all()
    assert {"tokens", "client"} <= left.keys()
    world.end("access_token")
    assert await asked(login, world) == 200
    assert [urlsplit(page).hostname for page in pages] == [urlsplit(one).hostname for one in (FIRST, SECOND)]
    assert world.strayed == set()


EARLIER: Mapping[str, tuple[dict[str, Any], str]] = {
    "a URL": ({}, URL),
    "headers": ({"headers": {"X-Tenant": "A"}}, json.dumps(["", URL, [["x-tenant", "A"]], None])),
    "a client": ({"oauth": OAuthConfig(client_id="team")}, json.dumps(["", URL, [], "team"])),
}
"""What an entry has beside its URL, and what its login was stored under before entries were told apart."""


@pytest.mark.parametrize("kind", EARLIER)
async def test_a_login_from_before_entries_were_told_apart_is_that_of_the_first_one_that_asks(
    kind: str, tmp_path: Path, pages: Pages
) -> None:
    settings, key = EARLIER[kind]
    config, world = UpstreamConfig(url=URL, **settings), World([FIRST])
    world.alive |= {OLD["access_token"], OLD["refresh_token"]}
    stored(tmp_path, key, server=metadata_of(FIRST), issuer=FIRST, expires_at=time.time() + 3600)
    assert await used(tmp_path, "home", config, world) == "Bearer old"
    assert len(pages) == 0
    assert await used(tmp_path, "work", config, world) != "Bearer old"
    assert len(pages) == 1
    assert await used(tmp_path, "home", config, world) == "Bearer old"
    world.end("old")
    after = time.time() + 7200
    with pytest.MonkeyPatch.context() as clock:
        clock.setattr(time, "time", lambda: after)
        assert await used(tmp_path, "home", config, world) not in ("", "Bearer old")  # by a client of another port
    assert len(pages) == 1


async def test_a_client_that_was_registered_earlier_comes_back_to_the_port_that_it_was_registered_with(
    tmp_path: Path, pages: Pages
) -> None:
    world = World([FIRST])
    stored(tmp_path, server=metadata_of(FIRST), issuer=FIRST, expires_at=1.0)
    await used(tmp_path, "home", UpstreamConfig(url=URL), world)
    (page,) = pages
    assert parse_qs(urlsplit(page).query)["redirect_uri"] == CLIENT["redirect_uris"]
    await used(tmp_path, "work", UpstreamConfig(url=URL), world)
    assert [*pages][1].count("redirect_uri=http%3A%2F%2F127.0.0.1%3A1%2F") == 0


async def test_a_login_from_before_headers_counted_is_not_that_of_an_entry_which_has_some(
    tmp_path: Path, pages: Pages, caplog: pytest.LogCaptureFixture
) -> None:
    world = World([FIRST], alive={OLD["access_token"]})
    stored(tmp_path, URL, server=metadata_of(FIRST), issuer=FIRST)
    config = UpstreamConfig(url=URL, headers={"X-Tenant": "a"})
    assert await used(tmp_path, "home", config, world) != "Bearer old"
    assert "it is not used for the one with headers or a client of its own" in caplog.text
