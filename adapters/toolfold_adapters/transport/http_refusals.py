"""What servers mean by the statuses of their answers over HTTP: a refusal, its reason, and what to do (SPEC GWY-3).

The SDK has one text for all of them, and drops what the server says beside its status. So whoever sends over HTTP takes
note of each answer that is no message of the protocol, and puts what it means in the place of the SDK's error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from math import ceil
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCResponse,
    RequestId,
)

from toolfold.spi import table

from .lines import TOO_LARGE, Around, Item, Messages
from .redaction import WORDS, quoted_short

if TYPE_CHECKING:
    import httpx2

SESSION_GONE = "Session terminated"
"""What the SDK's HTTP transport says when a server does not know the session any more: it did nothing."""
SESSION_HEADER = "mcp-session-id"

_LATER = "try again later"
_DAY = 86_400
_UNITS = ((3_600, "hour"), (60, "minute"), (1, "second"))
"""Units of time, in seconds, from the greatest; one is used for what is more than two of it."""
_NO_SERVER = "check its address and its transport: what is there may be no MCP server"
_NO_MESSAGE = "its answer is no message of the protocol (status 200 OK); look into its log"
ADVICE: Mapping[int, str] = MappingProxyType(
    {
        401: "log in again, or correct the token in its headers",
        403: "it knows who asks, and does not allow this: ask for access, or use other credentials",
        404: "check the path of its address",
        405: _NO_SERVER,
        406: _NO_SERVER,
        407: "the proxy before it wants credentials: correct the settings of the proxy",
        408: _LATER,
        410: "there was a server once: look for its new address",
        413: "the request was too large: ask for less",
        415: _NO_SERVER,
        429: _LATER,
        500: "its own fault: look into its log, or try again later",
        501: _NO_SERVER,
        502: "what stands before it can't reach it: try again later",
        503: _LATER,
        504: "what stands before it had no answer from it in time: try again later",
    }
)
"""What to do about a status; another is one of the request or, from 500 on, of the server."""
BY_STATUS = frozenset({401, 403, 405, 406, 407, 415, 429})
"""Statuses that say more than an error of the protocol in the same answer."""
_FORGOTTEN = re.compile(
    r"\bsession\b.{0,40}\b(not found|unknown|invalid|not valid|expired|terminated|closed|not exist|not initialized)\b"
    r"|\b(no|no valid|unknown|invalid|expired|missing) (mcp[ -])?session\b|\bserver not initialized\b",
    re.IGNORECASE,
)
_CODES = frozenset({-32000, -32001, INVALID_REQUEST})
"""Codes that an error about sessions has; with others, it is about something else that is called so."""
_PLAIN_HEADERS = re.compile(r"accept|accept-encoding|connection|content-.*|host|user-agent|mcp-.*", re.IGNORECASE)
_DESCRIPTION = re.compile(r'\berror_description="([^"]*)"')


class StatusLine(str):
    """The data of an error that stands for a refusal; a server's own error never has it."""

    __slots__ = ()


def forgets_session(code: int, message: str) -> bool:
    """Return whether a server says by an error, to a request with a session, that it knows no such session."""
    return code in _CODES and _FORGOTTEN.search(message[: 2 * WORDS]) is not None


async def session_forgotten(response: httpx2.Response) -> bool:
    """Return whether the answer to a request with a session says that there is no such session; it is not a stream."""
    if SESSION_HEADER not in response.request.headers:
        return False
    if response.is_success:
        if not response.headers.get("content-type", "").startswith("application/json"):
            return False
        error = table((table(_json(await _body(response))) or {}).get("error")) or {}
        code, message = error.get("code"), error.get("message")
        return isinstance(code, int) and isinstance(message, str) and forgets_session(code, message)
    found = await _meaning(response)
    return found is not None and found.message == SESSION_GONE


async def refusal_of(response: httpx2.Response) -> str | None:
    """Return what the status of an answer means, as a clause; `None` if it is no refusal."""
    found = await _meaning(response)
    return None if found is None else found.message


class Answers:
    """What the answers over one connection mean that are no messages of the protocol."""

    def __init__(self) -> None:
        self.in_session = False
        self._errors: dict[RequestId, ErrorData] = {}

    async def note(self, response: httpx2.Response) -> None:
        """Take note of an answer, before anything reads it; for the hooks of an HTTP client."""
        request = response.request
        if request.method != "POST" or "text/event-stream" not in request.headers.get("accept", ""):
            return  # of a login
        self.in_session = self.in_session or SESSION_HEADER in request.headers
        asked = table(json.loads(await request.aread())) or {}
        identity = asked.get("id") if "method" in asked else None
        _only.set(identity if response.is_success and _kind(response) == "application/json" else None)
        if identity is None:
            return
        self._errors.pop(identity, None)
        if (found := await _meaning(response)) is not None:
            self._errors[identity] = found

    def reading(self, stream: Any) -> Messages:
        """Return what reads messages, with the errors that the server intended."""
        return _Reading(stream, self)

    def replaced(self, item: Item, only: RequestId | None = None) -> Item:
        """Return a message, or the error that was intended in its place.

        Args:
            item: The message.
            only: The request to which it is the whole answer, if it is one.
        """
        if only is not None and isinstance(item, SessionMessage):
            item = _answering(item, only)
        if not isinstance(item, SessionMessage) or not isinstance(answer := item.message, JSONRPCError):
            return item
        error = self._errors.pop(answer.id, None) if answer.id is not None else None
        if (error := error or _of_sdk(answer.error)) is None and self.in_session:
            given = answer.error
            error = _gone(given.message) if forgets_session(given.code, given.message) else None
        if error is None:
            return item
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=answer.id, error=error), item.metadata)


class _Reading(Around):
    def __init__(self, stream: Any, answers: Answers) -> None:
        super().__init__(stream)
        self._answers = answers

    async def __anext__(self) -> Item:
        item = await anext(self._stream)
        context = self.last_context
        return self._answers.replaced(item, None if context is None else context.get(_only))


_only: ContextVar[RequestId | None] = ContextVar("toolfold_only", default=None)
"""The request whose answer is one message and no stream: the SDK has that in the context of the request."""


def _answering(item: SessionMessage, only: RequestId) -> SessionMessage:
    """Return the whole answer to a request, as of that request, or an error if it answers nothing."""
    answer = item.message
    if not isinstance(answer, JSONRPCResponse | JSONRPCError):
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=only, error=_refusal(HTTPStatus.OK, _NO_MESSAGE)))
    return item if answer.id == only else SessionMessage(answer.model_copy(update={"id": only}), item.metadata)


async def _meaning(response: httpx2.Response) -> ErrorData | None:
    """Return the error that an answer to a request means, or `None` if it is one of the protocol."""
    status = response.status_code
    kind = _kind(response)
    if response.has_redirect_location:
        return _refusal(status, f"it redirects to {_location(response)}; if that is its address, give it as its url")
    if status == HTTPStatus.ACCEPTED:
        return _refusal(status, "it took the request and does not answer it (status 202 Accepted); try again")
    if response.is_success:
        if response.headers.get("content-length") == "0":
            return _refusal(status, f"it answered with nothing (status {_named(status)}); {_NO_SERVER}")
        if kind not in ("application/json", "text/event-stream"):
            kind = kind[:WORDS] or "something unnamed"
            return _refusal(status, f"it answered with {kind} and no message of the protocol; {_NO_SERVER}")
        return None
    body, error = await _body(response), None
    data = _json(body)
    if isinstance(said := (table(data) or {}).get("error"), dict):
        with suppress(ValueError):
            error = ErrorData.model_validate(said)
    words = _without_secrets(error.message if error is not None else _words(response, kind, body, data), response)
    if SESSION_HEADER in response.request.headers:
        code = error.code if error is not None else INVALID_REQUEST
        if status == HTTPStatus.NOT_FOUND or forgets_session(code, words):
            return _gone(": ".join(filter(None, (f"status {_named(status)}", words))))
    if error is not None and status not in BY_STATUS:
        return None
    reason = f" ({words})" if words else ""
    return _refusal(status, f"it answered with status {_named(status)}{reason}: {_advice(response)}")


def _refusal(status: int, text: str) -> ErrorData:
    code = METHOD_NOT_FOUND if status == HTTPStatus.NOT_FOUND else INTERNAL_ERROR
    return ErrorData(code=code, message=text, data=StatusLine(_named(status)))


def _gone(words: str) -> ErrorData:
    return ErrorData(code=INVALID_REQUEST, message=SESSION_GONE, data=words)


def _of_sdk(error: ErrorData) -> ErrorData | None:
    """Return what the SDK means by an error about a body that it can't read, without its own words."""
    if error.code != PARSE_ERROR or not error.message.startswith("Failed to parse "):
        return None
    if TOO_LARGE in error.message:
        text = f"{error.message[error.message.index(TOO_LARGE) :]}; if it has to, raise its max_message_bytes"
    else:
        text = _NO_MESSAGE
    return _refusal(HTTPStatus.OK, text)


def _kind(response: httpx2.Response) -> str:
    """Return the media type of an answer."""
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def _named(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _advice(response: httpx2.Response) -> str:
    status = response.status_code
    if (seconds := _seconds(response)) is not None:
        return _when(seconds)
    return ADVICE.get(status, "check its address and headers" if status < 500 else _LATER)


def _when(seconds: int) -> str:
    """Return when to try again, in words; nobody waits for more than a day."""
    if seconds > _DAY:
        return _LATER
    size, unit = next((one for one in _UNITS if seconds > 2 * one[0]), _UNITS[-1])
    count = ceil(seconds / size)
    return f"try again in {count} {unit}{'s' * (count != 1)}" if count else "try again"


def _seconds(response: httpx2.Response) -> int | None:
    """Return how long a server wants to be left alone: it gives seconds, or a time, to be compared with its own."""
    given = response.headers.get("retry-after", "").strip()
    if given.isascii() and given.isdigit() and len(given) < 8:
        return int(given)
    with suppress(ValueError, TypeError):
        now = parsedate_to_datetime(response.headers.get("date", ""))
        return max(0, round((parsedate_to_datetime(given) - now).total_seconds()))
    return None


async def _body(response: httpx2.Response) -> str:
    """Return the text of an answer, or none if it can't be read."""
    import httpx2  # not for those who have no server at a URL

    try:
        await response.aread()
    except (httpx2.HTTPError, httpx2.StreamError):
        return ""
    return response.content.decode(errors="replace").strip()


def _json(body: str) -> Any:
    with suppress(ValueError, RecursionError):
        return json.loads(body)
    return None


def _words(response: httpx2.Response, kind: str, body: str, data: Any) -> str:
    """Return a server's reason in its own words; a page is none."""
    if (described := _DESCRIPTION.search(response.headers.get("www-authenticate", ""))) is not None:
        return described[1]
    if data is not None:
        return _within(data)
    return "" if kind.endswith(("html", "xml")) or body.startswith("<") else next(iter(body.splitlines()), "")


def _within(data: Any) -> str:
    """Return the reason in a body that is JSON, by the names that reasons have."""
    if isinstance(data, str):
        return data
    found = table(data) or {}
    for key in ("error_description", "message", "error", "detail", "title", "reason"):
        if (words := _within(found[key]) if key in found and _is_short(found[key]) else "") != "":
            return words
    return ""


def _is_short(value: Any) -> bool:
    """Return whether a value may have a reason: a text, or one level of an object."""
    return isinstance(value, str) or (
        isinstance(value, dict) and all(not isinstance(one, dict) for one in cast("dict[str, Any]", value).values())
    )


def _location(response: httpx2.Response) -> str:
    """Return where an answer redirects to, without what may be a secret there."""
    import httpx2

    with suppress(httpx2.InvalidURL, ValueError):
        url = response.request.url.join(response.headers["location"])
        return str(url.copy_with(userinfo=b"", query=None, fragment=None))[:WORDS]
    return "another address"


def _without_secrets(words: str, response: httpx2.Response) -> str:
    """Return a server's words, cut, without what it was sent as credentials."""
    headers = response.request.headers
    return quoted_short(words, [value for name, value in headers.items() if not _PLAIN_HEADERS.fullmatch(name)])
