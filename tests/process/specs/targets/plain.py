"""A server as others build them: tools of its own to open and close groups, texts for answers. Legacy only, no library.

`files` has the child `files.edit`; `sandbox` and `live` exclude one another; `core` is open from the start. The first
argument may name a fault, or a way of its own: refusals as errors of the protocol, a group that shares its only tool.
"""

import json
import os
import sys
from typing import Any

FAULT = sys.argv[1] if len(sys.argv) > 1 else ""
TOOLS = {"files": ["read"], "files.edit": ["write"], "sandbox": ["rehearse"], "live": ["execute"], "core": ["help"]}
if FAULT == "a shared tool":
    TOOLS |= {"copy": ["read"], "copy.more": ["extra"]}
PARTNERS = {"sandbox": "live", "live": "sandbox"}
active = {"core"}


def tools() -> list[dict[str, Any]]:
    verbs = [f"{verb}_{path.replace('.', '_')}" for path in TOOLS for verb in ("open", "close")]
    names = sorted(["status", *verbs, *(tool for path in active for tool in TOOLS[path])])
    return [{"name": name, "inputSchema": {"type": "object"}} for name in names]


def switch(verb: str, path: str) -> str:
    """Open or close a group, and return why not if it can't be."""
    if verb == "open":
        parent = path.rpartition(".")[0]
        if parent and parent not in active:
            return f"open {parent} first"
        active.discard(PARTNERS.get(path, ""))
        if FAULT == "parents close" and parent:
            active.discard(parent)
        active.add(path)
    else:
        active.discard(path)
        if path == "files" and FAULT != "children stay":
            active.discard("files.edit")
    return ""


def call(name: str) -> dict[str, Any]:
    verb, _, shown = name.partition("_")
    path = next((path for path in TOOLS if path.replace(".", "_") == shown), None)
    if verb not in ("open", "close"):
        listed = any(tool["name"] == name for tool in tools())
        return {"content": [{"type": "text", "text": name if listed else "no such tool"}], "isError": not listed}
    before = tools()
    problem = switch(verb, path) if path else f"there is no group {shown}"
    if tools() != before and FAULT != "never notifies":
        send({"method": "notifications/tools/list_changed"})
    done = f"done by {os.getpid()}" if FAULT == "each answers otherwise" else "done"
    return {"content": [{"type": "text", "text": problem or done}], "isError": bool(problem)}


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer: dict[str, Any] = {"error": {"code": -32601, "message": "Method not found"}}
    if asked["method"] == "initialize":
        version, capabilities = asked["params"]["protocolVersion"], {"tools": {"listChanged": True}}
        info = {"name": "plain", "version": "1"}
        answer = {"result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}}
    elif asked["method"] == "tools/list":
        answer = {"result": {"tools": tools()}}
    elif asked["method"] == "tools/call":
        result = call(asked["params"]["name"])
        answer = {"result": result}
        if FAULT == "protocol errors" and result["isError"]:
            answer = {"error": {"code": -32602, "message": result["content"][0]["text"]}}
    send({"id": asked["id"], **answer})
