"""The answers of other servers, which pass as they came (SPEC GWY-1, INT-1).

Such an answer is a `Passed` result: nothing of it is checked or encoded on its way, and what is added to it is added
here. It is a model of the SDK or a mapping, in the form of the era of the caller, or the exception that was raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve
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

OWN_PREFIX = "dev.toolfold/"
"""How the keys of `_meta` begin that Toolfold sets itself."""

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


def _said(result: Any, field: str, key: str) -> Any:
    """Return what a result, a model or a mapping, has in a field."""
    given = table(result)
    return getattr(result, field, None) if given is None else given.get(key)
