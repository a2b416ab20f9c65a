"""The pages on which callers of a gateway log in at its servers (SPEC GWY-19).

A link works once and for the caller who was given it: whoever opens the page logs in at the issuer of the callers'
tokens, or shows that caller's token for the gateway, as the password that his browser asks for. What the page sends
comes from the page, in the browser that opened it; so does what an authorization server sends back. Nothing is cached,
and nothing that is secret is shown.
"""

from __future__ import annotations

import html
import logging
import secrets
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from ...mcp.http.auth import Authentication
from ...mcp.principal import Principal
from ..upstream.life import CredentialsUnavailable, LoginFailed
from .acting import whose
from .logins import CALLBACK, PATH, Asked, CallerLogins
from .people import CALLED, People
from .people import PATH as PERSON

log = logging.getLogger("toolfold.gateway")

COOKIE = "toolfold-login"
MOST_BYTES = 16 * 1024
"""How long what a page sends may be."""
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><body style="font:16px/1.5 system-ui;max-width:34em;margin:3em auto;padding:0 1em">
<h1 style="font-size:1.3em">{title}</h1>{body}</body></html>"""
_FORM = """<form method="post" autocomplete="off"><input type="hidden" name="csrf" value="{csrf}">{fields}
<button type="submit">{button}</button></form>"""
_TOKEN = """<p><label>Token <input type="password" name="token" required autocomplete="off" size="40"></label></p>"""


class LoginPages:
    """Answers requests below `PATH`, an ASGI application.

    Args:
        logins: What callers log in with.
        auth: Who callers are, if they can log in there with a browser, too.

    Whoever asks is in the scope, as `principal`; `None` for a browser without a token.
    """

    def __init__(self, logins: CallerLogins, auth: Authentication | None = None) -> None:
        self._logins = logins
        self._people: People | None = None
        if auth is not None and auth.login is not None and logins.public_url is not None:
            self._people = People(logins.credentials, logins.public_url, auth, auth.login)
        self._secure = (logins.public_url or "").startswith("https://")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive)
        try:
            answer = await self._answered(request, scope["principal"])
        except CredentialsUnavailable:
            answer = _page("Not now", "<p>Credentials can't be stored at the moment. Try again later.</p>", 503)
        except LoginFailed as error:
            log.warning("a login failed: %s", error)
            answer = _page("Not logged in", f"<p>{html.escape(str(error))}. Open your link again.</p>", 502)
        except ClientDisconnect:
            return
        await answer(scope, receive, send)

    async def _answered(self, request: Request, principal: Principal | None) -> Response:
        path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        if self._people is not None:
            if path == PERSON and request.method == "GET":
                return await self._people.came_back(request, _headers()) or _not_logged_in()
            principal = principal or await self._people.known(request)
            if principal is None and not await self._is_expected(path, request):
                return _gone()
            if principal is None:
                there = f"{path}?{request.url.query}" if request.url.query else path
                return await self._people.sent(there, _headers())
        assert principal is not None, "who asks is known, or there is where to log in"
        if path == CALLBACK and request.method == "GET":
            return await self._came_back(request, principal)
        asked = await self._logins.asked(path.removeprefix(f"{PATH}/"))
        if asked is None or not self._is_of(asked, principal):
            return _gone()
        if request.method == "GET":
            return self._asking(request, asked, principal)
        if request.method == "POST":
            return await self._posted(request, asked)
        return Response(status_code=405, headers={"Allow": "GET, POST"})

    async def _is_expected(self, path: str, request: Request) -> bool:
        """Return whether a request is for a login that was begun, so that nobody else has anything remembered."""
        if path == CALLBACK:
            state, browser = request.query_params.get("state", ""), request.cookies.get(COOKIE, "")
            return await self._logins.begun(state, browser) is not None
        return await self._logins.asked(path.removeprefix(f"{PATH}/")) is not None

    def _is_of(self, asked: Asked, principal: Principal) -> bool:
        config = self._logins.config_of(asked.server)
        return config is not None and secrets.compare_digest(
            whose(config, principal).encode(), asked.principal.encode()
        )

    def _asking(self, request: Request, asked: Asked, principal: Principal) -> Response:
        browser = request.cookies.get(COOKIE) or secrets.token_urlsafe(24)
        config = self._logins.config_of(asked.server)
        server, person = html.escape(asked.server), html.escape(str(principal.claims.get(CALLED, asked.person)))
        about = f"<p>This gateway will use <b>{server}</b> for <b>{person}</b> alone, whenever {person} asks it to.</p>"
        title = f"Use {server} as yourself"
        if asked.form == "token":
            hint = html.escape(config.token.hint) if config is not None and config.token is not None else ""
            fields, button = f"<p>{hint}</p>{_TOKEN}" if hint else _TOKEN, "Store it"
            target = ""
        else:
            target = "{0.scheme}://{0.netloc}".format(urlsplit(asked.page))
            fields, button = f"<p>You log in at {html.escape(target)}.</p>", "Log in"
        form = _FORM.format(csrf=html.escape(browser), fields=fields, button=button)
        answer = _page(title, about + form, form_action=f"'self' {target}".strip())
        answer.set_cookie(COOKIE, browser, path=PATH, httponly=True, samesite="lax", secure=self._secure)
        return answer

    async def _posted(self, request: Request, asked: Asked) -> Response:
        browser, given = request.cookies.get(COOKIE, ""), await _form(request)
        own = request.headers.get("origin") in (None, "null", self._logins.public_url)
        sent = given.get("csrf", "")
        if not own or not browser or not secrets.compare_digest(sent.encode(), browser.encode()):
            return _page("Not from this page", "<p>Open your link again, and send its form from there.</p>", 403)
        if asked.form != "token":
            return RedirectResponse(await self._logins.sent_to(asked, browser), 303, _headers())
        token = given.get("token", "").strip()
        if not token or not token.isprintable() or not token.isascii():
            return _page("No token", "<p>That is no token. Go back, and paste it as it is.</p>", 400)
        return _done(asked) if await self._logins.given(asked, token) else _gone()

    async def _came_back(self, request: Request, principal: Principal) -> Response:
        query, browser = request.query_params, request.cookies.get(COOKIE, "")
        if "code" not in query or "state" not in query:
            return _not_logged_in()
        begun = await self._logins.begun(query["state"], browser)
        if begun is None or not self._is_of(begun, principal):
            return _gone()
        asked = await self._logins.came_back(query["state"], browser, query["code"], query.get("iss"))
        return _gone() if asked is None else _done(asked)


async def _form(request: Request) -> dict[str, str]:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            return {}
    return {name: values[0] for name, values in parse_qs(body.decode("latin-1")).items()}


def _not_logged_in() -> HTMLResponse:
    return _page("Not logged in", "<p>The login was declined, or ended early. Open your link again.</p>", 400)


def _done(asked: Asked) -> HTMLResponse:
    text = f"<p>You can close this window. Calls at <b>{html.escape(asked.server)}</b> go on as yours.</p>"
    return _page("You are logged in", text)


def _gone() -> HTMLResponse:
    text = "<p>It has been used, is too old, or is another caller's. Make the call again to get a new one.</p>"
    return _page("This link does not work", text, 404)


def _page(title: str, body: str, status: int = 200, form_action: str = "'none'") -> HTMLResponse:
    return HTMLResponse(_PAGE.format(title=title, body=body), status, _headers(form_action))


def _headers(form_action: str = "'none'") -> dict[str, Any]:
    policy = f"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; form-action {form_action}"
    return {
        "Cache-Control": "no-store",
        "Content-Security-Policy": policy,
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
