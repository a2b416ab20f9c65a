"""What other servers answer and offer, passed on as it came (SPEC GWY-1, INT-1).

An answer is a `Passed` result: nothing of it is checked or encoded on its way, and what is added to it is added here.
It is a model of the SDK or a mapping, in the form of the era of the caller, or the exception that was raised. What an
existing server offers to the caller of a request is an `Offer`, whose definitions are listed in place of those that are
registered.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from attrs import evolve, field, frozen
from mcp.server.caching import CacheHint
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    LOG_LEVEL_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
)
from pydantic import BaseModel

from toolfold import InputRequired, ToolResult
from toolfold.spi import Passed, array, table

from ...names import MOUNTED_META

Definition = Mapping[str, Any]

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

    definitions: Mapping[str, Definition]
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
    return Passed(
        content=array(said.get("content")) or (),
        structured=said.get("structuredContent"),
        is_error=_said(answer, "is_error", "isError") is True,
        meta=table(said.get("_meta")),
        needs=InputRequired() if kind not in (None, "complete") else None,
        answer=answer,
    )


def with_text(
    result: ToolResult, text: str, *, first: bool = False, meta: Mapping[str, Any] | None = None
) -> ToolResult:
    """Return a result with one more text, before all others or after them, and with more in its `_meta`."""
    block = {"type": "text", "text": text}

    def joined(content: Any) -> list[Any]:
        return [block, *content] if first else [*content, block]

    if not isinstance(result, Passed):
        return evolve(result, content=joined(result.content), meta={**(result.meta or {}), **(meta or {})} or None)
    if isinstance(result.answer, BaseException):
        return result
    answer = dumped(result.answer)
    more = {"_meta": {**(table(answer.get("_meta")) or {}), **meta}} if meta else {}
    return evolve(result, answer={**answer, "content": joined(answer.get("content", ())), **more})


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

    A program has no era: then `modern` is `None`.
    """
    given = {key: value for key, value in own_fields(answer).items() if key != "resultType"}
    if modern is False and table(given.get("structuredContent")) is None:
        given.pop("structuredContent", None)
    return {"resultType": "complete", **given} if modern else given


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
    definitions: dict[str, Definition] = {}
    for definition in page.get("tools", ()):
        definitions.setdefault(str(definition["name"]), definition)
    return Offer(definitions, rest, page.get("nextCursor"), first)


def without_mounted_groups(definition: Definition) -> Definition:
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
