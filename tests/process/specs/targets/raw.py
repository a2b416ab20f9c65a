"""A bare server over stdio, legacy only, that misbehaves as its first argument says. No library: so it can be wrong."""

import json
import os
import subprocess
import sys
import time
from typing import Any

FAULT = sys.argv[1] if len(sys.argv) > 1 else "none"
TOOL = {"name": "pid", "description": "Whose process this is.", "inputSchema": {"type": "object"}}


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def initialized(params: dict[str, Any]) -> dict[str, Any]:
    if FAULT == "wrong first answer":
        return {"capabilities": {}, "serverInfo": {"name": "raw", "version": "1"}, "protocolVersion": 7}
    version = "1999-01-01" if FAULT == "strange version" else params["protocolVersion"]
    capabilities = {"tools": {"listChanged": True}}
    return {"protocolVersion": version, "capabilities": capabilities, "serverInfo": {"name": "raw", "version": "1"}}


def listed() -> dict[str, Any]:
    if FAULT == "wrong types":
        return {"tools": [{"name": 7, "inputSchema": {}}]}
    if FAULT == "endless pages":
        return {"tools": [TOOL], "nextCursor": "again"}
    return {"tools": [TOOL]}


def called() -> dict[str, Any]:
    if FAULT == "crash":
        raise RuntimeError("the last thing it said")
    if FAULT == "hang":
        while True:
            time.sleep(60)
    if FAULT == "close":
        os.close(1)
        time.sleep(60)
    if FAULT == "garbage":
        print("Now calling the tool!", flush=True)
    if FAULT == "wrong types":
        return {"content": "none"}
    if FAULT == "notices":
        for _ in range(3):
            send({"method": "notifications/tools/list_changed"})
    pids = [os.getpid()]
    if FAULT == "leaves a child behind":
        pids.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid)
    return {"content": [{"type": "text", "text": "here"}], "structuredContent": {"pids": pids}}


def answer(message: dict[str, Any]) -> None:
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        result = initialized(params)
    elif method == "tools/list":
        result = listed()
    elif method == "tools/call":
        if params["name"] == "refuse":
            send({"id": message["id"], "error": {"code": -32000, "message": "no", "data": {"why": 1}}})
            return
        result = called()
    else:
        send({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
        return
    send({"id": message["id"], "result": result})


if FAULT == "crash at the start":
    sys.exit("no licence was found")
if FAULT == "garbage at the start":
    print("Welcome to the server!", flush=True)
if FAULT == "silence":
    time.sleep(60)
if FAULT == "mute":
    os.close(1)
    time.sleep(60)
for line in sys.stdin:
    read = json.loads(line)
    if "id" in read:
        answer(read)
if FAULT == "will not end":
    time.sleep(60)
