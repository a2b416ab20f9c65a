"""A server that speaks JSON-RPC by hand, so that it can do what no library would: `raw.py BEHAVIOUR [FILE]`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

OBJECT = {"type": "object"}
PLAIN = [{"name": name, "description": f"Does {name}", "inputSchema": OBJECT} for name in ("answer", "one", "two")]
BROKEN: list[Any] = [
    {"name": "good", "inputSchema": OBJECT},
    {"name": "no_schema"},
    {"name": "array_root", "inputSchema": {"type": "array"}},
    {"name": "bad_schema", "inputSchema": {"type": "object", "properties": {"x": {"type": "nonsense"}}}},
    {"name": "bad_output", "inputSchema": OBJECT, "outputSchema": {"type": 5}},
    {"name": "bad_title", "inputSchema": OBJECT, "title": 5},
    {"name": "remote", "inputSchema": {"type": "object", "$ref": "https://example.org/schema.json"}},
    "not an object",
    {"inputSchema": OBJECT},
    {"name": "good", "inputSchema": OBJECT, "description": "again"},
    {"name": "only_task", "inputSchema": OBJECT, "execution": {"taskSupport": "required"}},
    {
        "name": "old_draft",
        "inputSchema": {"$schema": "http://json-schema.org/draft-07/schema#", **OBJECT},
        "annotations": {"title": None, "readOnlyHint": True, "destructiveHint": None},
        "title": None,
        "outputSchema": None,
    },
]
WORDS = ["issue_get", "issue.list", "issueClose", "issue_open", "issue_lock", "issue_pin", "search"]
EVIL = (
    "\x1b[31mred\x1b]0;title\x07 [bold]b[/bold] {0.__class__} {tool} %s %(x)s ../../etc/passwd \u202eturned\u202c "
    "<script>alert(1)</script> <B>&amp;</B> \r\nforged line\x00\x9b2J"
)
EVIL_NAMES = [
    "../../etc/passwd",
    "\x1b[31mred",
    "{0.__class__}",
    "[bold]x[/bold]",
    "a\nb",
    "\u202eabc",
    "<b>x</b>",
    "%s%s",
]
EVIL_URIS = ["file:///../../etc/passwd", "x://\x1b[31m", "y://{0.__class__}", "z://[bold]x[/bold]"]
FULL = {
    "name": "full",
    "title": "Everything",
    "description": "Has all that a definition may have",
    "inputSchema": {"type": "object", "properties": {"b": {"type": "integer"}, "a": {}}, "x-extra": [1, None]},
    "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
    "annotations": {"title": "T", "readOnlyHint": True, "openWorldHint": False},
    "icons": [{"src": "https://example.org/i.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}],
    "_meta": {"example.org/x": {"deep": [1, 2.5, None]}},
}


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False), flush=True)


def tools_of(behaviour: str, params: dict[str, Any]) -> dict[str, Any]:
    if behaviour == "broken":
        return {"tools": BROKEN}
    if behaviour == "hostile":
        texts = {"title": EVIL, "description": EVIL, "inputSchema": {**OBJECT, "description": EVIL}}
        return {"tools": [{"name": name, **texts} for name in EVIL_NAMES]}
    if behaviour == "words":
        return {"tools": [{"name": name, "inputSchema": OBJECT} for name in WORDS]}
    if behaviour == "many":
        return {"tools": [{"name": f"tool_{number}", "inputSchema": OBJECT} for number in range(2000)]}
    if behaviour == "full":
        return {"tools": [FULL]}
    if behaviour == "not-a-list":
        return {"tools": 5}
    if behaviour == "pages":
        page = int(params.get("cursor", "0"))
        more = {"nextCursor": str(page + 1)} if page < 2 else {}
        return {"tools": [PLAIN[page]], **more}
    if behaviour == "loop":
        return {"tools": [PLAIN[1] if params else PLAIN[0]], "nextCursor": "again"}
    return {"tools": PLAIN}


def call(request: dict[str, Any]) -> None:
    """Answer a call with the result or the error that its arguments ask for; by default, with its own parameters."""
    arguments = request["params"]["arguments"]
    if "answer" in arguments:
        send({"id": request["id"], **arguments["answer"]})
    elif "line" in arguments:
        print(f'{{"jsonrpc": "2.0", "id": {json.dumps(request["id"])}, "result": {arguments["line"]}}}', flush=True)
    elif "error" in arguments:
        send({"id": request["id"], "error": arguments["error"]})
    else:
        said = {"content": [{"type": "text", "text": json.dumps(request["params"])}]}
        send({"id": request["id"], "result": arguments.get("result", said)})


def initialize(behaviour: str, request: dict[str, Any]) -> None:
    if behaviour == "crash":
        sys.exit("the license has expired")
    if behaviour == "refuses":
        send({"id": request["id"], "error": {"code": -32603, "message": "no database"}})
        return
    if behaviour == "refuses-hostile":
        send({"id": request["id"], "error": {"code": -32603, "message": EVIL}})
        return
    if behaviour == "nonsense":
        send({"id": request["id"], "result": {"hello": "world"}})
        return
    version = request["params"]["protocolVersion"]
    info = {"name": "raw", "version": "1.0"}
    result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info, "instructions": "Be kind."}
    if behaviour == "hostile":
        info = {"name": EVIL, "title": EVIL, "version": EVIL}
        result |= {"capabilities": {"tools": {}, "resources": {}}, "serverInfo": info, "instructions": EVIL}
    send({"id": request["id"], "result": result})


def serve(behaviour: str) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        method = request.get("method")
        if behaviour == "garbage":
            print("Listening …\n\n{half of\n[1, 2]", flush=True)
            sys.stdout.buffer.write(b"\xff\xfe broken bytes\n")
        if behaviour == "hang" or "id" not in request:
            continue
        if method == "server/discover" and behaviour == "exits":
            sys.exit("Error: expected initialize request, but received server/discover")
        if method == "server/discover" and behaviour != "unasked":
            print("Failed to validate request: server/discover", file=sys.stderr, flush=True)
            send({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
        elif method == "initialize":
            initialize(behaviour, request)
        elif method == "tools/list" and behaviour == "toolless":
            send({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
        elif method == "tools/list" and behaviour == "list-refused":
            send({"id": request["id"], "error": {"code": -32603, "message": "no list today"}})
        elif method == "tools/list":
            send({"id": request["id"], "result": tools_of(behaviour, request.get("params") or {})})
        elif method == "resources/list":
            listed = [{"uri": uri, "name": EVIL, "description": EVIL} for uri in EVIL_URIS]
            send({"id": request["id"], "result": {"resources": listed}})
        elif method == "resources/templates/list":
            send({"id": request["id"], "result": {"resourceTemplates": []}})
        elif method == "resources/read":
            answer = {"contents": [{"uri": request["params"]["uri"], "text": EVIL}]}
            send({"id": request["id"], "result": answer})
        elif method == "tools/call" and behaviour == "hostile":
            send({"id": request["id"], "error": {"code": -32000, "message": EVIL}})
        elif method == "tools/call" and behaviour == "dies":
            sys.exit(1)
        elif method == "tools/call" and behaviour == "traceback":
            raise KeyError("ledger")
        elif method == "tools/call" and behaviour == "endless":
            print("x" * 2_000_000, end="", flush=True)
        elif method == "tools/call" and behaviour == "storm":
            for _ in range(2000):
                send({"method": "notifications/tools/list_changed"})
            call(request)
        elif method == "tools/call" and behaviour != "silent":
            call(request)


def main() -> None:
    behaviour = sys.argv[1]
    if behaviour == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if behaviour == "parent":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        Path(sys.argv[2]).write_text(str(child.pid))
    elif len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(str(os.getpid()))
    if behaviour == "talks":
        print("Usage: talks\n  but not MCP")
        return
    if behaviour == "deaf":
        signal.pause()
    serve(behaviour)
    if behaviour == "stubborn":
        signal.pause()


if __name__ == "__main__":
    main()
