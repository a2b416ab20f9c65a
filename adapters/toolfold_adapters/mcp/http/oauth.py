"""Tokens of an OAuth authorization server: signed ones, and those that it is asked about (SPEC DEL-6)."""

from __future__ import annotations

import logging
from json import JSONDecodeError

import anyio
import anyio.to_thread
import httpx2
import jwt
from attrs import field, frozen
from mcp.server.auth.provider import AccessToken, TokenVerifier
from pydantic import BaseModel, ConfigDict, FiniteFloat, ValidationError

from toolfold.spi import quoted

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""The signatures that are accepted: those with a public key, which is all that the server needs to know."""

_SECONDS = 10.0
_FETCHING = 2
"""How many threads may wait for keys: an authorization server that hangs takes none from handlers."""

log = logging.getLogger("toolfold.mcp")


class Claims(BaseModel):
    """What a token, or an authorization server, says of a token's caller (RFC 7662, RFC 9068)."""

    model_config = ConfigDict(extra="allow")

    active: bool = False
    iss: str | None = None
    sub: str | None = None
    client_id: str | None = None
    azp: str | None = None
    scope: str = ""
    exp: FiniteFloat | None = None
    aud: str | list[str] = []

    def access(self, token: str, resource: str) -> AccessToken:
        """Return that as the SDK has it; of several audiences, this server's."""
        audiences = [self.aud] if isinstance(self.aud, str) else self.aud
        return AccessToken(
            token=token,
            client_id=self.client_id or self.azp or self.sub or "",
            subject=self.sub,
            scopes=self.scope.split(),
            expires_at=None if self.exp is None else int(self.exp),
            resource=resource if resource in audiences else next(iter(audiences), None),
            claims=self.model_dump(),
        )


@frozen
class SignedTokens(TokenVerifier):
    """Tokens that an authorization server signed (RFC 9068), checked with the keys that it publishes.

    Attributes:
        keys: Fetches and caches the keys.
        issuer: Who must have issued a token.
        resource: Which server it must have been issued for.
    """

    keys: jwt.PyJWKClient
    issuer: str
    resource: str
    _fetching: anyio.CapacityLimiter = field(init=False, factory=lambda: anyio.CapacityLimiter(_FETCHING), eq=False)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return what a token says of its caller, or `None` if it is not accepted."""
        try:
            key = await anyio.to_thread.run_sync(self.keys.get_signing_key_from_jwt, token, limiter=self._fetching)
            decoded = jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                audience=self.resource,
                issuer=self.issuer,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
            claims = Claims.model_validate(decoded)
        except (jwt.PyJWKClientConnectionError, JSONDecodeError, UnicodeDecodeError) as error:
            log.warning("the keys of %s can't be fetched, so that no token is accepted: %s", self.issuer, error)
            return None
        except (jwt.PyJWTError, ValidationError, RecursionError) as error:
            log.info("refused a token: %s", _reason(error))
            return None
        return claims.access(token, self.resource)


@frozen
class IntrospectedTokens(TokenVerifier):
    """Tokens that the authorization server is asked about, with each request (RFC 7662).

    Attributes:
        endpoint: The URL to ask at.
        resource: Which server a token must have been issued for.
        client: The client id and secret of this server, if it needs them to ask.
        issuer: Whose tokens they are, if they are one issuer's: one of another's is not accepted.
    """

    endpoint: str
    resource: str
    client: tuple[str, str] | None = field(default=None, repr=False)
    issuer: str | None = None

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return what the authorization server says of a token's caller, or `None` if it is not accepted."""
        try:
            async with httpx2.AsyncClient(timeout=_SECONDS, auth=self.client) as http:
                answer = await http.post(self.endpoint, data={"token": token})
                answer.raise_for_status()
                claims = Claims.model_validate_json(answer.content)
        except (httpx2.HTTPError, ValidationError) as error:
            log.warning(
                "%s can't be asked about a token, so that it is not accepted: %s", self.endpoint, _reason(error)
            )
            return None
        if not claims.active:
            return None
        if problem := self._problem(claims):
            log.info("refused a token: %s", problem)
            return None
        return claims.model_copy(update={"iss": self.issuer or claims.iss}).access(token, self.resource)

    def _problem(self, claims: Claims) -> str:
        """Return why a token that is active is not accepted all the same, or nothing."""
        if not (claims.sub or claims.client_id or claims.azp):
            return "it says of nobody who that is"
        if self.issuer and claims.iss is not None and claims.iss.rstrip("/") != self.issuer.rstrip("/"):
            return f"its issuer is {quoted(claims.iss)}"
        return ""


def _reason(error: Exception) -> str:
    """Return what is wrong, without the claims that it is about."""
    if isinstance(error, ValidationError):
        return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
    return str(error)
