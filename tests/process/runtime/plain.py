"""A server that starts at once: `plain.py RECORD`, with a tool that reads and one that adds a line to a file."""

from __future__ import annotations

import json
import os
import sys
import time
from threading import Lock, Thread
from typing import Any

TEXT = {"type": "string"}
SCHEMA = {"type": "object", "properties": {"word": TEXT, "seconds": {"type": "number"}}}
TOOLS = [
    {"name": "read", "annotations": {"readOnlyHint": True}, "inputSchema": SCHEMA},
    {"name": "record", "annotations": {"readOnlyHint": False}, "inputSchema": SCHEMA},
]
ABOUT = {
    "protocolVersion": "2025-11-25",
    "serverInfo": {"name": "plain", "version": "1"},
    "capabilities": {"tools": {}},
}
printing = Lock()


def say(number: Any, **answer: Any) -> None:
    with printing:
        print(json.dumps({"jsonrpc": "2.0", "id": number, **answer}), flush=True)


def call(number: Any, name: str, word: str, seconds: float) -> None:
    """Answer with the word after some seconds; what is recorded is so before."""
    if name == "record":
        file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{word}\n".encode())
        os.close(file)
    time.sleep(seconds)
    say(number, result={"content": [{"type": "text", "text": word}]})


for line in sys.stdin:
    message = json.loads(line)
    asked, method, given = message.get("id"), message.get("method"), message.get("params", {})
    if method == "initialize":
        say(asked, result=ABOUT)
    elif method == "tools/list":
        say(asked, result={"tools": TOOLS})
    elif method == "tools/call":
        Thread(target=call, args=(asked, given["name"]), kwargs=given["arguments"], daemon=True).start()
    elif asked is not None and method is not None:
        say(asked, error={"code": -32601, "message": "no"})
