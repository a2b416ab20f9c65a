"""As whom a server is used: by each caller as himself, or by all as the one who has logged in (SPEC GWY-19)."""

from __future__ import annotations

import json
from contextvars import ContextVar
from hashlib import sha256

from attrs import define, field

from ...mcp.principal import Principal
from ..config.settings import UpstreamConfig


@define(eq=False)
class Acting:
    """A principal for whom servers are used.

    Attributes:
        principal: Who that is.
        subject: The token that his last request came with, which a server that trusts our issuer may take another for.
    """

    principal: Principal
    subject: str = field(default="", repr=False)


_OF_TOKEN = frozenset(
    {"aio", "at_hash", "auth_time", "c_hash", "exp", "iat", "jti", "nbf", "nonce", "rh", "session_state", "sid", "uti"}
)
"""Claims that say of a token, or of the session in which it was given, and nothing of its subject."""

acting: ContextVar[Acting | None] = ContextVar("toolfold_gateway_acting", default=None)
"""For whom a connection is opened; `None` for one that only asks what a server offers, as nobody."""


def whose(config: UpstreamConfig, principal: Principal) -> str:
    """Return whose connections and credentials there are at a server, of those of several callers.

    A person has the same through every client. What is got for a token has what that one may do, so it is of the client
    and the scopes, too, and of the claims that are not another with each token.
    """
    if config.exchange is None:
        return principal.identity
    claims = {name: one for name, one in principal.claims.items() if name not in _OF_TOKEN}
    digest = sha256(json.dumps(claims, sort_keys=True, default=str).encode()).hexdigest()
    return json.dumps([principal.key, sorted(principal.scopes), digest])


def by_each(config: UpstreamConfig, *, several: bool) -> bool:
    """Return whether each caller has a credential of his own at a server, rather than all the same.

    Args:
        config: How the server is reached.
        several: Whether callers are authenticated, so that there may be several.
    """
    if not several or config.url is None or config.auth is not None:
        return several and config.auth == "caller"
    return config.has_login
