"""Who asks: one value, made in one place from whatever a request is authenticated by (SPEC DEL-6, GWY-19).

A bearer token of the file of `--auth` makes its name a principal; a token of an OAuth issuer, signed or introspected,
the subject at that issuer. Over stdio, in memory and in the runtime of one machine, whoever started the process asks.
A request over HTTP without authentication is nobody's.
"""

from __future__ import annotations

import getpass
import json
from collections.abc import Mapping
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any

from attrs import field, frozen
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, principal_components

_NONE: Mapping[str, Any] = MappingProxyType({})


@frozen(slots=False)
class Principal:
    """Who asks. Two are the same if their names, issuers and clients are; claims change with each token.

    Attributes:
        name: The name of a token of the file, the subject of one of an issuer, or the user of this machine; empty
            where a token speaks for a client alone, and where nobody is known.
        issuer: The authorization server that answers for it; `None` for tokens of the file and for the user.
        client: The client that asks for it, by its id at the issuer; for a token of the file, its name. `None` where
            there is no token.
        claims: What its token says of it.
        scopes: The scopes of its token.
    """

    name: str = ""
    issuer: str | None = None
    client: str | None = None
    claims: Mapping[str, Any] = field(default=_NONE, eq=False, repr=False)
    scopes: frozenset[str] = field(default=frozenset(), eq=False, repr=False)

    @classmethod
    def of(cls, token: AccessToken) -> Principal:
        """Return the principal that a verified token speaks for."""
        client, issuer, subject = principal_components(token)
        claims = MappingProxyType(dict(token.claims or {}))
        return cls(subject or "", issuer, client, claims, frozenset(token.scopes))

    @property
    def authenticated(self) -> bool:
        """Whether a token says who it is."""
        return self.client is not None

    @cached_property
    def key(self) -> str:
        """What its sessions and handles are stored under: each client of a person has its own; `""` without a token."""
        return json.dumps([self.client, self.issuer, self.name or None]) if self.authenticated else ""

    @cached_property
    def identity(self) -> str:
        """What is a person's through every client is stored under, such as logins: name and issuer.

        A client that speaks for itself is none of the names at its issuer.
        """
        return json.dumps([self.issuer, self.name] if self.name else [self.issuer, None, self.client])

    def __str__(self) -> str:
        """Return what it is called in texts for people: no client is called like a person."""
        return self.name or ("nobody" if self.client is None else f"client {self.client}")


NOBODY = Principal()
"""Whoever sends a request over HTTP to a server that authenticates nobody."""


@cache
def local_user() -> Principal:
    """Return the user who runs this process: the principal of all that is asked on this machine alone."""
    try:
        return Principal(getpass.getuser())
    except (OSError, KeyError, ImportError):  # a container may run as a number that has no name
        return Principal("user")


def principal_of(ctx: Any) -> Principal:
    """Return who sends a request.

    Args:
        ctx: Its context; `None` for what is asked within HTTP, before there is one.
    """
    token = get_access_token()
    if token is not None:
        return Principal.of(token)
    return local_user() if ctx is not None and ctx.request is None else NOBODY
