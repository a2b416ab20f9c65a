"""An upstream in the same process whose calls are tasks, in the form of either era, by hand: an SDK has none."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from attrs import define, field
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

from toolfold_adapters.gateway.serving.tasks import EXTENSION, RELATED

Message = dict[str, Any]
OBJECT = {"type": "object"}
SUPPORT = {"long": "optional", "only": "required", "asks": "required", "now": "forbidden", "unsure": "forbidden"}
ASKED = {"message": "How many?", "requestedSchema": {"type": "object", "properties": {}}}
CAPABILITIES: dict[bool, Message] = {
    False: {"tools": {}, "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}},
    True: {"tools": {}, "extensions": {EXTENSION: {}}},
}


@define(eq=False)
class OneTask:
    """A task, and how it is."""

    id: str
    tool: str
    token: Any = None
    status: str = "working"
    answers: Message = field(factory=dict)
    changed: anyio.Event = field(factory=anyio.Event)

    def to(self, status: str) -> None:
        self.status = status
        self.changed.set()
        self.changed = anyio.Event()


@define(eq=False)
class TaskServer:
    """A server with tasks `t-1`, `t-2` … of its own; each is `working` until the test has it end.

    Attributes:
        modern: Whether it is of the modern era.
        tasks: The tasks that were started, by their ids.
        asked: The methods and parameters that arrived.
        sends: How to send over each of its connections.
        polled: Is set when a task has been asked for.
        watched: The tasks that are subscribed to.
    """

    modern: bool = False
    tasks: dict[str, OneTask] = field(factory=dict)
    asked: list[tuple[str, Message]] = field(factory=list)
    sends: list[Any] = field(factory=list)
    polled: anyio.Event = field(factory=anyio.Event)
    watched: list[str] = field(factory=list)
    _answered: dict[str, anyio.Event] = field(factory=dict)
    _answers: dict[str, Message] = field(factory=dict)

    def of(self, method: str) -> list[Message]:
        return [params for asked, params in self.asked if asked == method]

    def notify(self, task: OneTask) -> None:
        """Notify of how a task is, over each connection."""
        method = "notifications/tasks" if self.modern else "notifications/tasks/status"
        for send in self.sends:
            send({"jsonrpc": "2.0", "method": method, "params": self._state(task)})

    def report(self, task: OneTask, value: float) -> None:
        """Report the progress of a task, over each connection."""
        params = {"progressToken": task.token, "progress": value, "total": 9, "message": f"step {value}"}
        for send in self.sends:
            send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    @asynccontextmanager
    async def transport(self, config: Any, name: str) -> AsyncGenerator[tuple[Any, Any]]:
        to_server, from_client = anyio.create_memory_object_stream[SessionMessage](100)
        to_client, from_server = anyio.create_memory_object_stream[SessionMessage](100)

        def send(message: Message) -> None:
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # it has ended
                to_client.send_nowait(SessionMessage(jsonrpc_message_adapter.validate_python(message)))

        async def serve() -> None:
            self.sends.append(send)
            async for item in from_client:
                message = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
                if "method" not in message:
                    self._answers[str(message["id"])] = message
                    self._answered[str(message["id"])].set()
                elif "id" in message:
                    tasks.start_soon(self._take, message, send)

        async with to_server, from_client, to_client, from_server, anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            yield from_server, to_server
            tasks.cancel_scope.cancel()

    async def over_http(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request over HTTP; an ASGI application."""
        body, answers, more = b"", list[Message](), True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        if body and "id" in (message := json.loads(body)):
            await self._take(message, answers.append)
        status = 200 if answers else 202 if body else 405
        headers = [(b"content-type", b"application/json")] if answers else []
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(answers[0]).encode() if answers else b""})

    async def _take(self, message: Message, send: Any) -> None:
        method, params = message["method"], message.get("params") or {}
        self.asked.append((method, params))
        answer = await self._result(method, params, send)
        if "error" not in answer:
            answer = {"result": {"resultType": "complete", **answer} if self.modern else answer}
        send({"jsonrpc": "2.0", "id": message["id"], **answer})

    async def _result(self, method: str, params: Message, send: Any) -> Message:
        about = {"capabilities": CAPABILITIES[self.modern], "serverInfo": {"name": "tasks", "version": "1"}}
        if method == "initialize" and not self.modern:
            return {"protocolVersion": LATEST_HANDSHAKE_VERSION, **about}
        if method == "server/discover" and self.modern:
            return {"supportedVersions": [LATEST_MODERN_VERSION], **about}
        if method == "subscriptions/listen" and self.modern:
            ids = params["notifications"].get("taskIds", [])
            honoured = {"notifications": {"taskIds": ids} if _knows_tasks(params) else {}}
            send({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": honoured})
            self.watched = ids
            await anyio.sleep_forever()
        if method == "tools/list":
            return {"tools": [self._tool(name) for name in SUPPORT]}
        if method == "tools/call":
            return self._call(params)
        if method == "tasks/list" and not self.modern:
            return {"tasks": [self._state(task) for task in self.tasks.values()]}
        task = self.tasks.get(params.get("taskId", ""))
        if not method.startswith("tasks/"):
            return {"error": {"code": -32601, "message": method}}
        if task is None:
            return {"error": {"code": -32602, "message": "no such task"}}
        if method == "tasks/cancel":
            task.to("cancelled")
        if method == "tasks/update":
            task.answers |= params["inputResponses"]
            task.to("working")
            return {}
        if method == "tasks/result":
            return await self._awaited(task, send)
        self.polled.set()
        return {**self._state(task), **(self._outcome(task) if self.modern and method == "tasks/get" else {})}

    def _tool(self, name: str) -> Message:
        execution = {} if self.modern else {"execution": {"taskSupport": SUPPORT[name]}}
        return {"name": name, "description": f"Does {name}.", "inputSchema": OBJECT, **execution}

    def _call(self, params: Message) -> Message:
        name, declared = params["name"], (params.get("_meta") or {})
        may = _knows_tasks(params) if self.modern else "task" in params
        if not may and SUPPORT[name] == "required":
            needed: Message = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
            code = -32021 if self.modern else -32601
            return {"error": {"code": code, "message": "only as a task", "data": needed}}
        if name == "unsure" and params.get("requestState") != "mine":
            questions = {"q": {"method": "elicitation/create", "params": ASKED}}
            return {"resultType": "input_required", "inputRequests": questions, "requestState": "mine"}
        if not may or SUPPORT[name] == "forbidden":
            return said(f"ran {name}")
        task = OneTask(f"t-{len(self.tasks) + 1}", name, declared.get("progressToken"))
        self.tasks[task.id] = task
        return {"resultType": "task", **self._state(task)} if self.modern else {"task": self._state(task)}

    def _state(self, task: OneTask) -> Message:
        times = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}
        kept = {"ttlMs": 60_000, "pollIntervalMs": 50} if self.modern else {"ttl": 60_000, "pollInterval": 50}
        return {"taskId": task.id, "status": task.status, "statusMessage": f"is {task.status}", **times, **kept}

    def _outcome(self, task: OneTask) -> Message:
        if task.status == "input_required":
            return {"inputRequests": {"q": {"method": "elicitation/create", "params": ASKED}}}
        if task.status == "failed":
            return {"error": {"code": -32099, "message": "it failed", "data": {"why": 1}}}
        return {"result": said(f"did {task.tool} {task.answers}")} if task.status == "completed" else {}

    async def _awaited(self, task: OneTask, send: Any) -> Message:
        if task.status == "input_required":
            number = f"question-{task.id}"
            self._answered[number] = anyio.Event()
            params = {**ASKED, "_meta": {RELATED: {"taskId": task.id}}}
            send({"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": params})
            await self._answered[number].wait()
            task.answers["q"] = self._answers[number].get("result") or self._answers[number]["error"]
            task.to("working")
        while task.status in ("working", "input_required"):
            await task.changed.wait()
        if task.status == "failed":
            return {"error": {"code": -32099, "message": "it failed", "data": {"why": 1}}}
        return {**said(f"did {task.tool} {task.answers}"), "_meta": {RELATED: {"taskId": task.id}, "example.org/x": 1}}


def _knows_tasks(params: Message) -> bool:
    able = (params.get("_meta") or {}).get("io.modelcontextprotocol/clientCapabilities", {})
    return EXTENSION in able.get("extensions", {})


def said(text: str) -> Message:
    return {"content": [{"type": "text", "text": text}]}
