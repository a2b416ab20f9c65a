"""A server with something of everything, in the legacy era, or with `modern` in the modern one alone; without an SDK.

It serves one client over standard input and output: `upstream.py FILE [modern]`. FILE gets a line when a call begins
to wait, and one when that is cancelled.
"""

import json
import sys
from pathlib import Path
from typing import Any

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The revisions before that one, of which it speaks that which it is asked for."""
INPUT = {
    "type": "object",
    "properties": {"path": {"type": "string", "pattern": "^[a-z]+$"}, "order": {"$ref": "#/$defs/order"}},
    "required": ["path"],
    "$defs": {"order": {"oneOf": [{"const": "up"}, {"type": "integer", "minimum": 1}]}},
    "additionalProperties": False,
}
OUTPUT = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "elicit": ("elicitation/create", {"message": "How many?", "requestedSchema": {"type": "object", "properties": {}}}),
    "sample": (
        "sampling/createMessage",
        {"messages": [{"role": "user", "content": {"type": "text", "text": "Think."}}], "maxTokens": 10},
    ),
    "roots": ("roots/list", {}),
}
PAGE = {"mode": "url", "message": "Pay first.", "url": "https://example.org/pay?n=1", "elicitationId": "p-1"}
REFUSALS = {"visit": {"code": -32042, "message": "Pay first.", "data": {"elicitations": [PAGE]}}}
"""By the tool whose calls it refuses: the error."""
OTHERS = ("read", "picture", "fail", "steps", "say", "wait", "grow", "touch", "later", "only_later", "show")
PLAIN = (*OTHERS, *QUESTIONS, *REFUSALS)
ABILITIES = {
    "tools": {"listChanged": True},
    "prompts": {},
    "resources": {"subscribe": True},
    "completions": {},
    "logging": {},
    "experimental": {"example.org/weather": {}},
}
VIEW = "ui://upstream/board.html"
"""The view of the tool `show`, which no list has."""
TASKS: dict[str, Any] = {"tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}
SUPPORT = {"later": "optional", "only_later": "required"}
"""By the tool that can be called as a task: whether it has to be."""


class Upstream:
    """One running server."""

    def __init__(self, file: Path, *, modern: bool) -> None:
        self._file = file
        self._modern = modern
        self._names = list(PLAIN)
        self._tasks: dict[str, str] = {}

    def serve(self) -> None:
        """Answer until the input ends."""
        while line := sys.stdin.readline():
            self._take(json.loads(line))

    def _take(self, message: dict[str, Any]) -> None:
        if "id" in message and "method" in message:
            self._answer(message["id"], message["method"], message.get("params") or {})

    def _answer(self, number: Any, method: str, params: dict[str, Any]) -> None:
        refusal = REFUSALS.get(params.get("name", "")) if method == "tools/call" else None
        if refusal is not None:
            self._write({"id": number, "error": refusal})
            return
        result = self._result(number, method, params)
        if result is None:
            self._write({"id": number, "error": {"code": -32601, "message": "Method not found"}})
        else:
            about = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"} if self._modern else {}
            self._write({"id": number, "result": {**about, **result}})

    def _result(self, number: Any, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        info = {
            "capabilities": ABILITIES if self._modern else {**ABILITIES, **TASKS},
            "serverInfo": {"name": "upstream", "version": "1"},
        }
        match method:
            case "initialize" if not self._modern:
                asked = params.get("protocolVersion")
                return {"protocolVersion": asked if asked in LEGACY else LEGACY[0], **info}
            case "server/discover" if self._modern:
                return {"supportedVersions": [MODERN], **info}
            case "tools/list":
                return {"tools": [self._definition(name) for name in self._names]}
            case "tools/call":
                if "task" in params and params["name"] in SUPPORT:
                    self._tasks["t-1"] = "working"
                    return {"task": self._state("t-1")}
                if SUPPORT.get(params["name"]) == "required":
                    return None
                return self._call(number, params["name"], params.get("_meta") or {})
            case "tasks/get" | "tasks/result" | "tasks/cancel" if params["taskId"] in self._tasks:
                return self._task(method, params["taskId"])
            case "prompts/list":
                return {"prompts": [{"name": "greet", "arguments": [{"name": "who"}]}]}
            case "completion/complete":
                return {"completion": {"values": [f"{params['argument']['value']}da"]}}
            case "prompts/get":
                return {"messages": [{"role": "user", "content": {"type": "text", "text": "Hello"}}]}
            case "resources/list":
                return {"resources": [{"name": "page", "uri": "upstream://page"}]}
            case "resources/templates/list":
                return {"resourceTemplates": [{"name": "one", "uriTemplate": "upstream://pages/{name}"}]}
            case "resources/read":
                return {"contents": [{"uri": params["uri"], "text": "a page"}]}
            case "weather/at":  # of its extension
                return {"wind": params["city"]}
            case "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe":
                return {}
        return None

    def _definition(self, name: str) -> dict[str, Any]:
        made: dict[str, Any] = {"name": name, "description": f"Does {name}.", "inputSchema": INPUT}
        if name == "show":
            made["_meta"] = {"ui": {"resourceUri": VIEW}}
        if name in SUPPORT and not self._modern:
            made["execution"] = {"taskSupport": SUPPORT[name]}
        return {**made, "outputSchema": OUTPUT} if name == "read" else made

    def _task(self, method: str, task: str) -> dict[str, Any]:
        """Answer a request about a task, which ends once it has been asked for."""
        if method == "tasks/cancel":
            self._tasks[task] = "cancelled"
            self._note("task cancelled")
        state = self._state(task)
        if self._tasks[task] == "working":
            self._tasks[task] = "completed"
        return state if method != "tasks/result" else {"content": [{"type": "text", "text": "did it"}]}

    def _state(self, task: str) -> dict[str, Any]:
        times = dict.fromkeys(("createdAt", "lastUpdatedAt"), "2026-01-01T00:00:00Z")
        return {"taskId": task, "status": self._tasks[task], **times, "ttl": 60_000, "pollInterval": 50}

    def _call(self, number: Any, name: str, meta: dict[str, Any]) -> dict[str, Any]:
        said: dict[str, Any] = {"content": [{"type": "text", "text": f"ran {name}"}]}
        match name:
            case "read":
                said["structuredContent"] = {"count": 3}
            case "picture":
                return {"content": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]}
            case "fail":
                said["isError"] = True
            case "steps" if "progressToken" in meta:
                token = {"progressToken": meta["progressToken"]}
                self._notify("progress", **token, progress=1, total=2, message="half")
            case "say":
                self._notify("message", level="warning", data="said")
            case "grow":
                self._names = list(dict.fromkeys([*self._names, "grown"]))
                self._notify("tools/list_changed")
            case "touch":
                self._notify("resources/updated", uri="upstream://page")
            case "wait":
                self._wait(number)
            case "elicit" | "sample" | "roots":
                said["content"][0]["text"] = self._ask(name)
        return said

    def _wait(self, number: Any) -> None:
        self._note("waiting")
        while line := sys.stdin.readline():
            message = json.loads(line)
            if message.get("method") == "notifications/cancelled" and message["params"]["requestId"] == number:
                self._note("cancelled")
                return
            self._take(message)

    def _ask(self, name: str) -> str:
        method, params = QUESTIONS[name]
        self._write({"id": name, "method": method, "params": params})
        while line := sys.stdin.readline():
            message = json.loads(line)
            if message.get("id") == name and "method" not in message:
                return json.dumps(message.get("result") or message["error"])
            self._take(message)
        return ""

    def _note(self, what: str) -> None:
        with self._file.open("a") as file:
            file.write(f"{what}\n")

    def _notify(self, what: str, **params: Any) -> None:
        self._write({"method": f"notifications/{what}", "params": params})

    def _write(self, message: dict[str, Any]) -> None:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


if __name__ == "__main__":
    Upstream(Path(sys.argv[1]), modern="modern" in sys.argv[2:]).serve()
