"""What callers of a gateway may do, whatever their requests say (SPEC GWY-19, ISO-2, ISO-3).

A row of the configuration is for the caller of a name, for those whose token has a claim, or for all others. What it
leaves is a profile that those of its callers' sessions are within, so each door that profiles bound is bounded by it.
Who has no row is refused, and so is everybody while the rights can't be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST

from toolfold import Profile, ToolfoldError
from toolfold.spi import array, frozen, quoted, table

from ...mcp.principal import Principal
from ..config.settings import CLAIM, EVERYBODY, RightsConfig

SCOPES = ("scope", "scp")
"""Claims that are lists in one text."""


class Forbidden(MCPError, ToolfoldError):
    """A caller has no right to be here."""

    def __init__(self, message: str) -> None:
        super().__init__(code=INVALID_REQUEST, message=message)


@frozen
class Rights:
    """The rows, and what each leaves.

    Attributes:
        rows: What the configuration says, by key.
        profiles: What each row leaves, by its key.
        problem: Why they can't be read, if they can't: then nobody has any.
    """

    rows: Mapping[str, RightsConfig]
    profiles: Mapping[str, Profile]
    problem: str = ""

    def key(self, principal: Principal) -> str:
        """Return the key of a caller's row: that of its name, else the first that its token has the claim of.

        Raises:
            Forbidden: There is none, or the rights can't be read.
        """
        if self.problem:
            raise Forbidden("What callers may do can't be read now, so nobody may do anything: ask the operator.")
        name = principal.name
        if name and name in self.rows and not name.startswith(CLAIM) and name != EVERYBODY:
            return name
        claims = (key for key in self.rows if key.startswith(CLAIM))
        found = next((key for key in claims if has_claim(principal, key.removeprefix(CLAIM))), None)
        if found is not None:
            return found
        if EVERYBODY in self.rows:
            return EVERYBODY
        who = f"{quoted(str(principal))!r} has" if principal.authenticated or name else "callers without a token have"
        raise Forbidden(f"On this gateway {who} no rights: ask the operator for some.")

    def row(self, principal: Principal) -> RightsConfig:
        """Return the row of a caller; raises `Forbidden`."""
        return self.rows[self.key(principal)]

    def bound(self, principal: Principal) -> Profile:
        """Return the profile that those of a caller's sessions are within; raises `Forbidden`."""
        return self.profiles[self.key(principal)]


NO_RIGHTS = Rights({}, {})
"""Of a configuration without rows."""


def has_claim(principal: Principal, claim: str) -> bool:
    """Return whether a caller's token has a claim, written `NAME=VALUE`: the value, or one of a list of them.

    Dots in a name lead into tables, unless there is a claim of the whole name.
    """
    name, _, value = claim.partition("=")
    return value in _texts(name, _claimed(principal.claims, name))


def _claimed(claims: Mapping[str, Any], name: str) -> Any:
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = (table(found) or {}).get(part)
    return found


def _texts(name: str, claimed: Any) -> Iterable[str]:
    if isinstance(claimed, str):
        return claimed.split() if name in SCOPES else (claimed,)
    if isinstance(claimed, bool):
        return ("true" if claimed else "false",)
    if isinstance(claimed, int):
        return (str(claimed),)
    return [one for one in array(claimed) or () if isinstance(one, str)]
