"""Who opens a page of the gateway: somebody who logs in at the issuer of the callers' tokens (SPEC GWY-19).

A browser has no token, and nobody knows his by heart where an issuer gives tokens to clients. So he is sent to the
issuer, comes back with a code, and the token that it is exchanged for is verified as those of all callers are. He is
known for some minutes by a cookie, whose meaning is in the store, encrypted, so that every replica knows him.
"""

from __future__ import annotations

import logging
import secrets
from typing import Any
from urllib.parse import quote, urlencode

import httpx2
from mcp.client.auth.oauth2 import PKCEParameters
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ...mcp.http.auth import Authentication, PeopleLogin, caller_of
from ...mcp.principal import Principal
from ..upstream.life import LoginFailed
from .credentials import Credentials

log = logging.getLogger("toolfold.gateway")

PATH = "/login/person"
"""Where people come back from the issuer."""
KNOWN_SECONDS, LOGIN_SECONDS = 600.0, 600.0
HTTP_SECONDS = 20.0
CALLED = "preferred_username"
"""The claim that says what somebody is called, of subjects that are numbers."""
_COOKIE, _BEGUN = "toolfold-person", "toolfold-person-begun"
_PERSON, _STATE = "person:", "person-state:"


class _Answer(BaseModel):
    access_token: str


class People:
    """Finds out who opens a page.

    Args:
        credentials: Where it is remembered.
        public_url: The address of the pages.
        auth: Whose tokens are accepted.
        login: How people log in there.
    """

    def __init__(self, credentials: Credentials, public_url: str, auth: Authentication, login: PeopleLogin) -> None:
        self._credentials = credentials
        self._base = public_url
        self._auth = auth
        self._login = login

    async def known(self, request: Request) -> Principal | None:
        """Return who a browser is of, if he has logged in; raises `CredentialsUnavailable`."""
        cookie = request.cookies.get(_COOKIE, "")
        said = await self._credentials.recalled(f"{_PERSON}{cookie}") if cookie else None
        return None if said is None else Principal(**said["who"])

    async def sent(self, path: str, headers: dict[str, Any]) -> Response:
        """Return what sends a browser to the issuer, from which it comes back for a path of ours."""
        pkce, state, browser = PKCEParameters.generate(), secrets.token_urlsafe(32), secrets.token_urlsafe(24)
        data = {"path": path, "browser": browser, "verifier": pkce.code_verifier}
        await self._credentials.remember(f"{_STATE}{state}", data, LOGIN_SECONDS)
        query = {
            "response_type": "code",
            "client_id": self._login.client_id,
            "redirect_uri": f"{self._base}{PATH}",
            "scope": " ".join(self._login.scopes),
            "state": state,
            "code_challenge": pkce.code_challenge,
            "code_challenge_method": "S256",
        }
        page = f"{self._login.authorization_endpoint}?{urlencode({name: one for name, one in query.items() if one})}"
        answer = RedirectResponse(page, 303, headers)
        self._set(answer, _BEGUN, browser, LOGIN_SECONDS)
        return answer

    async def came_back(self, request: Request, headers: dict[str, Any]) -> Response | None:
        """Return what sends a browser on that has logged in; `None` for one that was not sent there, or declined.

        Raises:
            LoginFailed: The issuer gives no token that is accepted.
            CredentialsUnavailable: What is remembered can't be read.
        """
        query, browser = request.query_params, request.cookies.get(_BEGUN, "")
        if "code" not in query or "state" not in query or not browser:
            return None
        begun = await self._credentials.recalled(f"{_STATE}{query['state']}")
        if begun is None or not secrets.compare_digest(begun["browser"].encode(), browser.encode()):
            return None
        if query.get("iss", self._issuer).rstrip("/") != self._issuer:
            return None
        if await self._credentials.taken(f"{_STATE}{query['state']}") is None:
            return None
        principal = await caller_of(self._auth, await self._token(query["code"], begun["verifier"]))
        if principal is None:
            raise LoginFailed("the token that the issuer gives is not for this gateway: check login, and its client")
        cookie = secrets.token_urlsafe(32)
        claims = {name: one for name, one in principal.claims.items() if name == CALLED and isinstance(one, str)}
        data = {"name": principal.name, "issuer": principal.issuer, "client": principal.client, "claims": claims}
        await self._credentials.remember(f"{_PERSON}{cookie}", {"who": data}, KNOWN_SECONDS)
        answer = RedirectResponse(f"{self._base}{begun['path']}", 303, headers)
        self._set(answer, _COOKIE, cookie, KNOWN_SECONDS)
        answer.delete_cookie(_BEGUN, path="/login")
        return answer

    @property
    def _issuer(self) -> str:
        return str(self._auth.settings.issuer_url).rstrip("/")

    async def _token(self, code: str, verifier: str) -> str:
        login = self._login
        data = {
            "grant_type": "authorization_code",
            "code": code,
            "code_verifier": verifier,
            "redirect_uri": f"{self._base}{PATH}",
        }
        client = httpx2.BasicAuth(quote(login.client_id, safe=""), quote(login.client_secret, safe=""))  # RFC 6749
        try:
            async with httpx2.AsyncClient(timeout=HTTP_SECONDS, auth=client) as http:
                answer = await http.post(login.token_endpoint, data=data)
            if not answer.is_success:
                raise LoginFailed(f"the issuer gave no token for the login (status {answer.status_code})")
            return _Answer.model_validate_json(answer.content).access_token
        except ValidationError as error:
            raise LoginFailed("the issuer gave no token for the login") from error
        except httpx2.HTTPError as error:
            raise LoginFailed(f"the issuer can't be reached ({type(error).__name__})") from error

    def _set(self, answer: Response, name: str, value: str, seconds: float) -> None:
        secure = self._base.startswith("https://")
        answer.set_cookie(
            name, value, max_age=int(seconds), path="/login", httponly=True, samesite="lax", secure=secure
        )
