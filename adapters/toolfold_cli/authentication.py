"""The file of `toolfold serve --auth`: whose tokens are accepted (SPEC DEL-6)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from toolfold import ConfigError
from toolfold_adapters.files import read_table
from toolfold_adapters.gateway.config.clients import Variables, variables_in
from toolfold_adapters.gateway.config.read import key_problem
from toolfold_adapters.mcp import Authentication
from toolfold_adapters.mcp.http.auth import PeopleLogin, digest_of

DIGEST = "sha256:"
MIN_TOKEN_LENGTH = 16
KEYS_SECONDS = 2.0
"""How often, at most, keys are asked for because of a token with one that is not known: so long a new key may wait."""

Token = Annotated[str, StringConstraints(min_length=MIN_TOKEN_LENGTH)]


class _Login(BaseModel):
    model_config = ConfigDict(extra="forbid", url_preserve_empty_path=True)

    authorization_endpoint: AnyHttpUrl
    token_endpoint: AnyHttpUrl
    client_id: str
    client_secret: str


class _OAuth(BaseModel):
    model_config = ConfigDict(extra="forbid", url_preserve_empty_path=True)

    issuer: AnyHttpUrl
    resource: AnyHttpUrl
    scopes: list[str] = []
    jwks: AnyHttpUrl | None = None
    introspection: AnyHttpUrl | None = None
    client_id: str | None = None
    client_secret: str | None = None
    login: _Login | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.jwks is None) == (self.introspection is None):
            raise ValueError("give jwks, for signed tokens, or introspection, for others")
        if (self.client_id is None) != (self.client_secret is None):
            raise ValueError("client_id and client_secret go together")
        return self

    def authentication(self, operators: list[str]) -> Authentication:
        import jwt

        from toolfold_adapters.mcp.http.oauth import IntrospectedTokens, SignedTokens

        issuer, resource = str(self.issuer), str(self.resource)
        if self.jwks is not None:
            keys = jwt.PyJWKClient(str(self.jwks), timeout=10)
            keys.cooldown_duration = KEYS_SECONDS  # older versions have none, and ask for each unknown key
            verifier: Any = SignedTokens(keys, issuer, resource)
        else:
            client = (self.client_id, self.client_secret) if self.client_id and self.client_secret else None
            verifier = IntrospectedTokens(str(self.introspection), resource, client, issuer)
        return Authentication.by_oauth(
            verifier, issuer=issuer, resource=resource, scopes=self.scopes, operators=operators, login=self._people
        )

    @property
    def _people(self) -> PeopleLogin | None:
        if (given := self.login) is None:
            return None
        return PeopleLogin(
            authorization_endpoint=str(given.authorization_endpoint),
            token_endpoint=str(given.token_endpoint),
            client_id=given.client_id,
            client_secret=given.client_secret,
            scopes=tuple(self.scopes),
        )


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    operators: list[str] = []
    tokens: dict[str, Token] = Field(default_factory=dict)
    oauth: _OAuth | None = None

    @model_validator(mode="after")
    def _one_table(self) -> Self:
        if bool(self.tokens) == (self.oauth is not None):
            raise ValueError("give [tokens] or [oauth]")
        if self.tokens and (unknown := sorted({*self.operators} - self.tokens.keys())):
            raise ValueError(f"operators names {unknown[0]!r}, who has no token")
        return self

    def authentication(self) -> Authentication:
        if self.oauth is not None:
            return self.oauth.authentication(self.operators)
        digests = {name: _digest(token) for name, token in self.tokens.items()}
        return Authentication.by_tokens(digests, operators=self.operators)


def load_authentication(path: Path) -> Authentication:
    """Return who may call a server, as a file of TOML says it.

    It has `[tokens]`, the token of each caller or its digest, or `[oauth]`: `issuer`, `resource` (the URL of this
    server), `scopes`, `jwks` or `introspection` (`client_id`, `client_secret`), and `login`, which says how people log
    in there who open a page of a gateway (`authorization_endpoint`, `token_endpoint`, `client_id`, `client_secret`).
    `operators` lists the callers, or the subjects of their tokens, who may see the live page. `${VAR}` is the
    environment's.

    Raises:
        ConfigError: The file can't be read, or says something else.
    """
    try:
        data = Variables(os.environ, path.parent).expand(read_table(path))
        return _File.model_validate(data).authentication()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        model = _File if len(first["loc"]) == 1 else _OAuth
        raise ConfigError(f"{path}{key_problem(first, model)}") from None
    except ConfigError as error:
        text = str(error)
        raise ConfigError(text if text.startswith(str(path)) else f"{path}: {text.removesuffix('.')}.") from error


def variables_of(path: Path | None) -> frozenset[str]:
    """Return the variables that such a file takes its secrets from, none without a file; raises `ConfigError`."""
    return frozenset() if path is None else variables_in(read_table(path))


def _digest(token: str) -> str:
    return token.removeprefix(DIGEST) if token.startswith(DIGEST) else digest_of(token)
