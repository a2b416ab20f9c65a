"""Definitions, results and errors in the shape of MCP: the core's, and other servers' as they came (SPEC DEL-7, GWY-1).

The answer of another server is a `Passed` result: nothing of it is checked or encoded on its way, and what is added to
it is added here. It is a model of the SDK or a mapping, in the form of the era of the caller, or the exception that was
raised. What an existing server offers to the caller of a request is an `Offer`, whose definitions are listed in place
of those that are registered (SPEC INT-1).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, NoReturn, cast
from weakref import WeakKeyDictionary

import mcp_types as types
from attrs import evolve, field
from mcp.server.caching import CacheHint
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    LOG_LEVEL_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
)
from mcp_types.methods import serialize_server_result
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from toolfold import (
    Component,
    InputRequired,
    InvalidArguments,
    InvalidCursor,
    Page,
    ProtocolError,
    SessionClosed,
    StoreError,
    ToolError,
    ToolNotFound,
    ToolResult,
    WireNames,
)
from toolfold.spi import MAX_URI, Full, Kind, Passed, array, frozen, quoted, table

from ...compiling import compile_problem
from ...names import HANDLE_META, LISTS, MOUNTED_META, NO_HANDLE, render_for_hosts
from ..request import HANDLE_ERRORS, SELECTION_FAILURES, record_refusal, refusal_text

RESOURCE_NOT_FOUND = -32002
"""The legacy error for an unknown resource; the modern era uses `INVALID_PARAMS`."""

UNASKABLE = "More input is needed, which a result can't request in this protocol version."

CACHE_HINTS: Mapping[str, Any] = {"ttlMs": 0, "cacheScope": "private"}
"""What the modern era says on how long a result may be reused, and by whom: not at all, unless its author says more."""

log = logging.getLogger("toolfold.mcp")

FROM_MODES = ("inputSchema", "_meta")
"""The parts of a composite tool's definition that depend on its modes; they never make it invalid (SPEC MOD-1)."""

Adjust = Callable[[dict[str, Any]], dict[str, Any]]
CacheScope = Literal["public", "private"]


class Renderer:
    """Renders pages and results for one era.

    A definition is rendered and checked against the era's schema once, for all sessions and states; the parts that
    depend on modes are then replaced.

    Args:
        names: The names that clients see. The tools of an existing server have names of their own: of them, those are
            listed that the server offers to the caller of the request, as the server has them.
        modern: Whether the era is that of 2026-07-28.
        adjust: Changes the definitions of control tools, for deliveries that give them more arguments.
        cache_scope: Whether caches may share lists between callers.
    """

    def __init__(
        self,
        names: WireNames,
        *,
        modern: bool,
        adjust: Adjust | None = None,
        cache_scope: CacheScope = "public",
    ) -> None:
        self.names = names
        self._cache_scope = cache_scope
        self._adjust = adjust
        self.modern = modern
        self._versions = MODERN_PROTOCOL_VERSIONS if modern else HANDSHAKE_PROTOCOL_VERSIONS
        self._definitions: WeakKeyDictionary[Component, dict[str, Any] | None] = WeakKeyDictionary()

    def page(self, page: Page, kind: Kind, meta: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return a page of a list as a result, with `meta` about it."""
        result: dict[str, Any] = {LISTS[kind].key: self.definitions(page.items)}
        if page.next_cursor is not None:
            result["nextCursor"] = page.next_cursor
        if meta:
            result["_meta"] = dict(meta)
        complete = self.complete(result)
        return complete if (offer := current_offer.get()) is None else offer.added_to(complete)

    def definitions(self, components: Iterable[Component]) -> list[dict[str, Any]]:
        """Return the definitions of the components that can be listed in this era."""
        return [definition for component in components if (definition := self.definition(component)) is not None]

    def definition(self, component: Component) -> dict[str, Any] | None:
        """Return a definition as it is listed in this era, or `None` if the era's schema does not allow it.

        An invalid one would make clients reject the whole list (SPEC REG-6).
        """
        offer = current_offer.get()
        if (own := self.names.own.get(component.name)) is not None:
            return None if offer is None else offer.definition(own)
        if offer is not None and not offer.first:
            return None
        registered = component.origin or component
        rendered = self._definitions.get(registered)
        if registered not in self._definitions or self._is_renamed(registered, rendered):
            self._definitions[registered] = rendered = self._render(registered)
        if rendered is None or component is registered:
            return rendered
        return {**rendered, **{key: component.definition[key] for key in FROM_MODES if key in component.definition}}

    def _is_renamed(self, component: Component, rendered: Mapping[str, Any] | None) -> bool:
        """Return whether a tool has another name on the wire by now, as a control tool that gave way (SPEC NAM-6)."""
        return (
            rendered is not None and component.kind == "tool" and rendered["name"] != self.names.to_wire(component.name)
        )

    def _render(self, component: Component) -> dict[str, Any] | None:
        rendered = render_for_hosts(component, self.names.to_wire)
        if self.modern:  # which says of no tool that a call of it can be a task
            rendered = {key: value for key, value in rendered.items() if key != "execution"}
        if component.control is not None and self._adjust is not None:
            rendered = self._adjust(rendered)
        without_output = {key: value for key, value in rendered.items() if key != "outputSchema"}
        if problem := compile_problem(table(rendered.get("outputSchema")) or {}):
            log.warning(
                "%r is listed without its output schema, which clients can't compile: %s", component.name, problem
            )
            rendered = without_output
        for candidate in (rendered, without_output):
            if self._fits(candidate, component.kind):
                return candidate
        log.error("%s %r can't be listed to clients of MCP %s", component.kind, component.name, self._versions[-1])
        return None

    def _fits(self, definition: dict[str, Any], kind: Kind) -> bool:
        try:
            for version in self._versions:
                result = self.complete({LISTS[kind].key: [definition]})
                serialize_server_result(LISTS[kind].method, version, result)
        except ValidationError:
            return False
        return True

    def complete(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return a list or a definition with what the era says of every such result."""
        hints = {"resultType": "complete", "ttlMs": 0, "cacheScope": self._cache_scope} if self.modern else {}
        return {**result, **hints}

    def result(self, result: ToolResult) -> dict[str, Any]:
        """Return a tool's result; that of another server as it came."""
        if isinstance(result, Passed):
            return cast("dict[str, Any]", result.answer)
        meta = {"_meta": dict(result.meta)} if result.meta else {}
        if result.needs is not None and not self.modern:
            return self.result(ToolResult.of_text(UNASKABLE, is_error=True))
        if result.needs is not None:
            return {**input_required(result.needs), **meta}
        rendered: dict[str, Any] = {"content": [dict(block) for block in result.content], "isError": result.is_error}
        structured: Any = result.structured
        if structured is not None and (self.modern or isinstance(structured, dict)):
            rendered["structuredContent"] = structured
        return self.plain({**rendered, **meta})

    def contents(self, result: Mapping[str, Any] | InputRequired) -> dict[str, Any]:
        """Return the contents of a resource, with hints for caches."""
        if isinstance(result, InputRequired):
            return self.plain(result)
        if not self.modern:
            return self.plain({key: value for key, value in result.items() if key not in CACHE_HINTS})
        return self.plain({**CACHE_HINTS, **result})

    def plain(self, result: Mapping[str, Any] | InputRequired) -> dict[str, Any]:
        """Return a result of another kind, such as a prompt's messages."""
        if isinstance(result, InputRequired):
            if not self.modern:
                raise MCPError(code=types.INTERNAL_ERROR, message=UNASKABLE)
            return input_required(result)
        return {"resultType": "complete", **result} if self.modern else dict(result)


def input_required(needs: InputRequired) -> dict[str, Any]:
    """Return the result of the modern era that asks for something first."""
    requests = {"inputRequests": dict(needs.requests)} if needs.requests else {}
    state = {} if needs.state is None else {"requestState": needs.state}
    return {"resultType": "input_required", **requests, **state}


@contextmanager
def wire_errors(asked: str, *, modern: bool) -> Generator[None]:
    """Convert errors of the core into errors of the protocol; see `raise_on_wire`."""
    try:
        yield
    except Exception as error:
        raise_on_wire(error, asked, modern=modern)


def raise_on_wire(error: Exception, asked: str, *, modern: bool) -> NoReturn:
    """Raise an error of the core as one of the protocol (SPEC CALL-1, LST-3, DEL-4, DEL-9, SAF-4).

    Args:
        error: The error.
        asked: The name or URI in the request, as the client wrote it.
        modern: Whether the request is of the modern era.
    """
    try:
        raise error
    except ToolNotFound as error:
        message = unknown_text(error, asked)
        if error.kind == "resource":
            code = types.INVALID_PARAMS if modern else RESOURCE_NOT_FOUND
            raise MCPError(code=code, message=message, data={"uri": quoted(asked, MAX_URI)}) from error
        raise MCPError(code=types.INVALID_PARAMS, message=message) from error
    except Full as error:
        record_refusal(error)
        data = {"retryAfter": error.retry_after}
        raise MCPError(code=types.INTERNAL_ERROR, message=str(error), data=data) from error
    except StoreError as error:
        raise MCPError(code=types.INTERNAL_ERROR, message=str(error)) from error
    except SELECTION_FAILURES as error:
        raise MCPError(code=types.INVALID_PARAMS, message=refusal_text(error)) from error
    except HANDLE_ERRORS as error:  # of the handle that the request itself carries
        raise MCPError(code=types.INVALID_PARAMS, message=str(error), data={HANDLE_META: NO_HANDLE}) from error
    except (InvalidCursor, InvalidArguments) as error:
        raise MCPError(code=types.INVALID_PARAMS, message=str(error)) from error
    except ProtocolError as error:
        raise MCPError(code=error.code, message=error.message, data=error.data) from error
    except ToolError as error:
        raise MCPError(code=types.INTERNAL_ERROR, message=str(error)) from error
    except SessionClosed as error:
        message = "The session of this request has ended; send the request again."
        raise MCPError(code=types.INTERNAL_ERROR, message=message) from error
    except MCPError:
        raise
    except Exception as error:  # the SDK would send its text to a client of the legacy era
        log.exception("a request about %r failed", quoted(asked))
        raise MCPError(code=types.INTERNAL_ERROR, message="Internal error") from error


def unknown_text(error: ToolNotFound, asked: str) -> str:
    """Return the message about an unknown name, as the caller wrote it (SPEC CALL-1)."""
    return f"Unknown {error.kind}: {quoted(asked)}" + (f" ({error.hint})" if error.hint else "")


# -- what other servers answer and offer -------------------------------------------------------------------------------

ForeignDefinition = Mapping[str, Any]

OWN_PREFIX = "dev.toolfold/"
"""How the keys of `_meta` begin that Toolfold sets itself."""

_FIELDS = {"ttlMs": "ttl_ms", "cacheScope": "cache_scope"}
# Each of the two connections of a gateway has its own.
_HOP_BY_HOP = frozenset(
    {
        CLIENT_CAPABILITIES_META_KEY,
        CLIENT_INFO_META_KEY,
        LOG_LEVEL_META_KEY,
        PROTOCOL_VERSION_META_KEY,
        SERVER_INFO_META_KEY,
        "progressToken",
        "progress_token",
        SUBSCRIPTION_ID_META_KEY,
    }
)


@frozen
class Offer:
    """What a server offers the caller of a request, in one page of its list or in all of them.

    Attributes:
        definitions: The definitions of its tools, by name.
        rest: What else the page says.
        next_cursor: The cursor of the next page, if there is one.
        first: Whether the list begins with it.
    """

    definitions: Mapping[str, ForeignDefinition]
    rest: Mapping[str, Any] = field(factory=dict[str, Any])
    next_cursor: str | None = None
    first: bool = True

    def definition(self, name: str) -> dict[str, Any] | None:
        """Return the definition of one of the server's tools as it goes on the wire, or `None` if it is not offered."""
        found = self.definitions.get(name)
        return None if found is None else dict(without_mounted_groups(found))

    def added_to(self, page: Mapping[str, Any]) -> dict[str, Any]:
        """Return a page of a list with what the server says of its own; how long it may be cached is for it to say."""
        meta = {**self.rest.get("_meta", {}), **page.get("_meta", {})}
        return {**page, **self.rest, **({"_meta": meta} if meta else {})}


current_offer: ContextVar[Offer | None] = ContextVar("toolfold_offer", default=None)
"""What holds for the lists and answers that are rendered now, where an existing server has groups."""


def passed(answer: Any) -> Passed:
    """Return the answer of a server's own tool as a result that passes unchanged.

    Args:
        answer: What the server answered, or the exception that it raised.
    """
    if isinstance(answer, BaseException):
        return Passed(is_error=True, answer=answer)
    kind = _said(answer, "result_type", "resultType")
    said = table(answer) or {}
    structured = said.get("structuredContent")
    return Passed(
        content=_readable(said.get("content"), structured),
        structured=structured,
        is_error=_said(answer, "is_error", "isError") is True,
        meta=table(said.get("_meta")),
        needs=InputRequired() if kind not in (None, "complete") or _is_task(said) else None,
        answer=answer,
    )


def _is_task(said: Mapping[str, Any]) -> bool:
    """Return whether an answer to a call of a tool is a task in the form of revision 2025-11-25."""
    return "content" not in said and table(said.get("task")) is not None


def with_text(
    result: ToolResult, text: str, *, first: bool = False, meta: Mapping[str, Any] | None = None
) -> ToolResult:
    """Return a result with one more text, before all others or after them, unless it is empty, and more in its `_meta`.

    Clients fall back to structured content where there is nothing else, so where it has to be read it is a text, too.
    """
    blocks = [{"type": "text", "text": text}] if text else []

    def joined(content: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        return [*blocks, *content] if first else [*content, *blocks]

    if not isinstance(result, Passed):
        return evolve(result, content=joined(result.readable), meta={**(result.meta or {}), **(meta or {})} or None)
    if isinstance(result.answer, BaseException) or result.needs is not None:
        return result
    answer = dumped(result.answer)
    more = {"_meta": {**(table(answer.get("_meta")) or {}), **meta}} if meta else {}
    content = joined(_readable(answer.get("content"), answer.get("structuredContent")))
    return evolve(result, answer={**answer, "content": content, **more})


def _readable(content: Any, structured: Any) -> Iterable[Mapping[str, Any]]:
    """Return the blocks that a model reads of what may be another server's answer."""
    return ToolResult(tuple(array(content) or ()), structured).readable


def end_to_end(meta: Any) -> dict[str, Any] | None:
    """Return what of `_meta` is for the other end, without what belongs to each connection."""
    given = table(meta) or {}
    return {key: given[key] for key in given if key not in _HOP_BY_HOP and not key.startswith(OWN_PREFIX)} or None


def own_fields(message: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the fields of a request, notification or answer, without what belongs to the connection it came over."""
    given = dict(message or {})
    if (meta := end_to_end(given.pop("_meta", None))) is not None:
        given["_meta"] = meta
    return given


def for_caller(answer: Mapping[str, Any], *, modern: bool | None) -> dict[str, Any]:
    """Return an answer that came over another connection in the form of the caller's era (SPEC GWY-1).

    Structured content is its text, too, where no block says anything: not every client has a place for it (GWY-18).
    A program has no era: then `modern` is `None`.
    """
    kind = answer.get("resultType", "complete")
    given = {key: value for key, value in own_fields(answer).items() if key != "resultType"}
    structured = given.get("structuredContent")
    if structured is not None:
        content = given.get("content")
        readable = [*_readable(content, structured)]
        given |= {} if readable == content else {"content": readable}
    if modern is False and table(structured) is None:  # the legacy era has it as an object only
        given.pop("structuredContent", None)
    return {"resultType": kind, **given} if modern else given


def dumped(result: Any) -> dict[str, Any]:
    """Return a result of a handler as it goes on the wire."""
    if isinstance(result, BaseModel):
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dict(result or {})


def offer_of(result: Any, hint: CacheHint | None, *, first: bool) -> Offer:
    """Return a page of a server's list; how long it may be cached is the server's `hint`, unless the page says."""
    page = dumped(result)
    rest = {key: page[key] for key in ("_meta", "nextCursor", *_FIELDS) if key in page}
    said = result.model_fields_set if isinstance(result, BaseModel) else page.keys()
    if hint is not None:
        hints = {"ttlMs": hint.ttl_ms, "cacheScope": hint.scope}
        rest |= {key: value for key, value in hints.items() if key not in said and _FIELDS[key] not in said}
    definitions: dict[str, ForeignDefinition] = {}
    for definition in page.get("tools", ()):
        definitions.setdefault(str(definition["name"]), definition)
    return Offer(definitions, rest, page.get("nextCursor"), first)


def without_mounted_groups(definition: ForeignDefinition) -> ForeignDefinition:
    """Return a definition as the server made it."""
    meta = table(definition.get("_meta"))
    if meta is None or MOUNTED_META not in meta:
        return definition
    rest = {key: value for key, value in meta.items() if key != MOUNTED_META}
    without = {key: value for key, value in definition.items() if key != "_meta"}
    return {**without, "_meta": rest} if rest else without


@contextmanager
def offering(offer: Offer) -> Generator[None]:
    """Have `offer` hold for what is rendered within."""
    token = current_offer.set(offer)
    try:
        yield
    finally:
        current_offer.reset(token)


def _said(result: Any, field: str, key: str) -> Any:
    """Return what a result, a model or a mapping, has in a field."""
    given = table(result)
    return getattr(result, field, None) if given is None else given.get(key)
