"""The least that a server made for the kit has: two verbs for it, no capability, texts for answers. Legacy only.

With an argument it has the capability "errors" too.
"""

import json
import sys
from typing import Any

setup: dict[str, Any] = {}
active: set[str] = set()


def excluded(path: str) -> set[str]:
    return {other for members in setup["exclusions"] if path in members for other in members if other != path}


def below(path: str) -> set[str]:
    return {group["path"] for group in setup["groups"] if f"{group['path']}.".startswith(f"{path}.")}


def ancestors(path: str) -> list[str]:
    return [path[:place] for place, letter in enumerate(path) if letter == "."]


def names() -> list[str]:
    controls = [f"{group['path']}.{verb}" for group in setup["groups"] for verb in ("activate", "deactivate")]
    tools = [
        f"{tool['group']}.{tool['name']}" if tool["group"] else tool["name"]
        for tool in setup["tools"]
        if tool["group"] is None or tool["group"] in active
    ]
    return sorted([*controls, *tools, "conformance_driver"])


def text(said: str, is_error: bool = False, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}], "isError": is_error, **more}


def respond(verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if verb == "hello":
        return {"protocol": 1, "capabilities": sys.argv[1:]}
    if verb != "configure":
        return {"error": "NotSupported"}
    active.clear()
    setup.update(arguments["setup"])
    return {}


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
    if name == "conformance_driver":
        return text("ok", structuredContent=respond(arguments["verb"], arguments["arguments"]))
    if name not in names():
        return None
    path, _, verb = name.rpartition(".")
    if verb == "activate" and path not in active:
        parent = path.rpartition(".")[0]
        if parent and parent not in active:
            topmost = next(above for above in ancestors(path) if above not in active)
            error = {"error": "ParentInactive", "missing": topmost}
            return text("open the parent first", is_error=True, _meta={"dev.toolfold/error": error})
        for other in excluded(path):
            active.difference_update(below(other))
        active.add(path)
    if verb == "deactivate":
        active.difference_update(below(path))
    return text("done")


for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer: dict[str, Any] = {"error": {"code": -32601, "message": "Method not found"}}
    if asked["method"] == "initialize":
        version, info = asked["params"]["protocolVersion"], {"name": "minimal", "version": "1"}
        answer = {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
    elif asked["method"] == "tools/list":
        answer = {"result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names()]}}
    elif asked["method"] == "tools/call":
        result = call(asked["params"]["name"], asked["params"]["arguments"])
        answer = {"result": result} if result else {"error": {"code": -32602, "message": "Unknown tool"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
