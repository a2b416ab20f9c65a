"""Forwards what clients ask of upstreams, and the answers back (SPEC GWY-1, GWY-7).

Nothing of a request or an answer is validated or changed: that is between the client and the server.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from anyio.abc import TaskGroup
from attrs import field
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import INVALID_PARAMS, LOG_LEVEL_META_KEY, METHOD_NOT_FOUND
from pydantic_core import to_json

from toolfold import Context, InputRequired, ProtocolError, ToolError
from toolfold.spi import MAX_URI, Kind, Passed, RequestView, array, frozen, quoted, table

from ...mcp.address.signed import signing_keys
from ...mcp.answer.asked import lacking
from ...mcp.answer.render import RESOURCE_NOT_FOUND, end_to_end, for_caller, passed
from ...mcp.principal import Principal
from ...observe.audit import Audit
from ..beside import beside
from ..callers.allowances import Allowances
from ..config.settings import RightsConfig
from ..stored import Item
from ..upstream.life import ConnectionLost, LoginRequired
from ..upstream.link import Link
from ..upstream.upstream import Upstream
from ..upstream.wire import Wire
from ..views import SCHEME, Renamed, answer_here
from .asking import asking, made_meanwhile, without_own
from .dialogue import ROUNDS, Dialogues, in_rounds, still_asking
from .downstream import (
    LEVELS,
    URL_MODE,
    Clients,
    DownstreamClient,
    RequestInProgress,
    ServerContext,
    links_of,
    server_context,
)
from .pages import COMPLETE, Pages, pages_of, visit
from .tasks import TaskCall, TaskIds, may_be_awaited

log = logging.getLogger("toolfold.gateway")

_AGAIN = ("inputResponses", "requestState")

FindUpstream = Callable[[str, DownstreamClient, RequestView], Upstream | None]
ToolHandler = Callable[[dict[str, Any], Context], Awaitable[Any]]


@frozen
class ForwardedRequest:
    """What a client asks of an upstream.

    `item` is what it is about, `progress` receives the progress of the answer, and `views` are those of the upstream
    that have another URI here.
    """

    upstream: Upstream
    method: str
    params: Mapping[str, Any]
    client: DownstreamClient
    item: Item
    progress: ProgressFnT | None = None
    views: Renamed = field(factory=dict[str, str])


class Forwarding:
    """Makes requests at upstreams for clients.

    Args:
        clients: The clients.
        tasks: Where calls go on that wait for their client between two of its requests.
        unlisted: Returns the upstream that may have a resource which none lists.
        row_of: Returns what a caller may do, if that is limited.
        may: Returns whether a caller may use something of an upstream.
        allowances: What callers may use up.
        views_of: Returns the views of an upstream that have another URI here.
        audit: Has a line for each request.
        keys: What the ids of tasks are signed with; if there are none, what handles are.

    `pages` has the pages of the gateway's own that clients were sent to.
    """

    def __init__(
        self,
        clients: Clients,
        tasks: TaskGroup,
        unlisted: FindUpstream,
        row_of: Callable[[Principal], RightsConfig | None],
        may: Callable[[Principal, str, Item], bool],
        allowances: Allowances,
        views_of: Callable[[str], Renamed],
        audit: Audit,
        keys: Sequence[bytes] = (),
    ) -> None:
        self._clients = clients
        self._unlisted = unlisted
        self._row_of = row_of
        self._may = may
        self._allowances = allowances
        self._views_of = views_of
        self._audit = audit
        self.pages = Pages()
        self.dialogues = Dialogues(tasks)
        self.task_ids = TaskIds(keys or signing_keys(None, os.environ))

    def handler(self, upstream: Upstream, kind: Kind, original: str) -> ToolHandler:
        """Return the handler of something that an upstream offers, which calls it `original`.

        Registration inspects each handler, and a plain function takes it a third of the time of a `partial`.
        """
        item = (kind, original)

        async def handle(arguments: dict[str, Any], context: Context) -> Any:
            return await self._perform(upstream, item, arguments, context)

        return handle

    async def unlisted(self, values: dict[str, Any], context: Context) -> Any:
        """Return the contents of a resource that no upstream lists; raises `ProtocolError` if none can have it."""
        uri = values["uri"]
        upstream = self._unlisted(uri, self._clients.of(context), context.request_view)
        if upstream is None:
            raise unknown_resource(uri, modern=RequestInProgress(server_context(context.request)).modern)
        return await self._perform(upstream, ("resource", uri), values, context)

    # -- a request ----------------------------------------------------------------------------------------------------

    async def _perform(
        self, upstream: Upstream, item: Item, arguments: dict[str, Any], context: Context
    ) -> Passed | InputRequired:
        """Return the answer to a request of a client; raises `ToolError` and `ProtocolError` for it."""
        ctx = server_context(context.request)
        method, params = _message(item, arguments)
        if meta := end_to_end(getattr(context.request, "meta", None)):
            params["_meta"] = meta
        client, call = self._clients.of(context), RequestInProgress(ctx)
        views = self._views_of(upstream.key)
        if method == "resources/read" and str(params["uri"]).startswith(SCHEME):
            theirs = {here: uri for uri, here in views.items()}
            params["uri"] = theirs.get(params["uri"], params["uri"])
            item = (item[0], theirs.get(item[1], item[1]))
            client.shown.add(upstream.key)
        answer = await self.request(
            ForwardedRequest(upstream, method, params, client, item, context.report_progress, views), call
        )
        result = _passing(answer, call)
        if method == "tools/call" and isinstance(result, Passed) and not _is_tool_result(result.answer):
            raise ToolError("The server's answer is not a tool result; its operator should look at the server.")
        return result

    async def request(self, asked: ForwardedRequest, call: RequestInProgress) -> dict[str, Any] | InputRequired:
        """Return the answer of an upstream to a request of a client, or what it asks for first.

        Raises:
            ProtocolError: The upstream answered with this error.
            UpstreamError: It can't be used, or its answer was lost.
            ToolError: The request can't be passed on, or its caller has used up what it may.
        """
        if asked.method == "tools/call":  # its line is written where all calls of tools are
            with self._audit.calling():
                return await self._request(asked, call)
        about = asked.item[1].partition("?")[0]  # what follows in a URI is an argument
        with self._audit.noted(asked.upstream.key, asked.method, about) as ended:
            answer = await self._request(asked, call)
            if isinstance(answer, InputRequired):
                ended["outcome"] = "asked"
            return answer

    async def _request(self, asked: ForwardedRequest, call: RequestInProgress) -> dict[str, Any] | InputRequired:
        if call.ctx is None:  # what came over a connection can be written to another
            _check_json(asked)
        client = asked.client
        principal, _ = client.asks_as
        if not self._may(principal, asked.upstream.key, asked.item):  # its session may have another request's rights
            raise ToolError("This request has no right to that, so nothing was done.")

        async def perform(call: RequestInProgress) -> dict[str, Any]:
            async def answered() -> dict[str, Any]:
                link = asked.upstream.link(client, call=True)
                return await link.performed(partial(_answered, link, asked, call, self.task_ids), client, call)

            return await self.counted(client, principal, answered)

        await made_meanwhile(asked.upstream.callers, call)
        translated = not asked.upstream.modern or self.dialogues.wait_for(call)  # it may have become modern meanwhile
        awaited = asked.method == "tools/call" and may_be_awaited(asked.upstream, client.capabilities, call)
        try:
            if call.modern and client.capabilities and (translated or awaited):
                about = asked.upstream.key, asked.item
                return await self.dialogues.go_on(call, client.principal, perform, about, passes=not translated)
            return await perform(call)
        except LoginRequired as required:
            return asking(required, client, call, self.pages)

    async def say_done(self, page: str) -> None:
        """Tell the client that was sent to a page of the gateway's own that its user is done there."""
        params = {"elicitationId": page}
        if (client := self.pages.complete(params)) is not None:
            await client.notify(COMPLETE, params)

    async def counted(
        self, client: DownstreamClient, principal: Principal, answered: Callable[[], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        """Return what `answered` returns, a request of an upstream that counts for a caller; raises `ToolError`.

        SPEC GWY-19.
        """
        try:
            if (row := self._row_of(principal)) is not None:
                self._allowances.take(principal, row)
            answer = await answered()
            if row is not None:
                self._allowances.use(principal, row, answer)
            return answer
        finally:
            self._clients.release(client)  # not before: the call may outlive the request that began it


def _message(item: Item, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the method and the parameters of a request for something that an upstream offers."""
    kind, original = item
    if kind == "tool":
        return "tools/call", {"name": original, "arguments": arguments}
    if kind == "prompt":
        return "prompts/get", {"name": original, **({"arguments": arguments} if arguments else {})}
    return "resources/read", {"uri": arguments.get("uri", original)}  # a template has no URI of its own


async def _answered(
    link: Link, asked: ForwardedRequest, call: RequestInProgress, ids: TaskIds, wire: Wire
) -> dict[str, Any]:
    """Return what is answered over an open connection, after all that came before it has been passed on."""
    client, params = asked.client, asked.params
    await set_level(link, wire, client)
    wanted = asked.progress if _wants_progress(call.ctx) else None
    report = _reporter(link, client, wanted) if wanted is not None else None
    again: dict[str, Any] = {}
    passes = call.modern and (call.asks is None or call.passes)  # else its upstream was not known to be modern
    if wire.facts.modern and passes and call.ctx is not None:
        again = without_own({key: value for key, value in (call.ctx.params or {}).items() if key in _AGAIN})
    if wire.facts.modern and client.level is not None:
        again["_meta"] = {**params.get("_meta", {}), LOG_LEVEL_META_KEY: client.level}

    def id_for(task: str) -> str:
        return ids.of(link.upstream.key, task, client.principal.key)

    made = TaskCall(link, wire, client, call, id_for, report)

    async def request(given: Mapping[str, Any]) -> dict[str, Any]:
        await link.check_usable(asked.item)
        if asked.method == "resources/read":  # also by a template that may be used
            await link.check_usable(("resource", params["uri"]))
        given = {**given, **again}
        if asked.method == "tools/call":
            return await made.made(given, required=link.upstream.needs_task(asked.item[1], link.acting))
        able = client.capabilities
        return await wire.request(asked.method, given, capabilities=able, on_progress=report, cause=call)

    def done(page: str) -> None:
        link.pass_on(client, partial(client.notify, COMPLETE, {"elicitationId": page}))

    try:
        if wire.facts.modern:
            answer = await (request(params) if passes else in_rounds(call, params, request, done))
        else:
            answer = await _after_visits(link, client, call, partial(request, params))
    finally:
        await link.flushed(client)
    if asked.views:
        answer = answer_here(answer, asked.views)
    if asked.method == "tools/call":
        blocks = array(answer.get("content")) or ()
        client.note_links(link.upstream.key, await beside(len(blocks), links_of, answer))
    return answer


async def _after_visits(
    link: Link, client: DownstreamClient, call: RequestInProgress, request: Callable[[], Awaitable[dict[str, Any]]]
) -> dict[str, Any]:
    """Return what a legacy upstream answers; a modern client visits the pages that it needs visited first (GWY-18).

    An upstream that fails since it was told that the client has no such method answers with that same error, which in
    the modern era would say that there is no such method here: the client learns which capability it lacks.
    """
    for _ in range(ROUNDS):
        try:
            return await request()
        except ProtocolError as error:
            for page in pages_of(error):
                link.pages.note({"mode": URL_MODE, **page}, client)
            if not call.modern:
                raise
            if error.code == METHOD_NOT_FOUND and call.lacks:
                refused = lacking(call.lacks)
                raise ProtocolError(refused.code, refused.message, refused.data) from error
            await visit(error, link.pages, client, call)
    raise still_asking(ROUNDS)


async def set_level(link: Link, wire: Wire, client: DownstreamClient) -> None:
    """Have a legacy upstream log at the level that the client wants; at the least one where clients share it."""
    if client.level is None or wire.facts.modern or "logging" not in wire.facts.capabilities:
        return
    least = client.level if link.level is None else min(client.level, link.level, key=LEVELS.index)
    level = least if link.client is None else client.level
    if level == link.level:
        return
    link.level = level
    try:
        await wire.request("logging/setLevel", {"level": level})
    except (ProtocolError, ConnectionLost) as error:
        log.debug("a log level was not taken: %s", error)


def _reporter(link: Link, client: DownstreamClient, progress: ProgressFnT) -> ProgressFnT:
    async def passed(value: float, total: float | None, message: str | None) -> None:
        try:
            await progress(value, total, message)
        except Exception:
            log.debug("progress could not be reported", exc_info=True)

    async def report(progress: float, total: float | None, message: str | None) -> None:
        link.pass_on(client, partial(passed, progress, total, message))

    return report


def _wants_progress(ctx: ServerContext | None) -> bool:
    """Return whether anybody may want to know how far a call has come: a program, or a client with a token."""
    return ctx is None or bool({"progressToken", "progress_token"} & (ctx.meta or {}).keys())


def unknown_resource(uri: str, *, modern: bool) -> ProtocolError:
    """Return the refusal of a URI that no upstream can have."""
    code = INVALID_PARAMS if modern else RESOURCE_NOT_FOUND
    return ProtocolError(code, f"Unknown resource: {quoted(uri)}", {"uri": quoted(uri, MAX_URI)})


# -- what passes ------------------------------------------------------------------------------------------------------


def _check_json(asked: ForwardedRequest) -> None:
    """Refuse what can't be written as JSON; the connection, which others may share, would end on it."""
    try:
        to_json(asked.params)
    except ValueError as error:
        name = asked.params.get("name", asked.method)
        raise ToolError(f"The arguments of {name} can't be written as JSON in UTF-8; correct them.") from error


def _passing(answer: Mapping[str, Any] | InputRequired, call: RequestInProgress) -> Passed | InputRequired:
    """Return the answer of an upstream as one that passes as it came."""
    if isinstance(answer, InputRequired):
        return answer
    if answer.get("resultType") == "input_required":
        return _input_required(answer)
    return passed(for_caller(answer, modern=None if call.ctx is None else call.modern))


def _is_tool_result(answer: Mapping[str, Any]) -> bool:
    content = array(answer.get("content", []))
    return content is not None and all(table(block) is not None for block in content)


def _input_required(answer: Mapping[str, Any]) -> InputRequired:
    state = answer.get("requestState")
    return InputRequired(table(answer.get("inputRequests")) or {}, state if isinstance(state, str) else None)
