"""Tasks of upstreams: calls whose results are fetched later (SPEC GWY-18).

In revision 2025-11-25 a client asks for a task where a tool says that it can be called so (`execution.taskSupport`). In
2026-07-28 an extension has them, and a server may answer a call with one if the client declares it. Either way the
client has an id, with which it polls, cancels and answers what the task asks, and these pass to the upstream that has
the task. The id that a client has names the upstream, and is signed for the principal: no other caller, and no id that
was made up, reaches a task. It needs no memory here, so it holds after a reconnection, and after a restart if the key
of handles is set; whose rights are not to all of the server has a task as long as its tool is remembered (SPEC GWY-19).

A client that knows no tasks is answered with the result: the task is waited for here, with progress, and is cancelled
if the client gives up or it takes too long.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import anyio
from anyio.lowlevel import checkpoint
from attrs import define, field
from itsdangerous import BadSignature, Signer
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY

from toolfold import ProtocolError, ToolError
from toolfold.spi import array, table

from ...mcp.answer.proxy import CALL_TOOLS
from ..upstream.life import ConnectionLost
from ..upstream.notifications import TASKS_EXTENSION
from .downstream import StartedTask, can_answer
from .pages import with_id

if TYPE_CHECKING:
    from ..stored import Item
    from ..upstream.link import Link
    from ..upstream.upstream import Upstream
    from ..upstream.wire import Wire
    from .downstream import DownstreamClient, RequestInProgress

EXTENSION = TASKS_EXTENSION
RELATED = "io.modelcontextprotocol/related-task"
OF_TASK = "notifications/tasks"
"""What says in the extension how a task is, to those who watch it."""
STATUS = ("notifications/tasks/status", OF_TASK)
"""What says of a task how it is, in either era."""
METHODS = ("tasks/get", "tasks/result", "tasks/cancel", "tasks/update")
"""The requests about one task; `tasks/result` is of the older form, and `tasks/update` of the extension."""
LIST = "tasks/list"
PROGRESS = "notifications/progress"
ENDED = frozenset({"completed", "failed", "cancelled"})

ABLE: Mapping[str, Any] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
"""What a gateway can do of the older form where any upstream can; one that can do less refuses the rest itself."""

MOST_TASKS = 256
"""How many tasks of one connection, or of one client, are remembered."""
MOST_PAGES = 20
"""How many pages of its list of tasks an upstream is asked for."""
RETAINED_SECONDS = 3600.0
"""How long a connection stays open for a task at most, and how long one is waited for."""
POLL_SECONDS = (0.05, 10.0)
"""How often a task is asked for at most and at least, whatever its server says."""
USUAL_POLL_SECONDS = 1.0
CANCEL_SECONDS = 2.0
"""How long a task that nobody waits for any more may take to be cancelled."""


class TaskIds:
    """The ids of tasks as clients have them.

    Args:
        keys: Secrets; the last one signs, and all are accepted.
    """

    def __init__(self, keys: Sequence[str | bytes]) -> None:
        self._keys = [key.encode() if isinstance(key, str) else key for key in keys]

    def of(self, server: str, task: str, principal: str) -> str:
        """Return the id of a task of an upstream for the clients of a principal."""
        return self._signer(principal).sign(f"{server}+{task}").decode()

    def read(self, given: str, principal: str) -> tuple[str, str] | None:
        """Return the upstream and its own id of a task; `None` if the principal was given no such id."""
        try:
            server, _, task = self._signer(principal).unsign(given).decode().partition("+")
        except BadSignature:
            return None
        return server, task

    def _signer(self, principal: str) -> Signer:
        salt = hashlib.sha256(json.dumps(["toolfold.task", principal]).encode()).digest()
        return Signer(self._keys, salt=salt, sep=".", digest_method=hashlib.sha256)


@define(eq=False)
class Task:
    """A task of an upstream.

    Attributes:
        client: Whose it is.
        id: The id that the client has; `None` if the gateway itself waits for it.
        until: When it need not be remembered any more.
        tool: The tool that was called, by its name there.
        token: With what its progress is reported, if it is.
        changed: Is set when the upstream says of itself that its state changed.
    """

    client: DownstreamClient
    id: str | None
    until: float
    tool: str
    token: str | None = None
    changed: anyio.Event = field(factory=anyio.Event)


class OpenTasks:
    """The tasks that were started over one connection, by the upstream's ids."""

    def __init__(self) -> None:
        self._tasks: OrderedDict[str, Task] = OrderedDict()
        self._progress: dict[str, Callable[[Mapping[str, Any]], None]] = {}

    def note(self, task: str, started: Task) -> None:
        """Note a task that has been started."""
        self._tasks[task] = started
        if len(self._tasks) > MOST_TASKS:
            self.forget(next(iter(self._tasks)))

    def forget(self, task: str) -> None:
        """Take note that nothing more comes of a task."""
        gone = self._tasks.pop(task, None)
        if gone is not None and gone.token is not None:
            self._progress.pop(gone.token, None)

    @contextmanager
    def following(self, token: str, take: Callable[[Mapping[str, Any]], None]) -> Generator[None]:
        """Call `take` with the progress of a call, and of the task that has been noted with its token by the end."""
        self._progress[token] = take
        try:
            yield
        finally:
            if not self.is_followed(token):
                self._progress.pop(token, None)

    def is_followed(self, token: str | None) -> bool:
        """Return whether a client has a task whose progress has this token."""
        return token is not None and any(task.token == token for task in self._tasks.values())

    def progressed(self, params: Mapping[str, Any]) -> None:
        """Take the progress of a call that may have become a task; that of no such call is for nobody."""
        token: Any = params.get("progressToken")
        if isinstance(token, str) and token in self._progress:
            self._progress[token](params)

    def open(self, now: float) -> bool:
        """Return whether any task may still be asked for."""
        return any(task.until > now for task in self._tasks.values())

    def item(self, task: str) -> Item | None:
        """Return the tool whose call a task is, if that is remembered."""
        known = self._tasks.get(task)
        return None if known is None else ("tool", known.tool)

    def owned(self, task: str, client: DownstreamClient) -> bool:
        """Return whether a client started a task over this connection."""
        return task in self._tasks and self._tasks[task].client is client

    def about(self, method: str, params: Mapping[str, Any]) -> Task | None:
        """Return the task that a notification or a question is about; `None` if it is about none that is known."""
        given = params.get("taskId") if method in STATUS else _related(params)
        return self._tasks.get(given) if isinstance(given, str) else None


def for_client(method: str, params: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """Return what is about a task with the id that its client has; with none, where the client knows of no task."""
    if method in STATUS and task.id is not None:
        return {**params, "taskId": task.id}
    return related_to(params, task.id)


def related_to(message: Mapping[str, Any], task: str | None) -> dict[str, Any]:
    """Return a message that is related to a task by another id, or to none; one that is related to none as it is."""
    if _related(message) is None:
        return dict(message)
    meta = {key: one for key, one in message["_meta"].items() if key != RELATED}
    if task is not None:
        meta[RELATED] = {**message["_meta"][RELATED], "taskId": task}
    rest = {key: one for key, one in message.items() if key != "_meta"}
    return {**rest, "_meta": meta} if meta else rest


def _related(message: Mapping[str, Any]) -> str | None:
    related = table((table(message.get("_meta")) or {}).get(RELATED)) or {}
    given = related.get("taskId")
    return given if isinstance(given, str) else None


# -- calls -------------------------------------------------------------------------------------------------------------


def wanted(call: RequestInProgress) -> Mapping[str, Any] | None:
    """Return what a client of the older form asks for as a task; `None` if it asks for none, or for several calls."""
    params = {} if call.ctx is None else call.ctx.params or {}
    return None if call.modern or _is_several(params) else table(params.get("task"))


def able_as(call: RequestInProgress, capabilities: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the capabilities that a call is made with: it can't be answered with a task where it is one of several."""
    if call.ctx is not None and not _is_several(call.ctx.params or {}):
        return capabilities
    return _with_extension(capabilities, declared=False)


def _is_several(params: Mapping[str, Any]) -> bool:
    return params.get("name") == CALL_TOOLS


def _with_extension(capabilities: Mapping[str, Any], *, declared: bool) -> dict[str, Any]:
    others = {key: one for key, one in (table(capabilities.get("extensions")) or {}).items() if key != EXTENSION}
    extensions: dict[str, Any] = {**others, **({EXTENSION: {}} if declared else {})}
    rest = {key: one for key, one in capabilities.items() if key != "extensions"}
    return {**rest, "extensions": extensions} if extensions else rest


def declares(capabilities: Mapping[str, Any]) -> bool:
    """Return whether a client of the modern era can be answered with a task."""
    return EXTENSION in (table(capabilities.get("extensions")) or {})


def may_be_awaited(upstream: Upstream, capabilities: Mapping[str, Any], call: RequestInProgress) -> bool:
    """Return whether a call may become a task of the extension for which its client waits, since it knows none."""
    able: Mapping[str, Any] = {} if upstream.known is None else upstream.known.capabilities
    return declares(able) and not declares(able_as(call, capabilities))


def _needs_extension(error: ProtocolError) -> bool:
    if error.code != MISSING_REQUIRED_CLIENT_CAPABILITY:
        return False
    return declares(table((table(error.data) or {}).get("requiredCapabilities")) or {})


@define(eq=False)
class TaskCall:
    """A call of a tool that may become a task.

    Attributes:
        link: The connection to the upstream.
        wire: What carries its messages now.
        client: Who calls.
        call: Its request.
        id_for: Returns the id that the client has of a task, given the upstream's.
        report: Receives progress, if the client wants any.
    """

    link: Link
    wire: Wire
    client: DownstreamClient
    call: RequestInProgress
    id_for: Callable[[str], str]
    report: ProgressFnT | None
    _polls: int = field(default=0, init=False)
    _token: str | None = field(default=None, init=False)
    _reported: bool = field(default=False, init=False)

    async def made(self, params: Mapping[str, Any], *, required: bool) -> dict[str, Any]:
        """Return the answer to a call: its result, or the task that it has become for a client that knows tasks.

        Args:
            params: Its parameters.
            required: Whether the tool can only be called as a task, in the older form.
        """
        if self.wire.facts.modern:
            return await self._made_modern(params)
        task = wanted(self.call)
        if task is None and not required:
            return await self._request("tools/call", params)
        if self.report is None:
            return await self._made_as_task(params, task)
        self._token = token_hex(8)
        given = {**params, "_meta": {**params.get("_meta", {}), "progressToken": self._token}}
        with self.link.tasks.following(self._token, self._progressed):
            return await self._made_as_task(given, task)

    async def _made_as_task(self, params: Mapping[str, Any], task: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the answer to a call as a task of the older form, of which a client that asked for none waits."""
        asked = {"ttl": int(RETAINED_SECONDS * 1000)} if task is None else dict(task)
        answer = await self.wire.request(
            "tools/call", {**params, "task": asked}, capabilities=self.client.capabilities, cause=self.call
        )
        started = table(answer.get("task"))
        if started is None or not isinstance(started.get("taskId"), str):
            return answer
        if task is None:
            return await self._waited(started, params["name"])
        return {**related_to(answer, None), "task": self._noted(started, params["name"])}

    def _progressed(self, params: Mapping[str, Any]) -> None:
        """Report progress for the client's request, and once that is answered, of its task."""
        self._reported = True
        value: Any = params.get("progress")
        if self.link.tasks.is_followed(self._token):
            meta = (None if self.call.ctx is None else self.call.ctx.meta) or {}
            about = {**params, "progressToken": meta.get("progressToken", meta.get("progress_token"))}
            self.link.pass_on(self.client, partial(self.client.notify, PROGRESS, about))
        elif self.report is not None and isinstance(value, int | float):
            report = partial(self.report, value, params.get("total"), params.get("message"))
            self.link.pass_on(self.client, report)

    async def _made_modern(self, params: Mapping[str, Any]) -> dict[str, Any]:
        able = able_as(self.call, self.client.capabilities)
        knows = self.call.modern and declares(able)
        if not knows:
            able = _with_extension(able, declared=False)
        try:
            answer = await self._request("tools/call", params, able)
        except ProtocolError as error:
            if knows or not _needs_extension(error):
                raise
            answer = await self._request("tools/call", params, _with_extension(able, declared=True))
        if answer.get("resultType") != "task" or not isinstance(answer.get("taskId"), str):
            return answer
        return self._noted(answer, params["name"]) if knows else await self._waited(answer, params["name"])

    def _noted(self, started: Mapping[str, Any], tool: str) -> dict[str, Any]:
        """Note a task for its client, and return it with the id that the client has from now on."""
        name = started["taskId"]
        given = self.id_for(name)
        self.link.tasks.note(name, Task(self.client, given, self._until(started), tool, self._token))
        known = self.client.tasks
        known[self.link.upstream.key, name] = StartedTask(self.link, ("tool", tool))
        if len(known) > MOST_TASKS:
            known.popitem(last=False)
        return {**started, "taskId": given}

    def _until(self, started: Mapping[str, Any]) -> float:
        ttl: Any = started.get("ttlMs" if self.wire.facts.modern else "ttl")
        lives = ttl / 1000 if isinstance(ttl, int | float) else RETAINED_SECONDS
        return self.link.upstream.clock() + min(lives, RETAINED_SECONDS)

    # -- waited for here -----------------------------------------------------------------------------------------------

    async def _waited(self, started: Mapping[str, Any], tool: str) -> dict[str, Any]:
        """Return the result of a task, for a client that knows none; raises `ToolError` if it has none in time."""
        name = started["taskId"]
        task = Task(self.client, None, self._until(started), tool)
        self.link.tasks.note(name, task)
        ended = False
        try:
            with anyio.move_on_after(RETAINED_SECONDS):
                answer = await (self._polled if self.wire.facts.modern else self._polled_legacy)(started, task)
                ended = True
                return answer
            raise ToolError(f"The task did not end in {RETAINED_SECONDS:g} seconds, so it was cancelled.")
        except ProtocolError:
            ended = True
            raise
        finally:
            self.link.tasks.forget(name)
            if not ended:
                await self._cancel(name)

    async def _polled_legacy(self, started: Mapping[str, Any], task: Task) -> dict[str, Any]:
        state = started
        while state.get("status") == "working":
            await self._pause(state, task)
            state = await self._request("tasks/get", {"taskId": started["taskId"]})
        if state.get("status") == "cancelled":
            raise _cancelled(state)
        # While it asks for something, what it asks comes with the request for its result, which waits for its end.
        return related_to(await self._request("tasks/result", {"taskId": started["taskId"]}), None)

    async def _polled(self, started: Mapping[str, Any], task: Task) -> dict[str, Any]:
        state, asked = started, set[str]()
        while True:
            if state.get("status") == "cancelled":
                raise _cancelled(state)
            if state.get("status") in ENDED:
                return _outcome(state)
            await self._answer(started["taskId"], table(state.get("inputRequests")) or {}, asked)
            await self._pause(state, task)
            state = await self._request("tasks/get", {"taskId": started["taskId"]}, self._able)

    async def _answer(self, task: str, questions: Mapping[str, Any], asked: set[str]) -> None:
        """Have the client asked what a task asks for, once for each of its keys."""
        responses: dict[str, Any] = {}
        for key, given in questions.items():
            if key in asked:
                continue
            asked.add(key)
            question = table(given) or {}
            method, about = str(question.get("method")), table(question.get("params")) or {}
            what = about if self.call.modern else with_id(about)[0]
            try:
                if not can_answer(self.client.capabilities, method, what):
                    raise MCPError(METHOD_NOT_FOUND, f"The client does not answer {method}")
                responses[key] = dict(await self.call.ask(method, what))
            except MCPError as error:
                raise ToolError(f"The task asks for something, and was cancelled: {error.message}.") from error
        if responses:
            await self._request("tasks/update", {"taskId": task, "inputResponses": responses}, self._able)

    @property
    def _able(self) -> Mapping[str, Any]:
        return _with_extension(self.client.capabilities, declared=True)

    async def _pause(self, state: Mapping[str, Any], task: Task) -> None:
        """Report how a task is, and wait until it is asked for again, or the upstream says that its state changed."""
        said = state.get("statusMessage")
        if self.report is not None and not self._reported:  # else the server says itself how far it is
            self._polls += 1
            await self.report(float(self._polls), None, said if isinstance(said, str) else str(state.get("status")))
        given: Any = state.get("pollIntervalMs" if self.wire.facts.modern else "pollInterval")
        seconds = given / 1000 if isinstance(given, int | float) else USUAL_POLL_SECONDS
        with anyio.move_on_after(min(max(seconds, POLL_SECONDS[0]), POLL_SECONDS[1])):
            await task.changed.wait()
        task.changed = anyio.Event()
        await checkpoint()

    async def _cancel(self, task: str) -> None:
        with anyio.move_on_after(CANCEL_SECONDS, shield=True):
            try:
                await self._request("tasks/cancel", {"taskId": task}, self._able if self.wire.facts.modern else None)
            except (ProtocolError, ConnectionLost):
                return  # it has ended, or will with its server

    async def _request(
        self, method: str, params: Mapping[str, Any], able: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        own = method == "tools/call"
        return await self.wire.request(
            method,
            params,
            capabilities=self.client.capabilities if able is None else able,
            on_progress=self.report if own else None,
            cause=self.call,
        )


def _cancelled(state: Mapping[str, Any]) -> ToolError:
    said = state.get("statusMessage")
    return ToolError(f"The task was cancelled{f': {said}' if isinstance(said, str) else ' by its server'}.")


def _outcome(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a task of the extension that has ended; raises `ProtocolError` for one that failed."""
    if (error := table(state.get("error"))) is not None and state.get("status") == "failed":
        code = error.get("code")
        raise ProtocolError(
            code if isinstance(code, int) else INTERNAL_ERROR, str(error.get("message")), error.get("data")
        )
    return {"resultType": "complete", **(table(state.get("result")) or {"content": []})}


# -- requests about tasks ----------------------------------------------------------------------------------------------


async def asked(
    link: Link,
    method: str,
    params: Mapping[str, Any],
    client: DownstreamClient,
    call: RequestInProgress,
    wire: Wire,
    *,
    item: Item | None = None,
) -> dict[str, Any]:
    """Return what an upstream answers to a request that is about none of its lists but `item`, if that is given.

    All that came before the answer has been passed on by then.
    """
    await link.check_usable(item)
    try:
        return await wire.request(method, params, capabilities=client.capabilities, cause=call)
    finally:
        await link.flushed(client)


def answered(method: str, answer: Mapping[str, Any], given: str, task: str, link: Link) -> dict[str, Any]:
    """Return the answer about a task with the id that the client has; the result is the last that is asked for."""
    if method == "tasks/result" or (answer.get("status") in ENDED and "result" in answer):
        link.tasks.forget(task)
    named = {**answer, "taskId": given} if answer.get("taskId") == task else answer
    return related_to(named, given)


def lists(upstream: Upstream) -> bool:
    """Return whether an upstream lists tasks, and is known to."""
    able = {} if upstream.known is None else table(upstream.known.capabilities.get("tasks")) or {}
    return "list" in able


async def listed(link: Link, client: DownstreamClient, wire: Wire) -> dict[str, Any]:
    """Return the tasks that an upstream lists of a client: over a shared connection, those that it began."""
    if not await link.usable(None):
        return {"tasks": []}
    found: list[Mapping[str, Any]] = []
    params: dict[str, Any] = {}
    for _ in range(MOST_PAGES):
        page = await wire.request(LIST, params, capabilities=client.capabilities)
        given = map(table, array(page.get("tasks")) or ())
        found += [one for one in given if one is not None and isinstance(one.get("taskId"), str)]
        if not isinstance(cursor := page.get("nextCursor"), str):
            break
        params = {"cursor": cursor}
    own = link.client is client
    return {"tasks": [one for one in found if own or link.tasks.owned(one["taskId"], client)]}
