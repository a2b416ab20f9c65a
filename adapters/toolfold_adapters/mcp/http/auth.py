"""Who may call a server over HTTP: callers with tokens that it knows, or with those of an OAuth server (SPEC DEL-6).

The checks of requests are the SDK's; this gives it verifiers of tokens, and oauth.py those for an OAuth server.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence

from attrs import field, frozen
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl

from toolfold import ConfigError

_DIGEST = re.compile(r"[0-9a-fA-F]{64}")


@frozen
class Authentication:
    """How callers of an HTTP server are authenticated, by the settings of the SDK's servers, and who its operators are.

    Attributes:
        verifier: Finds out whose token a request has.
        settings: What the server says of itself, and the scopes that a token needs.
        operators: Those callers, by the subjects of their tokens, who may see the live page.
    """

    verifier: TokenVerifier
    settings: AuthSettings
    operators: frozenset[str] = frozenset()

    @classmethod
    def by_tokens(cls, tokens: Mapping[str, str], *, operators: Iterable[str] = ()) -> Authentication:
        """Return one that knows each caller's token.

        Args:
            tokens: The SHA-256 digests of tokens in hexadecimal, by the names of callers.
            operators: The names of those who may see the live page.

        Raises:
            ConfigError: One is no such digest, or two callers have the same token.
        """
        callers: dict[str, str] = {}
        for name, digest in tokens.items():
            if _DIGEST.fullmatch(digest) is None:
                raise ConfigError(f"The token of {name!r} has no SHA-256 digest: it has 64 hexadecimal digits.")
            if (other := callers.setdefault(digest.lower(), name)) != name:
                raise ConfigError(f"{other!r} and {name!r} have the same token: give each caller one of its own.")
        settings = AuthSettings(issuer_url=AnyHttpUrl("http://localhost"), resource_server_url=None)
        return cls(KnownTokens(callers), settings, frozenset(operators))

    @classmethod
    def by_oauth(
        cls,
        verifier: TokenVerifier,
        *,
        issuer: str,
        resource: str,
        scopes: Sequence[str] = (),
        operators: Iterable[str] = (),
    ) -> Authentication:
        """Return one for a resource server of OAuth (RFC 9728), which names the authorization server to clients.

        Args:
            verifier: One of `toolfold_adapters.mcp.http.oauth`, or your own.
            issuer: The URL of the authorization server.
            resource: The URL of this server, for which tokens have to be issued.
            scopes: The scopes that a token has to have.
            operators: The subjects of the tokens of those who may see the live page.
        """
        settings = AuthSettings(
            issuer_url=AnyHttpUrl(issuer),
            resource_server_url=AnyHttpUrl(resource),
            required_scopes=list(scopes) or None,
            validate_token_resource=True,
        )
        return cls(verifier, settings, frozenset(operators))


def digest_of(token: str) -> str:
    """Return the SHA-256 digest of a token, in hexadecimal."""
    return hashlib.sha256(token.encode()).hexdigest()


@frozen
class KnownTokens(TokenVerifier):
    """Tokens that the server knows, by digest, so that the time of a comparison says nothing about them."""

    callers: Mapping[str, str] = field(repr=False)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the caller whose token it is, or `None`."""
        name = self.callers.get(digest_of(token))
        return None if name is None else AccessToken(token=token, client_id=name, subject=name, scopes=[])
