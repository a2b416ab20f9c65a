"""What an answer asks a client for, and whether that client declares that it answers it (SPEC DEL-9).

In 2026-07-28 a server asks for nothing that the request does not declare: such a call is an error, which names what it
needs. What was done before is done; a tool that would rather know first reads the capabilities of its request.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import MISSING_REQUIRED_CLIENT_CAPABILITY

from toolfold.spi import table

log = logging.getLogger("toolfold.mcp")

URL = "elicitation/create?mode=url"
"""The method of an elicitation that has its user visit a page."""

NEEDED: Mapping[str, Mapping[str, Any]] = {
    "elicitation/create": {"elicitation": {}},
    URL: {"elicitation": {"url": {}}},
    "sampling/createMessage": {"sampling": {}},
    "roots/list": {"roots": {}},
}
"""The capabilities that a client has who answers a method; an elicitation without a mode is one by form."""


def answerable(ctx: ServerRequestContext[Any, Any], asked: str, answer: Any) -> Any:
    """Return an answer, such as of the tool `asked`, unless it asks for what the client does not declare.

    Raises:
        MCPError: It does.
    """
    if requests := table((table(answer) or {}).get("inputRequests")):
        methods = [method_of(one) for one in requests.values()]
        needed = needed_for(methods)
        if not has(capabilities_of(ctx), needed):
            log.warning("%r asked for %s, which its client does not declare", asked, ", ".join(methods))
            raise lacking(needed)
    return answer


def needed_for(methods: Iterable[Any]) -> dict[str, Any]:
    """Return the capabilities of a client who answers all of these methods; one that is not known counts for none."""
    needed: dict[str, Any] = {}
    for method in methods:
        for name, inner in needed_by_method(method).items():
            before = needed.setdefault(name, inner)
            needed[name] = inner if before == inner else {**_inside(name, before), **_inside(name, inner)}
    return needed


def needed_by_method(method: Any) -> Mapping[str, Any]:
    """Return the capabilities of a client who answers one method; none if it is not known."""
    return NEEDED.get(method, {}) if isinstance(method, str) else {}


def has(able: Mapping[str, Any], needed: Mapping[str, Any]) -> bool:
    """Return whether capabilities have every key that is needed, at every depth."""
    for name, inner in needed.items():
        found = able.get(name)
        if found is None or not has(_inside(name, found), _inside(name, inner)):
            return False
    return True


def _inside(name: str, capability: Any) -> Mapping[str, Any]:
    """Return what is in a capability: an elicitation without a mode is by form alone."""
    inside = table(capability) or {}
    return {"form": {}} if name == "elicitation" and not inside else inside


def capabilities_of(ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
    """Return the capabilities that the client of a request declares."""
    declared = ctx.session.client_capabilities
    return {} if declared is None else declared.model_dump(by_alias=True, mode="json", exclude_none=True)


def lacking(needed: Mapping[str, Any]) -> MCPError:
    """Return the refusal of a request whose client does not declare what it needs."""
    text = f"This needs a client with {', '.join(_paths(needed))}, which this one does not declare."
    return MCPError(code=MISSING_REQUIRED_CLIENT_CAPABILITY, message=text, data={"requiredCapabilities": needed})


def _paths(needed: Mapping[str, Any]) -> Iterator[str]:
    for name, inner in needed.items():
        inside = _inside(name, inner)
        yield from (f"{name}.{one}" for one in _paths(inside)) if inside else (name,)


def method_of(request: Any) -> str:
    """Return the method of what is asked, as `NEEDED` has it."""
    asked = table(request) or {}
    is_url = (table(asked.get("params")) or {}).get("mode") == "url"
    return URL if is_url and asked.get("method") == "elicitation/create" else str(asked.get("method"))
