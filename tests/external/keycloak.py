"""Keycloak, an identity provider that others wrote, with the realm of `deploy/callers`, and people with browsers.

It is a distribution that was built (`bin/kc.sh build --db=dev-mem`), in the folder that
`TESTS_KEYCLOAK` names. Each test run has a process of its own, whose database is in memory.
"""

from __future__ import annotations

import html
import json
import os
import re
import secrets
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from string import Template
from typing import IO, Any

import httpx2
from attrs import define, field

from tests.process.ports import free_port

VARIABLE = "TESTS_KEYCLOAK"
REALM = Path(__file__).parents[2] / "deploy/callers/realm.json"
START_SECONDS = 90
ADMIN = "admin"
JAVA = "-XX:TieredStopAtLevel=1"
"""An option with which it starts faster, and is slower later."""


def folder() -> Path | None:
    """Return where it is, if it is there."""
    named = Path(os.environ.get(VARIABLE, ""))
    return named if (named / "bin/kc.sh").is_file() else None


@define(eq=False)
class Keycloak:
    """One that runs, whose operator does what the methods say.

    Attributes:
        base: Its address.
        tools_url: The address of the gateway whose callers are its people.
        gateway_secret: That of the gateway's client.
        passwords: Those of people, by name.
        subjects: What people are called in tokens, by name.
    """

    base: str
    tools_url: str = ""
    gateway_secret: str = field(factory=lambda: secrets.token_urlsafe(24))
    passwords: dict[str, str] = field(factory=lambda: {name: secrets.token_urlsafe(12) for name in ("alice", "bob")})
    subjects: dict[str, str] = field(factory=dict[str, str])
    http: httpx2.Client = field(factory=lambda: httpx2.Client(timeout=START_SECONDS))

    @property
    def issuer(self) -> str:
        """The issuer of its tokens."""
        return f"{self.base}/realms/people"

    @property
    def endpoint(self) -> str:
        """Where its endpoints are."""
        return f"{self.issuer}/protocol/openid-connect"

    def asked(self, method: str, path: str, **request: Any) -> Any:
        """Return what its operator is answered, as data if it is any."""
        self.log_in()  # for each request, since a login lasts for a minute
        answer = self.http.request(method, f"{self.base}/admin/realms{path}", **request)
        assert answer.is_success, (method, path, answer.status_code, answer.text)
        return answer.json() if answer.content else answer.headers.get("location")

    def is_ready(self) -> bool:
        """Return whether it answers."""
        try:
            return httpx2.get(f"{self.base}/realms/master", timeout=START_SECONDS).is_success
        except httpx2.TransportError:
            return False

    def set_up(self) -> None:
        """Create the realm of the gateway, with Alice, who has the role `admin`, and Bob."""
        values = {
            "TOOLS_URL": self.tools_url,
            "GATEWAY_SECRET": self.gateway_secret,
            "FIRST_PASSWORD": self.passwords["alice"],
        }
        realm: dict[str, Any] = json.loads(Template(REALM.read_text(encoding="utf-8")).substitute(values))
        self.asked("POST", "", json=realm)
        self.add_person("bob")

    def add_person(self, name: str) -> None:
        """Add somebody who has no role of his own."""
        password = {"type": "password", "value": self.passwords[name]}
        person = {"username": name, "email": f"{name}@example.org", "firstName": name, "lastName": "Example"}
        known = {"enabled": True, "emailVerified": True, "credentials": [password]}
        self.asked("POST", "/people/users", json={**person, **known})
        self.subjects |= {user["username"]: user["id"] for user in self.asked("GET", "/people/users")}

    def log_in(self) -> None:
        """Have its operator logged in."""
        given = {"grant_type": "password", "client_id": "admin-cli", "username": ADMIN, "password": ADMIN}
        answer = self.http.post(f"{self.base}/realms/master/protocol/openid-connect/token", data=given)
        self.http.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"

    def end_sessions(self, name: str) -> None:
        """Have somebody logged out everywhere, and what clients may do while she is not there end, too."""
        person = f"/people/users/{self.subjects[name]}"
        self.asked("POST", f"{person}/logout")
        for granted in self.asked("GET", f"{person}/consents"):
            self.asked("DELETE", f"{person}/consents/{granted['clientId']}")

    def new_key(self) -> None:
        """Have it sign with a new key from now on."""
        config = {"priority": ["1000"], "algorithm": ["RS256"]}
        realm = (self.asked("GET", "/people"))["id"]
        kind = "org.keycloak.keys.KeyProvider"
        key = {"name": secrets.token_hex(4), "providerId": "rsa-generated", "providerType": kind, "parentId": realm}
        self.asked("POST", "/people/components", json={**key, "config": config})

    def retire_keys(self) -> None:
        """Have it accept and publish none of the keys but the newest."""
        kind = "org.keycloak.keys.KeyProvider"
        for key in self.asked("GET", "/people/components", params={"type": kind}):
            if key["providerId"] == "rsa-generated" and key["config"].get("priority") != ["1000"]:
                key["config"] |= {"active": ["false"], "enabled": ["false"]}
                self.asked("PUT", f"/people/components/{key['id']}", json=key)

    def add_scope(self, name: str, **audience: str) -> str:
        """Add a scope whose tokens are for somebody, and return its id."""
        mapper = {"name": "for", "protocol": "openid-connect", "protocolMapper": "oidc-audience-mapper"}
        config = {**{f"included.{kind}.audience": one for kind, one in audience.items()}, "access.token.claim": "true"}
        scope = {"name": name, "protocol": "openid-connect", "attributes": {"include.in.token.scope": "true"}}
        subject = {
            **mapper,
            "name": "who",
            "protocolMapper": "oidc-sub-mapper",
            "config": {"access.token.claim": "true"},
        }
        mappers = [{**mapper, "config": config}, subject]
        at = self.asked("POST", "/people/client-scopes", json={**scope, "protocolMappers": mappers})
        return str(at.rpartition("/")[2])

    def add_optional_scope(self, name: str, audience: str) -> None:
        """Add one that clients which register themselves may ask for."""
        self.asked("PUT", f"/people/default-optional-client-scopes/{self.add_scope(name, custom=audience)}")

    def add_server(self, name: str) -> None:
        """Add a server that takes tokens for itself, which the gateway may have those of people exchanged for."""
        self.add_client({"clientId": name, "bearerOnly": True})
        (gateway,) = self.asked("GET", "/people/clients", params={"clientId": "toolfold"})
        scope = self.add_scope(f"{name}-by-the-gateway", client=name)
        self.asked("PUT", f"/people/clients/{gateway['id']}/default-client-scopes/{scope}")

    def add_client(self, client: Mapping[str, Any]) -> None:
        """Add a client to the realm."""
        self.asked("POST", "/people/clients", json=client)

    def token_for(self, client: str, name: str, scopes: Sequence[str] = ()) -> str:
        """Return a token of somebody's for a new client, with these scopes alone."""
        given = {"clientId": client, "publicClient": True, "directAccessGrantsEnabled": True}
        self.add_client({**given, "defaultClientScopes": [*scopes], "optionalClientScopes": []})
        login = {"grant_type": "password", "client_id": client, "username": name, "password": self.passwords[name]}
        answer = httpx2.post(f"{self.endpoint}/token", data=login, timeout=START_SECONDS)
        assert answer.is_success, answer.text
        return str(answer.json()["access_token"])


@define(eq=False)
class Person:
    """Somebody with a browser, who logs in where Keycloak asks for that.

    Attributes:
        name: What she is called there.
        password: Her password.
        http: The browser.
        asked: How often she was asked for her password.
    """

    name: str
    password: str
    http: httpx2.AsyncClient = field(factory=lambda: httpx2.AsyncClient(timeout=START_SECONDS, cookies=_cookies()))
    asked: int = 0

    async def opened(self, url: str, *, until: str = "\0", **request: Any) -> httpx2.Response:
        """Open an address and follow it; log in where a page of Keycloak asks; return what is shown last.

        Args:
            url: The address.
            until: Where it stops: how an address begins that is not requested.
            request: How the first request is made.
        """
        answer = await self.http.request(request.pop("method", "GET"), url, **request)
        for _ in range(20):
            if answer.is_redirect:
                url = str(answer.url.join(answer.headers["location"]))
                if url.startswith(until):
                    return answer
                answer = await self.http.get(url)
            elif form := re.search(r'<form id="kc-form-login"[^>]* action="([^"]+)"', answer.text):
                self.asked += 1
                given = {"username": self.name, "password": self.password}
                answer = await self.http.post(html.unescape(form[1]), data=given)
            else:
                return answer
        raise AssertionError(f"no end of redirects: {url}")


def _cookies() -> CookieJar:
    """Return cookies of a browser, to which this machine is a secure place without TLS, too."""
    return CookieJar(DefaultCookiePolicy(secure_protocols=("http", "https")))


@contextmanager
def running(home: Path, environment: Mapping[str, str], log: IO[bytes]) -> Generator[Keycloak]:
    """Start it, and yield it once it is ready; it is ended at the end.

    Args:
        home: Where it is.
        environment: What its process has in its environment, beside options of its own.
        log: Where it writes what it does.
    """
    port = free_port()
    options = ["--cache=local", "--http-enabled=true", "--http-host=127.0.0.1", f"--http-port={port}"]
    admin = {"KC_BOOTSTRAP_ADMIN_USERNAME": ADMIN, "KC_BOOTSTRAP_ADMIN_PASSWORD": ADMIN}
    process = subprocess.Popen(
        [str(home / "bin/kc.sh"), "start", "--optimized", "--hostname-strict=false", *options],
        env={**environment, **admin, "JAVA_OPTS_APPEND": JAVA},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    keycloak = Keycloak(f"http://127.0.0.1:{port}")
    try:
        while not keycloak.is_ready():
            assert process.poll() is None, f"it ended: see {log.name}"
            time.sleep(0.1)
        with keycloak.http:
            yield keycloak
    finally:
        process.terminate()
        process.wait()
